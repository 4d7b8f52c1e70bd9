package backendtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

var errorCases = []testCase{
	{
		name: "a mistake in a charge is an error and takes nothing",
		why:  "a negative cost, an invalid limit and one key under two limits are errors wherever they stand among good charges, nothing is taken, and no key is in the message (DESIGN 5; core.Backend; lesson: a limit of 0 that means nothing in one store and everything in another)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			good := core.Charge{Scope: "s", Key: "secret-good", Limit: tenPerMinute, Cost: 1}
			other := good
			other.Key = "secret-other"
			for _, m := range mistakes(good) {
				for _, charges := range [][]core.Charge{{m.charge}, {good, m.charge}, {m.charge, good}, {good, other, m.charge}, {m.charge, other, good}} {
					if m.needsGood && len(charges) == 1 {
						continue
					}
					w.refuses(m.what, charges, dirty(len(charges)))
				}
			}
			w.same("after the mistakes, the good key", good, allowed(10, 0, 60*sec))
			w.same("after the mistakes, the other key", other, allowed(10, 0, 60*sec))
		},
	},
	{
		name: "charges and decisions of unequal number are an error",
		why:  "out has a place for every charge and no more (core.Backend: the two have equal length)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			good := core.Charge{Scope: "s", Key: "secret-good", Limit: tenPerMinute, Cost: 1}
			w.refuses("no room", []core.Charge{good}, nil)
			w.refuses("too little room", []core.Charge{good, good}, dirty(1))
			w.refuses("too much room", []core.Charge{good}, dirty(2))
			w.refuses("room for no charges", nil, dirty(1))
			w.same("afterwards", good, allowed(10, 0, 60*sec))
		},
	},
	{
		name: "a call whose context has ended is never half done",
		why:  "it may be answered or refused; refused, it took all of its charges or none (core.Backend: atomic; DESIGN 7: a take without a reply)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			late, cancelLate := context.WithDeadline(context.Background(), time.Unix(0, 0))
			defer cancelLate()
			for name, ctx := range map[string]context.Context{"cancelled": ended, "too late": late} {
				group := []core.Charge{
					{Scope: name, Key: "a", Limit: core.FixedWindow(core.PerMinute(10)), Cost: 1},
					{Scope: name, Key: "b", Limit: core.FixedWindow(core.PerMinute(10)), Cost: 1},
				}
				for n := range int64(3) {
					out := dirty(2)
					err := w.backend.Take(ctx, group, out)
					if err == nil {
						for i := range out {
							if !out[i].Allowed || out[i].Remaining > 9 || out[i].Remaining < 9-n {
								t.Errorf("%s: answered %s", name, showDecision(out[i]))
							}
						}
					}
					a, b := w.look(group[0]), w.look(group[1])
					if a != b {
						t.Errorf("%s: one key says %s, the other %s", name, showDecision(a), showDecision(b))
					}
					if err == nil && a.Remaining != out[0].Remaining {
						t.Errorf("%s: said %d remaining, and then %d", name, out[0].Remaining, a.Remaining)
					}
				}
			}
		},
	},
}

type mistake struct {
	what      string
	charge    core.Charge
	needsGood bool // it is one only next to the good charge
}

// mistakes are charges that are an error next to good.
func mistakes(good core.Charge) []mistake {
	all := []mistake{
		{"a cost of -1", core.Charge{Scope: "s", Key: "secret-bad", Limit: tenPerMinute, Cost: -1}, false},
		{"the most negative cost", core.Charge{Scope: "s", Key: "secret-bad", Limit: tenPerMinute, Cost: -1 << 63}, false},
		{"a negative cost in shadow", core.Charge{Scope: "s", Key: "secret-bad", Limit: tenPerMinute, Cost: -1, Shadow: true}, false},
		{"a negative cost that the sum hides", core.Charge{Scope: good.Scope, Key: good.Key, Limit: good.Limit, Cost: -1}, false},
		{"one key under two limits", core.Charge{Scope: good.Scope, Key: good.Key, Limit: core.SlidingWindow(core.PerMinute(11)), Cost: 1}, true},
		{"one key under two limits, looking", core.Charge{Scope: good.Scope, Key: good.Key, Limit: core.FixedWindow(core.PerMinute(10))}, true},
		{"one key under two limits, in shadow", core.Charge{Scope: good.Scope, Key: good.Key, Limit: core.SlidingWindow(core.PerMinute(11)), Cost: 1, Shadow: true}, true},
	}
	for what, limit := range map[string]core.Limit{
		"no limit":                     {},
		"no units":                     core.FixedWindow(core.PerMinute(0)),
		"negative units":               core.SlidingWindow(core.PerMinute(-1)),
		"too many units":               core.SlidingWindow(core.PerMinute(1_000_000_001)),
		"too many units for a log":     core.SlidingLog(core.PerMinute(10_001)),
		"no period":                    core.FixedWindow(core.Per(1, 0)),
		"a period below a millisecond": core.FixedWindow(core.Per(1, 999*us)),
		"a period above 366 days":      core.FixedWindow(core.Per(1, 366*day+1*us)),
		"a period with nanoseconds":    core.FixedWindow(core.Per(1, 1*sec+1)),
		"no burst":                     core.TokenBucket(core.PerMinute(1), 0),
		"a burst too large":            core.LeakyBucket(core.PerSecond(1_000_000_000), 1_000_000_001),
		"a fill of over 100 years":     core.LeakyQueue(core.Per(1, 8766*hour+1*us), 100),
	} {
		all = append(all, mistake{what, core.Charge{Scope: "s", Key: "secret-bad", Limit: limit, Cost: 1}, false})
		all = append(all, mistake{what + ", looking", core.Charge{Scope: "s", Key: "secret-bad", Limit: limit}, false})
	}
	return all
}

// refuses checks that Take, and Peek if there is one, return an error that
// names no key.
func (w world) refuses(what string, charges []core.Charge, out []core.Decision) {
	w.Helper()
	check := func(method string, err error) {
		w.Helper()
		if err == nil {
			w.Errorf("%s: %s returned no error", what, method)
			return
		}
		if strings.Contains(err.Error(), "secret") {
			w.Errorf("%s: %s put a key into its error: %v", what, method, err)
		}
	}
	check("Take", w.backend.Take(context.Background(), charges, out))
	check("Peek", core.Peek(context.Background(), w.backend, charges, out))
}
