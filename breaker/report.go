package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// State says whether a breaker asks its backend.
type State uint8

const (
	// Closed: every decision asks the backend.
	Closed State = iota
	// Open: no decision asks the backend, but for a few probes.
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
	State State         // what it is now
	At    time.Time     // since when
	After time.Duration // how long it was in the other state
	Err   error         // the failure that opened it; nil if it has closed
}

// State returns whether the breaker is open, for health checks and metrics. It
// takes no lock. It says what decisions of late have shown: nothing of a server
// that none of them asked. Where keys are spread over several servers, it stays
// [Closed] while another server decided well within the last minute, as far as
// is known; the log of the backend reports each server.
func (b *Breaker) State() State {
	if gobreaker.State(b.state.Load()) == gobreaker.StateClosed {
		return Closed
	}
	return Open
}

// change follows the circuit, which calls it with its lock held. Between failed
// probes, it is open as far as anybody else is concerned.
func (b *Breaker) change(_ string, from, to gobreaker.State) {
	b.state.Store(int32(to))
	now := time.Now()
	switch {
	case from == gobreaker.StateClosed:
		err := b.trip.latest
		b.reports.add(Change{Open, now, b.trip.opened(now), err})
	case to == gobreaker.StateClosed:
		b.reports.add(Change{Closed, now, b.trip.closed(now), nil})
	}
}

// reports makes reports in order, on a goroutine that lives until all are made.
type reports struct {
	hook   func(Change)
	logger *slog.Logger

	mu     sync.Mutex
	queue  []Change
	making bool
}

// add has c reported soon.
func (r *reports) add(c Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, c)
	if !r.making {
		r.making = true
		go r.makeAll()
	}
}

func (r *reports) makeAll() {
	for {
		c, ok := r.next()
		if !ok {
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
		r.queue, r.making = nil, false
		return Change{}, false
	}
	c, r.queue = r.queue[0], r.queue[1:]
	return c, true
}

func (r *reports) log(c Change) {
	defer func() { _ = recover() }() // there is nowhere to say that a log panics
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
