package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// worker makes one call of a lane after another, on a goroutine of its own, until
// nothing waits.
type worker struct {
	lane   *lane
	run    func() // work; a method value made once, so that go allocates nothing
	solo   *crowd // of a request that need not wait
	crowds []*crowd
	calls  calls
	bound  context.Context // of the call
	since  time.Time
	probes bool // there was no call to spare: it ends after one
}

// pipeliner is a client that can send several commands at once.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// pipeline is what a lane needs of a [redis.Pipeliner].
type pipeline interface {
	EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd
	Exec(context.Context) ([]redis.Cmder, error)
}

// pipelineTo returns a pipeline to client, or nil if client has none.
func pipelineTo(client redis.Scripter) pipeline {
	switch client := client.(type) {
	case unrepeatedClient:
		return unrepeatedPipe{client.spreading.Pipeline()}
	case pipeliner:
		return client.Pipeline()
	}
	return nil
}

func panicked(v any) error { return fmt.Errorf("panic in a hook of the client: %v", v) }

var errExited = errors.New("a hook of the client ended the goroutine by runtime.Goexit")

func (w *worker) work() {
	asking := false // not of w, which is somebody else's in the end
	defer func() {
		if asking { // by runtime.Goexit
			if w.end(errExited) {
				go w.run()
			}
		}
	}()
	now := time.Now()
	w.lane.late.note(now, now.Sub(w.since))
	for {
		asking = true
		err := w.ask()
		asking = false
		if !w.end(err) {
			return
		}
	}
}

// ask makes the call, and turns a panic of a hook into an error.
func (w *worker) ask() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	w.lane.send(w.context(), &w.calls, w.crowds)
	return nil
}

// context returns the context of a call, with the values of the first who asked.
func (w *worker) context() context.Context {
	values := w.crowds[0].one().ctx
	if values == context.Background() {
		return w.bound
	}
	return &callContext{w.bound, values}
}

// end hands out what a call brought and reports whether there is another to make.
// If there is not, w is somebody else's. A failure is that of all of it.
func (w *worker) end(failure error) (more bool) {
	l, now := w.lane, time.Now()
	answered, succeeded, latest := false, false, failure
	weight := 0
	for _, c := range w.crowds {
		weight += c.rounds * c.one().weight
	}
	if failure == nil {
		for i := range w.calls.all {
			err := w.calls.all[i].reply.Err()
			succeeded = succeeded || err == nil
			if answered = answered || answers(err); err != nil {
				latest = err
			}
		}
	}
	l.mu.Lock()
	l.judgeLocked(now, w.since, answered, succeeded, latest)
	if answered {
		l.noteLocked(now, now.Sub(w.since), weight)
	}
	yields := l.yieldsLocked(now)
	l.mu.Unlock()

	type unfinished struct {
		crowd *crowd
		rest  *link[*ask]
	}
	var again []unfinished
	answer := func(c *crowd, d decided, err error) {
		if err == nil {
			l.refuse(c, d)
		}
		if rest := c.answer(d, err); rest != nil {
			again = append(again, unfinished{c, rest})
		}
	}
	if failure != nil {
		for _, c := range w.crowds {
			answer(c, decided{}, failure)
		}
	} else {
		for i := range w.calls.all {
			w.calls.all[i].parse(answer)
		}
	}
	w.calls.reset()
	if yields {
		now = l.late.measure() // and how long that takes
	}

	l.mu.Lock()
	for i := len(again) - 1; i >= 0; i-- {
		l.putBackLocked(again[i].crowd, again[i].rest)
	}
	for _, c := range w.crowds {
		if c == w.solo {
			c.clear()
		} else {
			l.keepLocked(c)
		}
	}
	clear(w.crowds)
	w.crowds = w.crowds[:0]
	if w.probes {
		l.probing, w.probes = false, false
	}
	if l.calls <= l.allowedLocked(now) {
		l.collectLocked(w)
	}
	if len(w.crowds) == 0 {
		w.bound = nil
		l.calls--
		l.watchLocked()
		l.mu.Unlock()
		l.workers.Put(w)
		return false
	}
	w.bound, w.since = l.contextLocked(now), now
	l.mu.Unlock()
	return true
}
