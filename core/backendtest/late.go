package backendtest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// lateCases hold a caller up between its look at the clock and the decision, while
// others reuse the place of its key, which is fresh by then. They need a store that
// is short of places, so that others do.
var lateCases = []testCase{
	{
		name:  "a caller that is held up gets no second budget when others reuse the place of its key",
		why:   "its instant is one at which its key was not fresh yet, and what it is granted counts in the time that has come, not in the time that is over (DESIGN 6; lesson: a clock read before the lock is a clock of the past)",
		small: true,
		run: func(t testing.TB, h Harness) {
			for _, together := range []bool{false, true} {
				for _, l := range everyAlgorithm(core.Per(10, 100*ms)) {
					for _, places := range []int{1, 8, 64} {
						h.holdUp(t, l, places, together)
					}
				}
			}
		},
	},
	{
		name:  "a fixed or anchored window never admits more than its units to late callers of a store short of places",
		why:   "64 callers that arrive late, and as many keys as there are places in the way: what is admitted in all is at most what the windows have, of which no two start within a period (DESIGN 6; lesson: a clock read before the lock is a clock of the past)",
		small: true,
		run: func(t testing.TB, h Harness) {
			for _, l := range []core.Limit{core.FixedWindow(lateRate), core.AnchoredWindow(lateRate)} {
				h.windowsByTurns(t, l)
				h.windowsAtOnce(t, l)
			}
		},
	},
}

// holdUp uses up a key and holds up the next charge on it between the clock and the
// decision: until the key has become fresh and others have taken its place.
func (h Harness) holdUp(t testing.TB, l core.Limit, places int, together bool) {
	t.Helper()
	w := world{t, clockAt(newYear), nil}
	var meanwhile func()
	w.backend = h.OpenSmall(t, func() time.Time {
		now := w.clock.now()
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
		}
		return now
	}, places)
	victim := []core.Charge{{Scope: "s", Key: "victim", Limit: l, Cost: l.Burst()}}
	w.take(victim...)
	w.clock.advance(99 * ms)
	if together {
		victim = append(victim, core.Charge{Scope: "plenty", Key: "victim", Limit: plenty, Cost: 1})
	}
	meanwhile = func() {
		w.clock.advance(1 * sec)
		for i := range 40 * places {
			w.take(core.Charge{Scope: "others", Key: fmt.Sprint(i), Limit: l, Cost: 1})
		}
	}
	if !w.take(victim...)[0].Allowed {
		return // it may be denied, by the instant that it read
	}
	if d := w.take(victim...)[0]; d.Allowed {
		t.Error(about(l, "with %d places, a caller that was held up while others came got a budget that nobody knows of afterwards: %s", places, showDecision(d)))
	}
}

// Windows of a key that callers charge who arrive late, in a store with few places.
const (
	lateWindows = 20
	lateUnits   = 20
)

var lateRate = core.Per(lateUnits, 8*ms)

// windowsByTurns holds callers up between the clock and the decision, some of them
// for more than a window, while others decide that come after them.
func (h Harness) windowsByTurns(t testing.TB, l core.Limit) {
	t.Helper()
	w := world{t, clockAt(newYear), nil}
	c := core.Charge{Scope: "s", Key: "k", Limit: l, Cost: 1}
	heldUp := [3]struct{ every, calls int }{{5, 30}, {40, 200}} // callers, and those that others are held up by
	var calls, depth int
	var admitted int64
	call := func() {
		calls++
		w.take(core.Charge{Scope: "others", Key: fmt.Sprint(calls), Limit: core.FixedWindow(core.Per(1, 1*ms)), Cost: 1})
		if w.take(c)[0].Allowed {
			admitted++
		}
		w.clock.advance(50 * us)
	}
	w.backend = h.OpenSmall(t, func() time.Time {
		now := w.clock.now()
		if held := heldUp[min(depth, 2)]; held.every > 0 && calls%held.every == 0 {
			depth++
			for range held.calls {
				call()
			}
			depth--
		}
		return now
	}, 16)
	for w.clock.now().Before(newYear.Add(lateWindows * 8 * ms)) {
		call()
	}
	windows := 1 + w.clock.now().Sub(newYear).Milliseconds()/8
	if admitted > windows*lateUnits {
		t.Error(about(l, "%d were admitted in %d windows of %d", admitted, windows, lateUnits))
	}
}

// windowsAtOnce has as many callers arrive late as there are goroutines.
func (h Harness) windowsAtOnce(t testing.TB, l core.Limit) {
	t.Helper()
	w := h.lateSmallWorld(t, 16)
	c := core.Charge{Scope: "s", Key: "k", Limit: l, Cost: 1}
	var admitted atomic.Int64
	w.crowd(func(caller int) {
		for i := range 160 * lateWindows / goroutines {
			other := core.Charge{Scope: "others", Key: fmt.Sprint(caller, i), Limit: core.FixedWindow(core.Per(1, 1*ms)), Cost: 1}
			w.try(other)
			if w.try(c)[0].Allowed {
				admitted.Add(1)
			}
			w.clock.advance(50 * us)
		}
	})
	if n := admitted.Load(); n > lateWindows*lateUnits {
		t.Error(about(l, "%d were admitted in %d windows of %d", n, lateWindows, lateUnits))
	}
}

// lateSmallWorld is lateWorld for a store with few places.
func (h Harness) lateSmallWorld(t testing.TB, places int) world {
	t.Helper()
	h.Open = h.openSmall(places)
	return h.lateWorld(t)
}
