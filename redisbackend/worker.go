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
	lane    *lane
	run     func() // work; a method value made once, so that go allocates nothing
	solo    crowd  // of a request that need not wait
	crowds  []*crowd
	replies []*redis.Cmd
	bound   context.Context // of the call
	since   time.Time
	probes  bool // there was no call to spare: it ends after one
}

// pipeliner is a client that can send several commands at once.
type pipeliner interface{ Pipeline() redis.Pipeliner }

func panicked(v any) error { return fmt.Errorf("panic in a hook of the client: %v", v) }

var errExited = errors.New("a hook of the client ended the goroutine by runtime.Goexit")

func (w *worker) work() {
	asking := false // not of w, which is somebody else's in the end
	defer func() {
		if asking { // by runtime.Goexit
			if w.end(nil, errExited) {
				go w.run()
			}
		}
	}()
	now := time.Now()
	w.lane.late.note(now, now.Sub(w.since))
	for {
		asking = true
		replies, err := w.ask()
		asking = false
		if !w.end(replies, err) {
			return
		}
	}
}

// ask makes the call, and turns a panic of a hook into an error.
func (w *worker) ask() (replies []*redis.Cmd, err error) {
	defer func() {
		if v := recover(); v != nil {
			replies, err = nil, panicked(v)
		}
	}()
	w.replies = append(w.replies[:0], make([]*redis.Cmd, len(w.crowds))...)
	w.lane.send(w.context(), w.crowds, w.replies)
	return w.replies, nil
}

// context returns the context of a call, with the values of the first who asked.
func (w *worker) context() context.Context {
	values := w.crowds[0].first.ctx
	if values == context.Background() {
		return w.bound
	}
	return &callContext{w.bound, values}
}

// end hands out what a call brought and reports whether there is another to make.
// If there is not, w is somebody else's.
func (w *worker) end(replies []*redis.Cmd, err error) (more bool) {
	l, now := w.lane, time.Now()
	failure, answered, decided := err, false, false
	for _, reply := range replies {
		err := reply.Err()
		decided = decided || err == nil
		if answered = answered || answers(err); err != nil {
			failure = err
		}
	}
	l.mu.Lock()
	l.judgeLocked(now, w.since, answered, decided, failure)
	l.mu.Unlock()

	type unfinished struct {
		crowd *crowd
		rest  *ask
	}
	var again []unfinished
	for i, c := range w.crowds {
		reply, err := []any(nil), err
		if err == nil {
			reply, err = replies[i].Slice()
		}
		var denials []denial
		if err == nil {
			denials = c.denials(reply)
		}
		for _, d := range denials {
			l.refuse(d)
		}
		if rest := c.answer(reply, err); rest != nil {
			again = append(again, unfinished{c, rest})
		}
	}

	l.mu.Lock()
	for i := len(again) - 1; i >= 0; i-- {
		l.putBackLocked(again[i].crowd, again[i].rest)
	}
	for _, c := range w.crowds {
		if c == &w.solo {
			*c = crowd{}
		} else {
			l.keepLocked(c)
		}
	}
	clear(w.crowds)
	clear(w.replies)
	w.crowds, w.replies = w.crowds[:0], w.replies[:0]
	if w.probes {
		l.probing, w.probes = false, false
	}
	if l.calls <= l.most {
		l.collectLocked(w)
	}
	if len(w.crowds) == 0 {
		w.bound = nil
		l.calls--
		l.mu.Unlock()
		l.workers.Put(w)
		return false
	}
	w.bound, w.since = l.contextLocked(now), now
	l.mu.Unlock()
	return true
}

// send makes the call: one command, or a pipeline. Each reply has its own error.
func (l *lane) send(ctx context.Context, crowds []*crowd, replies []*redis.Cmd) {
	client, ok := l.client.(pipeliner)
	if !ok || len(crowds) == 1 {
		for i, c := range crowds {
			keys, args := c.arguments()
			replies[i] = takeScript.run(ctx, l.client, keys, args...)
		}
		return
	}
	l.pipeline(ctx, client, crowds, replies)
	for _, reply := range replies {
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			l.teach(ctx, client, crowds, replies)
			return
		}
	}
}

// pipeline sends the crowds that have no reply.
func (l *lane) pipeline(ctx context.Context, client pipeliner, crowds []*crowd, replies []*redis.Cmd) {
	pipe := client.Pipeline()
	for i, c := range crowds {
		if replies[i] == nil {
			keys, args := c.arguments()
			replies[i] = pipe.EvalSha(ctx, takeScript.digest, keys, args...)
		}
	}
	_, _ = pipe.Exec(ctx) // is also the error of each command
}

// teach sends the crowds again whose server does not know the script: the first
// with the source, which the others then find.
func (l *lane) teach(ctx context.Context, client pipeliner, crowds []*crowd, replies []*redis.Cmd) {
	taught := false
	for i, c := range crowds {
		if !redis.HasErrorPrefix(replies[i].Err(), "NOSCRIPT") {
			continue
		}
		if replies[i] = nil; !taught {
			keys, args := c.arguments()
			replies[i] = l.client.Eval(ctx, takeScript.source, keys, args...)
			taught = true
		}
	}
	l.pipeline(ctx, client, crowds, replies)
	for i, c := range crowds {
		if redis.HasErrorPrefix(replies[i].Err(), "NOSCRIPT") { // kept elsewhere, or flushed again
			keys, args := c.arguments()
			replies[i] = takeScript.run(ctx, l.client, keys, args...)
		}
	}
}
