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
	run     func() // work; a method value made once, so that go allocates nothing
	bundles []*bundle
	calls   calls
	bound   context.Context // of the call
	since   time.Time
	inline  bool // it makes the call on the goroutine of the caller
	probes  bool // it was started above the limit of calls, and ends after one
}

// pipeliner is a client that can send several commands at once.
type pipeliner interface{ Pipeline() redis.Pipeliner }

func panicked(v any) error { return fmt.Errorf("panic in a hook of the client: %v", v) }

var errExited = errors.New("a hook of the client ended the goroutine by runtime.Goexit")

func (w *worker) work() {
	now := time.Now()
	w.lane.late.note(now, now.Sub(w.since))
	for w.round() {
	}
}

// round makes a call and answers its requests. It reports whether w has another call to make. If it
// has not, w has been pooled.
func (w *worker) round() (more bool) {
	err, exits := error(errExited), true
	defer func() {
		if more = w.end(err); more && exits {
			go w.run()
		}
	}()
	err = w.ask()
	exits = false
	return false // w.end says
}

// callInline has w make its call, which is for a alone, on the goroutine of the caller. That saves two
// switches of goroutines, a third of the time that a decision takes besides Redis.
func (w *worker) callInline(a *ask) (err error) {
	defer func() { // also if a hook of the client ends the goroutine
		<-a.done
		err = a.err
	}()
	if w.round() {
		go w.run()
	}
	return nil
}

// fastAnswer is the longest answer of a server that inline calls are made to. The time of
// a caller then suffices for a new connection, too.
const fastAnswer = 2 * time.Millisecond

// mayCallInline reports whether the caller may make a call inline. A call that is made
// inline ends when the caller would leave. The caller has locked the lane.
func (l *lane) mayCallInline(ctx context.Context, now time.Time) bool {
	if ctx.Done() == nil {
		return true // it waits as long as the client does in any case
	}
	_, ends := ctx.Deadline()
	return ends && l.endsOnTime && l.answeredFast && l.late.within(now, time.Second) == 0
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
	first := w.bundles[0].one().ctx
	switch {
	case w.inline:
		return first
	case first == context.Background():
		return w.bound
	}
	return &callContext{w.bound, first}
}

// end answers the requests of a call and reports whether w has another call to make. failure, if not
// nil, is the error of the whole call.
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
	yields := !w.inline && l.yieldsLocked(now)
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
	clear(w.bundles)
	w.bundles = w.bundles[:0]
	if w.probes {
		l.probing, w.probes = false, false
	}
	w.inline = false
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

// endsCallsOnTime reports whether all calls of a client end at the deadline of their
// context, whatever they are waiting for.
func endsCallsOnTime(client redis.Scripter) bool {
	c, ok := client.(*redis.Client)
	if !ok {
		return false
	}
	o := c.Options()
	return o.ContextTimeoutEnabled && o.OnConnect == nil && o.Limiter == nil &&
		o.CredentialsProvider == nil && o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}
