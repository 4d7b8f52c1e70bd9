package limitstest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// lateCases stall a caller between its reading of the clock and the decision. Meanwhile its key
// becomes fresh, and others displace it. They need a store with little room.
var lateCases = []testCase{
	{
		name: "a stalled caller gets no second budget when its key has been displaced",
		why: "the caller read the clock before its key became fresh, and decides after others have " +
			"used the room of its key: what it is granted counts from the present on, not in a time " +
			"that is over (DESIGN 6)",
		small: true,
		run: func(t testing.TB, h Harness) {
			for _, together := range []bool{false, true} {
				for _, l := range h.limits.rates(limits.Per(10, 100*ms)) {
					for _, maxKeys := range []int{1, 8, 64} {
						h.stall(t, l, maxKeys, together)
					}
				}
			}
		},
	},
	{
		name: "a fixed or anchored window never admits more than its units to late " +
			"callers of a full store",
		why: "64 callers read the clock and arrive late, in a store that others have filled: no more " +
			"is admitted than the units of all windows, of which no two start within a period (DESIGN 6)",
		small: true,
		run: func(t testing.TB, h Harness) {
			for _, l := range h.limits.all(lateRate) {
				if !hasWindows(l) || l.Rate().Period != lateRate.Period {
					continue
				}
				h.windowsOneByOne(t, l)
				h.windowsAtOnce(t, l)
			}
		},
	},
}

// stall uses up a key and stalls the next charge on it between the clock and the
// decision, until the key has become fresh and others have displaced it.
func (h Harness) stall(t testing.TB, l limits.Limit, maxKeys int, together bool) {
	t.Helper()
	w := world{t, h.clockAt(newYear), nil}
	var meanwhile func()
	w.backend = h.OpenSmall(t, func() time.Time {
		now := w.clock.now()
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
		}
		return now
	}, maxKeys)
	victim := []backends.Charge{{Scope: "s", Key: "victim", Limit: l, Cost: l.Burst()}}
	w.take(victim...)
	w.clock.advance(99 * ms)
	if together {
		victim = append(victim,
			backends.Charge{Scope: "plenty", Key: "victim", Limit: h.limits.plenty(), Cost: 1})
	}
	meanwhile = func() {
		w.clock.advance(1 * sec)
		for i := range 40 * maxKeys {
			w.take(backends.Charge{Scope: "others", Key: fmt.Sprint(i), Limit: l, Cost: 1})
		}
	}
	if !w.take(victim...)[0].Allowed {
		return // by the instant that it read, the charge may be denied
	}
	if d := w.take(victim...)[0]; d.Allowed {
		t.Error(about(l, "with room for %d keys, a caller that was stalled while others came is "+
			"allowed twice: %s", maxKeys, showDecision(d)))
	}
}

// lateWindows is how many windows late callers charge, and lateUnits how many units each window
// has.
const (
	lateWindows = 20
	lateUnits   = 20
)

var lateRate = limits.Per(lateUnits, 8*ms)

// windowsOneByOne stalls callers between clock and decision, some of them for more than a window,
// while later callers are decided.
func (h Harness) windowsOneByOne(t testing.TB, l limits.Limit) {
	t.Helper()
	w := world{t, h.clockAt(newYear), nil}
	c := backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 1}
	// one of every callers waits for calls other calls
	stalls := [3]struct{ every, calls int }{{5, 30}, {40, 200}}
	var calls, depth int
	var admitted int64
	call := func() {
		calls++
		w.take(backends.Charge{Scope: "others", Key: fmt.Sprint(calls),
			Limit: plain(limits.Per(1, 1*ms)), Cost: 1})
		if w.take(c)[0].Allowed {
			admitted++
		}
		w.clock.advance(50 * us)
	}
	w.backend = h.OpenSmall(t, func() time.Time {
		now := w.clock.now()
		if stall := stalls[min(depth, 2)]; stall.every > 0 && calls%stall.every == 0 {
			depth++
			for range stall.calls {
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

// windowsAtOnce is windowsOneByOne with a goroutine for each caller.
func (h Harness) windowsAtOnce(t testing.TB, l limits.Limit) {
	t.Helper()
	w := h.lateSmallWorld(t, 16)
	c := backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 1}
	var admitted atomic.Int64
	w.concurrently(func(caller int) {
		for i := range 160 * lateWindows / goroutines {
			other := backends.Charge{Scope: "others", Key: fmt.Sprint(caller, i),
				Limit: plain(limits.Per(1, 1*ms)), Cost: 1}
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

// lateSmallWorld is lateWorld with room for maxKeys keys.
func (h Harness) lateSmallWorld(t testing.TB, maxKeys int) world {
	t.Helper()
	h.Open = h.openSmall(maxKeys)
	return h.lateWorld(t)
}
