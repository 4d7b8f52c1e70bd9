package faults

import (
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
)

// ends returns the instants, in microseconds, at which the units that are held end unless
// they are renewed, soonest first.
func (s *server) ends(t testing.TB) (all []int64) {
	t.Helper()
	operator := s.operator(t)
	defer operator.Close()
	names := operator.Keys(t.Context(), "*")
	must(t, names)
	for _, name := range names.Val() {
		units := operator.ZRangeWithScores(t.Context(), name, 0, -1)
		must(t, units)
		for _, unit := range units.Val() {
			all = append(all, int64(unit.Score))
		}
	}
	slices.Sort(all)
	return all
}

// What a process holds that was killed counts until its time is over, and no longer.
func TestAProcessThatIsKilledHoldsForHoldTimeOnly(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := newHolder(newClient(t, s.addr), holding{hold: shortHold, onFailure: core.FailClosed, budget: patience})
	p := startProcess(t, s.addr)
	if n := p.tell(t, 2*atOnce); n != atOnce {
		t.Fatalf("the process holds %d, want %d", n, atOnce)
	}
	p.kill()
	ends := s.ends(t)
	if len(ends) != atOnce {
		t.Fatalf("Redis knows %d units", len(ends))
	}
	denied := 0
	eventually(t, "all units of the process that was killed are free", func() bool {
		o := other.decide(t)
		switch n := len(other.under); {
		case !o.Allowed():
			denied++
		case o.At(0).At < ends[n-1]:
			t.Errorf("unit %d was taken at %d, want not before %d", n, o.At(0).At, ends[n-1])
		}
		return len(other.under) == atOnce
	})
	if n := other.start(t, 3); n != 0 {
		exceeded(t, "%d above the limit", n)
	}
	if most := underWay(other); most != atOnce {
		t.Errorf("%d under way", most)
	}
	t.Logf("FAULT a process that held %d of %d is killed: another was denied %d times, and had each unit when its "+
		"HoldTime was over; 0 above the limit", atOnce, atOnce, denied)
	other.end()
	exactAgain(t, other.backend, other,
		newHolder(newClient(t, s.addr), holding{hold: shortHold, onFailure: core.FailClosed, budget: patience}))
}

// A process that was stopped for too long knows nothing of it: its requests go on.
func TestAProcessThatIsStoppedExceedsByWhatItHeld(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := newHolder(newClient(t, s.addr), holding{hold: shortHold, onFailure: core.FailClosed, budget: patience})
	p := startProcess(t, s.addr)
	if n := p.tell(t, 2*atOnce); n != atOnce {
		t.Fatalf("the process holds %d, want %d", n, atOnce)
	}
	p.stop(t)
	eventually(t, "others have the units of the process that is stopped", func() bool {
		other.start(t, 1)
		return underWay(other) == atOnce
	})
	if n := other.start(t, 3); n != 0 {
		exceeded(t, "%d above the limit while a process is stopped", n)
	}
	p.ask(t, 3) // which it does when it goes on
	p.resume(t)
	most := p.answer(t) + underWay(other)
	if most > 2*atOnce {
		exceeded(t, "%d under way, want %d at most", most, 2*atOnce)
	}
	holds(t, other.backend, 2*atOnce) // put back
	if n := p.tell(t, 3) - atOnce + other.start(t, 3); n != 0 {
		exceeded(t, "%d more after the process has gone on", n)
	}
	other.end()
	holds(t, other.backend, atOnce)
	if n := other.start(t, 3); n != 0 {
		exceeded(t, "%d above the limit while the process holds all", n)
	}
	t.Logf("FAULT a process that held %d of %d is stopped for longer than HoldTime: %d under way at most, of %d; put "+
		"back when it went on", atOnce, atOnce, most, 2*atOnce)
	if n := p.tell(t, 0); n != 0 {
		t.Errorf("%d under way after the end", n)
	}
	exactAgain(t, other.backend, other,
		newHolder(newClient(t, s.addr), holding{hold: shortHold, onFailure: core.FailClosed, budget: patience}))
}
