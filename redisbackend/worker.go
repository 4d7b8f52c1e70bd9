package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/list"
)

// worker makes the calls of a lane one after the other, on a goroutine of its own, until
// no request waits.
type worker struct {
	lane    *lane
	run     func()  // work; a method value made once, so that go allocates nothing
	solo    *bundle // the bundle of a request that need not wait
	bundles []*bundle
	calls   calls
	bound   context.Context // of the call
	since   time.Time
	probes  bool // it was started above the limit of calls, and ends after one
}

// pipeliner is a client that can send several commands at once.
type pipeliner interface{ Pipeline() redis.Pipeliner }

func panicked(v any) error { return fmt.Errorf("panic in a hook of the client: %v", v) }

var errExited = errors.New("a hook of the client ended the goroutine by runtime.Goexit")

func (w *worker) work() {
	asking := false // not a field: after end, w may belong to another goroutine
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
	w.lane.send(w.context(), &w.calls, w.bundles)
	return nil
}

// context returns the context of a call, with the values of its first request's context.
func (w *worker) context() context.Context {
	values := w.bundles[0].one().ctx
	if values == context.Background() {
		return w.bound
	}
	return &callContext{w.bound, values}
}

// end answers the requests of a call and reports whether w has another call to make. If it
// has not, w has been pooled. failure, if not nil, is the error of the whole call.
func (w *worker) end(failure error) (more bool) {
	l, now := w.lane, time.Now()
	answered, succeeded, latest := false, false, failure
	weight := 0
	for _, c := range w.bundles {
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
		bundle *bundle
		rest   *list.Node[*ask]
	}
	var again []unfinished
	answer := func(c *bundle, d decided, err error) {
		if err == nil {
			l.denyWaiting(c, d)
		}
		if rest := c.answer(d, err); rest != nil {
			again = append(again, unfinished{c, rest})
		}
	}
	if failure != nil {
		for _, c := range w.bundles {
			answer(c, decided{}, failure)
		}
	} else {
		for i := range w.calls.all {
			w.calls.all[i].parse(answer)
		}
	}
	w.calls.reset()
	if yields {
		now = l.late.measure() // yields, and notes for how long
	}

	l.mu.Lock()
	for i := len(again) - 1; i >= 0; i-- {
		l.putBackLocked(again[i].bundle, again[i].rest)
	}
	for _, c := range w.bundles {
		if c == w.solo {
			c.clear()
		} else {
			l.keepLocked(c)
		}
	}
	clear(w.bundles)
	w.bundles = w.bundles[:0]
	if w.probes {
		l.probing, w.probes = false, false
	}
	if l.calls <= l.allowedLocked(now) {
		l.collectLocked(w)
	}
	if len(w.bundles) == 0 {
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
