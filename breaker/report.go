package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// State says whether a breaker calls its backend.
type State uint8

const (
	// Closed means that every decision calls the backend.
	Closed State = iota
	// Open means that no decision calls the backend, except for a few probes.
	Open
)

// String returns "closed" or "open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Change reports that a breaker has opened or closed.
type Change struct {
	State State         // the new state
	At    time.Time     // when it changed
	After time.Duration // how long the other state lasted
	Err   error         // the failure that opened the breaker; nil if it has closed
}

// State returns whether the breaker is open or closed, for health checks and metrics.
// It takes no lock.
//
// It says what recent decisions have shown, and nothing about a server that none of them
// asked. Where keys are spread over several servers, the breaker stays [Closed] while
// another server has decided well within the last minute; the log of the backend
// reports each server.
func (b *Breaker) State() State {
	if gobreaker.State(b.state.Load()) == gobreaker.StateClosed {
		return Closed
	}
	return Open
}

// Status returns the state of the breaker in words, since when, and how often it has
// opened, for metrics. Changes are known here in the order in which Options.OnChange is
// called, and no later.
func (b *Breaker) Status() (state string, since time.Time, opened int64) {
	b.status.Lock()
	defer b.status.Unlock()
	return b.status.state.String(), b.status.since, b.status.opened
}

// status is what [Breaker.Status] returns. It has a lock of its own: the circuit's is held
// during a change.
type status struct {
	sync.Mutex
	state  State
	since  time.Time
	opened int64
}

func (s *status) set(state State, now time.Time) {
	s.Lock()
	defer s.Unlock()
	s.state, s.since = state, now
	if state == Open {
		s.opened++
	}
}

// change is called by the circuit, under its lock. It reports nothing for a failed
// probe: from outside, the breaker is open all the time.
func (b *Breaker) change(_ string, from, to gobreaker.State) {
	b.state.Store(int32(to))
	now := time.Now()
	switch {
	case from == gobreaker.StateClosed:
		err := b.trip.latest
		b.status.set(Open, now)
		b.reports.add(Change{Open, now, b.trip.opened(now), err})
	case to == gobreaker.StateClosed:
		b.status.set(Closed, now)
		b.reports.add(Change{Closed, now, b.trip.closed(now), nil})
	}
}

// reports delivers reports in order, on a goroutine that ends when all are delivered.
type reports struct {
	hook   func(Change)
	logger *slog.Logger

	mu         sync.Mutex
	queue      []Change
	delivering bool
}

// add queues c for delivery.
func (r *reports) add(c Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, c)
	if !r.delivering {
		r.delivering = true
		go r.deliverAll()
	}
}

func (r *reports) deliverAll() {
	ended := false
	defer func() {
		if !ended { // by runtime.Goexit in the hook or the logger
			go r.deliverAll()
		}
	}()
	for {
		c, ok := r.next()
		if !ok {
			ended = true
			return
		}
		r.log(c)
		r.tell(c)
	}
}

func (r *reports) next() (c Change, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.queue, r.delivering = nil, false
		return Change{}, false
	}
	c, r.queue = r.queue[0], r.queue[1:]
	return c, true
}

func (r *reports) log(c Change) {
	defer func() { _ = recover() }() // a panic of the logger cannot be logged
	if c.State == Open {
		r.out().Warn("weir: backend degraded", "error", c.Err)
	} else {
		r.out().Info("weir: backend recovered", "after", c.After)
	}
}

func (r *reports) tell(c Change) {
	if r.hook == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			defer func() { _ = recover() }()
			r.out().LogAttrs(context.Background(), slog.LevelError, "weir: Options.OnChange of a breaker panicked", slog.Any("panic", v))
		}
	}()
	r.hook(c)
}

func (r *reports) out() *slog.Logger {
	if r.logger != nil {
		return r.logger
	}
	return slog.Default()
}
