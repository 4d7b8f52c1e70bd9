package limitstest

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// script is a sequence of calls, each with its instant.
type script []scriptCall

type scriptCall struct {
	at      int64 // microseconds since the Unix epoch
	verb    verb
	charges []backends.Charge // a reset uses scope and key of the first

	id    int64 // of a take: a settle call names it
	index int   // of a settle: the index of the charge that ends
	final int64 // of a settle
}

type verb int

const (
	take verb = iota
	peek
	reset
	settle
)

// stage is a backend and Exact, which play a script side by side.
type stage struct {
	world
	exact  *Exact
	takes  map[int64]*takenCall
	unsure map[account]bool // keys whose units in use the model does not know
}

// takenCall is a take whose charges a settle call may end.
type takenCall struct {
	charges    []backends.Charge
	got, exact []limits.Decision
}

func (h Harness) stage(t testing.TB,
	open func(testing.TB, func() time.Time) backends.Backend) *stage {
	t.Helper()
	c := h.clockAt(newYear)
	return &stage{world: world{t, c, open(t, c.now)}, exact: NewExact(c.exact),
		takes: map[int64]*takenCall{}, unsure: map[account]bool{}}
}

// play makes one call. It returns the decisions of Exact, and the difference of the backend's, or
// "".
func (s *stage) play(c scriptCall) (want []limits.Decision, difference string) {
	s.Helper()
	ctx := context.Background()
	s.clock.set(c.at)
	if c.verb == reset {
		_ = s.exact.Reset(ctx, c.charges[0].Scope, c.charges[0].Key)
		if err := backends.Reset(ctx, s.backend, c.charges[0].Scope, c.charges[0].Key); err != nil {
			return nil, fmt.Sprintf("Reset: %v", err)
		}
		return nil, ""
	}
	if c.verb == settle {
		return nil, s.settle(c)
	}
	for _, charge := range c.charges {
		if s.unsure[accountOf(charge)] {
			return nil, ""
		}
	}
	want = make([]limits.Decision, len(c.charges))
	got := dirty(len(c.charges))
	var err, wantErr error
	if c.verb == peek {
		wantErr = s.exact.Peek(ctx, c.charges, want)
		err = backends.Peek(ctx, s.backend, c.charges, got)
	} else {
		wantErr = s.exact.Take(ctx, c.charges, want)
		err = s.backend.Take(ctx, c.charges, got)
	}
	if wantErr != nil {
		s.Fatalf("a script has only valid charges, but: %v", wantErr)
	}
	if err != nil {
		return nil, fmt.Sprintf("error: %v", err)
	}
	if c.verb == take && c.id != 0 {
		s.takes[c.id] = &takenCall{c.charges, got, want}
	}
	return want, diff(c.charges, got, want)
}

// settle ends a charge on the backend and checks the settlement. Exact then returns as many units
// as the backend did, so both go on from equal states.
func (s *stage) settle(c scriptCall) (difference string) {
	s.Helper()
	taken := s.takes[c.id]
	if taken == nil {
		return "" // shrink has cut the take out
	}
	charge := taken.charges[c.index]
	a := accountOf(charge)
	for i, d := range taken.got { // nothing was taken if an enforced charge was denied
		if !d.Allowed && !taken.charges[i].Shadow {
			return ""
		}
	}
	if !taken.got[c.index].Allowed || charge.Cost == 0 || s.unsure[a] {
		return ""
	}
	e := backends.Ending{Scope: charge.Scope, Key: charge.Key, Limit: charge.Limit, Taken: charge.Cost,
		Final: c.final, Ticket: taken.got[c.index].Ticket, Lasts: charge.Lasts}
	out := []limits.Settlement{{Returned: -7, Charged: -7, Forgiven: -7}}
	if err := backends.Settle(context.Background(), s.backend, []backends.Ending{e}, out); err != nil {
		return fmt.Sprintf("Settle: %v", err)
	}
	got, t := out[0], ticketOf(taken.exact[c.index].Ticket)
	got.Rule, got.Scope, got.Taken, got.Final = "", "", 0, 0
	if a.counted == unitsHeld || e.Final >= e.Taken {
		want := s.exact.ledger.settle(s.clock.micros(), e, t)
		if got != want {
			return fmt.Sprintf("%s settled: got %+v, want %+v", show(charge), got, want)
		}
		return ""
	}
	if got != (limits.Settlement{Returned: got.Returned}) {
		return fmt.Sprintf("%s, which cost %d in the end: got %+v, want only units returned",
			show(charge), e.Final, got)
	}
	return s.follow(s.clock.micros(), e, t, got.Returned)
}

