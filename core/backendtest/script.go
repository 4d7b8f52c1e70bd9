package backendtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// script is a sequence of calls, each at an instant of its own.
type script []scriptCall

type scriptCall struct {
	at      int64 // microseconds since the Unix epoch
	verb    verb
	charges []core.Charge // reset: of the first, only scope and key
}

type verb int

const (
	take verb = iota
	peek
	reset
)

// stage is a backend, and Exact, that play a script side by side.
type stage struct {
	world
	exact *Exact
}

func (h Harness) stage(t testing.TB, open func(testing.TB, func() time.Time) core.Backend) *stage {
	t.Helper()
	c := clockAt(newYear)
	return &stage{world{t, c, open(t, c.now)}, NewExact(c.now)}
}

// play makes one call and returns what Exact decided, and how the backend
// differs: "" if it does not.
func (s *stage) play(c scriptCall) (want []core.Decision, difference string) {
	s.Helper()
	ctx := context.Background()
	s.clock.set(c.at)
	if c.verb == reset {
		_ = s.exact.Reset(ctx, c.charges[0].Scope, c.charges[0].Key)
		if err := core.Reset(ctx, s.backend, c.charges[0].Scope, c.charges[0].Key); err != nil {
			return nil, fmt.Sprintf("Reset: %v", err)
		}
		return nil, ""
	}
	want = make([]core.Decision, len(c.charges))
	got := dirty(len(c.charges))
	var err, wantErr error
	if c.verb == peek {
		wantErr = s.exact.Peek(ctx, c.charges, want)
		err = core.Peek(ctx, s.backend, c.charges, got)
	} else {
		wantErr = s.exact.Take(ctx, c.charges, want)
		err = s.backend.Take(ctx, c.charges, got)
	}
	if wantErr != nil {
		s.Fatalf("a script makes no mistakes, but: %v", wantErr)
	}
	if err != nil {
		return nil, fmt.Sprintf("error: %v", err)
	}
	return want, diff(c.charges, got, want)
}

// replay plays a script from the start and returns its first difference and
// how far it came. A script that asks for a key of which a backend is free to
// have forgotten what is held, has none.
func (h Harness) replay(t testing.TB, open func(testing.TB, func() time.Time) core.Backend, calls script) (difference string, played int) {
	t.Helper()
	s := h.stage(t, open)
	unclear := map[account]bool{}
	for i, c := range calls {
		if i > 0 {
			for a := range s.exact.ledger.unclear(calls[i-1].at, c.at) {
				unclear[a] = true
			}
		}
		for _, charge := range c.charges {
			if unclear[account{charge.Scope, charge.Key}] {
				return "", 0
			}
		}
		if _, difference := s.play(c); difference != "" {
			return difference, i + 1
		}
	}
	return "", 0
}

// unclear are the accounts of which a backend may have forgotten what Exact
// holds, once the clock goes from one instant to another: they were fresh, and
// are not any more.
func (l ledger) unclear(from, to int64) map[account]bool {
	found := map[account]bool{}
	if to < from {
		for a, u := range l {
			if u.isFresh(from) && !u.isFresh(to) {
				found[a] = true
			}
		}
	}
	return found
}

// shrink cuts a script that ends in a difference down to a short one that
// still does, in at most so many replays.
func (h Harness) shrink(t testing.TB, open func(testing.TB, func() time.Time) core.Backend, calls script, replays int) (script, string) {
	t.Helper()
	difference, played := h.replay(t, open, calls)
	if difference == "" {
		return calls, ""
	}
	calls = calls[:played]
	for size := len(calls) / 2; size > 0; size /= 2 {
		for from := 0; from+size < len(calls) && replays > 0; replays-- {
			shorter := append(append(script{}, calls[:from]...), calls[from+size:]...)
			if d, played := h.replay(t, open, shorter); d != "" {
				calls, difference = shorter[:played], d
			} else {
				from += size
			}
		}
	}
	return calls, difference
}

// report fails the test with a difference and the shortest way to it.
func (h Harness) report(t testing.TB, open func(testing.TB, func() time.Time) core.Backend, calls script, difference string) {
	t.Helper()
	short, d := h.shrink(t, open, calls, 400)
	if d == "" {
		t.Errorf("call %d:\n%s\n(it does not happen again when the same calls are made from the start)", len(calls), difference)
		return
	}
	t.Errorf("after %d calls, which can be cut down to %d:\n%s", len(calls), len(short), d)
	for i, c := range short {
		t.Logf("  %s %s", instant(c.at), c.show())
		if i > 0 {
			t.Logf("    (%s later)", duration(c.at-short[i-1].at))
		}
	}
}

func (c scriptCall) show() string {
	s := [...]string{take: "take", peek: "peek", reset: "reset"}[c.verb]
	for _, charge := range c.charges {
		if c.verb == reset {
			return s + " " + shorten(charge.Scope) + " " + shorten(charge.Key)
		}
		s += " " + show(charge)
	}
	return s
}