// follow returns as many units in Exact as the backend did, and checks the number that the backend
// reported.
func (s *stage) follow(now int64, e backends.Ending, t ticket, said int64) (difference string) {
	s.Helper()
	charge := backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit, Lasts: e.Lasts}
	a, n := accountOf(charge), e.Taken-e.Final
	before := s.exact.ledger[a]
	least, most := s.exact.ledger.refundable(now, a, e, t)
	if isBucket(e.Limit) && least < most {
		return s.followBucket(now, charge, t, before, said, n)
	}
	if least < most && said == 0 {
		most = 0
	}
	s.exact.ledger.refund(now, a, t, new(big.Rat).SetInt64(most))
	if before.debt > 0 &&
		slices.ContainsFunc(before.events, func(e event) bool { return e.limit != before.limit }) {
		s.unsure[a] = true // a debt under a changed limit may have ended
		return ""
	}
	if want := returned(before, s.exact.ledger[a], now, n); said != want {
		return fmt.Sprintf("%s: %d of %d units are said to be returned, want %d", show(charge), said,
			n, want)
	}
	return ""
}

// followBucket is follow for a bucket, which may return a fraction of a unit: the wait until it is
// empty says how much.
func (s *stage) followBucket(now int64, charge backends.Charge, t ticket, before usage,
	said, n int64) (difference string) {
	s.Helper()
	a, l := accountOf(charge), charge.Limit
	x, look := max(now, before.at), s.look(charge)
	all := before.without(before.find(t), new(big.Rat).SetInt64(n))
	if most := returned(before, all, now, n); said < 0 || said > most {
		return fmt.Sprintf("%s: %d of %d units are said to be returned, want at most %d", show(charge),
			said, n, most)
	}
	if micros(l)%l.Rate().Units != 0 || look.ResetAfter == 0 ||
		before.at-now > maxStepBack(before.limit) || before.limit != l {
		s.unsure[a] = true // the wait is rounded, so the level is not known
		return ""
	}
	level := ratio(l.Rate().Units, micros(l), look.ResetAfter.Microseconds()-(x-now))
	less := new(big.Rat).Sub(before.levelAt(x), level)
	if less.Sign() < 0 || less.Cmp(new(big.Rat).SetInt64(n)) > 0 {
		return fmt.Sprintf("%s: %d of %d units are said to be returned, and the key is fresh in %s, "+
			"before in %s", show(charge), said, n, look.ResetAfter, duration(before.freshAt()-now))
	}
	s.exact.ledger.refund(now, a, t, less)
	if after := s.exact.ledger[a].levelAt(x); after.Cmp(level) != 0 {
		return fmt.Sprintf("%s: more is returned than the key would have if it had never been taken: "+
			"the key is fresh in %s", show(charge), look.ResetAfter)
	}
	if want := returned(before, s.exact.ledger[a], now, n); said != want {
		return fmt.Sprintf("%s: %d of %d units are said to be returned, want %d", show(charge), said,
			n, want)
	}
	return ""
}

// replay plays a script from the start. It returns the first difference and the number of calls
// played. A script that charges a key that a backend may have forgotten has no difference.
func (h Harness) replay(t testing.TB, open func(testing.TB, func() time.Time) backends.Backend,
	calls script) (difference string, played int) {
	t.Helper()
	s := h.stage(t, open)
	forgotten := map[account]bool{}
	for i, c := range calls {
		if i > 0 {
			for a := range s.exact.ledger.forgettable(calls[i-1].at, c.at) {
				forgotten[a] = true
			}
		}
		charges := c.charges
		if taken := s.takes[c.id]; c.verb == settle && taken != nil {
			charges = taken.charges[c.index : c.index+1]
		}
		for _, charge := range charges {
			if forgotten[accountOf(charge)] {
				return "", 0
			}
		}
		if _, difference := s.play(c); difference != "" {
			return difference, i + 1
		}
	}
	return "", 0
}

// forgettable returns the accounts that a backend may have forgotten, unlike Exact, when the clock
// steps back from one instant to another: they were fresh, and no longer are.
func (l ledger) forgettable(from, to int64) map[account]bool {
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

// shrink shortens a script that ends in a difference, and still does afterwards, by at most replays
// replays.
func (h Harness) shrink(t testing.TB, open func(testing.TB, func() time.Time) backends.Backend,
	calls script, replays int) (script, string) {
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

// report fails the test with a difference and a short script that leads to it.
func (h Harness) report(t testing.TB,
	open func(testing.TB, func() time.Time) backends.Backend, calls script, difference string) {
	t.Helper()
	short, d := h.shrink(t, open, calls, 400)
	if d == "" {
		t.Errorf("call %d:\n%s\n(it does not happen again when the same calls are made from the start)",
			len(calls), difference)
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
	s := [...]string{take: "take", peek: "peek", reset: "reset", settle: "settle"}[c.verb]
	if c.verb == settle {
		return fmt.Sprintf("%s charge %d of take #%d at %d", s, c.index, c.id, c.final)
	}
	if c.id != 0 {
		s += fmt.Sprintf(" #%d", c.id)
	}
	for _, charge := range c.charges {
		if c.verb == reset {
			return s + " " + shorten(charge.Scope) + " " + shorten(charge.Key)
		}
		s += " " + show(charge)
	}
	return s
}
