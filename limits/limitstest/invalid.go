package limitstest

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

var errorCases = []testCase{
	{
		name: "an invalid charge is an error and takes nothing",
		why: "a negative cost, an invalid limit and one key under two limits are errors wherever they " +
			"stand among valid charges, nothing is taken, and no key is in the message; a limit of 0 " +
			"means neither nothing nor everything (DESIGN 5; backends.Backend)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			valid := backends.Charge{Scope: "s", Key: "secret-valid", Limit: h.limits.tenPerMinute(),
				Cost: 1}
			other := valid
			other.Key = "secret-other"
			for _, m := range invalidCharges(valid) {
				for _, charges := range [][]backends.Charge{
					{m.charge}, {valid, m.charge}, {m.charge, valid}, {valid, other, m.charge},
					{m.charge, other, valid},
				} {
					if m.besideValid && (len(charges) == 1 || m.charge.Limit == valid.Limit ||
						!h.limits.has(m.charge.Limit)) {
						continue
					}
					w.refuses(m.label, charges, dirty(len(charges)))
				}
			}
			w.same("after the errors, the valid key", valid, allowed(10, 0, 60*sec))
			w.same("after the errors, the other key", other, allowed(10, 0, 60*sec))
		},
	},
	{
		name: "charges and decisions of unequal number are an error",
		why:  "out has one decision for every charge (backends.Backend: the two have equal length)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			valid := backends.Charge{Scope: "s", Key: "secret-valid", Limit: h.limits.tenPerMinute(),
				Cost: 1}
			w.refuses("no room", []backends.Charge{valid}, nil)
			w.refuses("too little room", []backends.Charge{valid, valid}, dirty(1))
			w.refuses("too much room", []backends.Charge{valid}, dirty(2))
			w.refuses("room for no charges", nil, dirty(1))
			w.same("afterwards", valid, allowed(10, 0, 60*sec))
		},
	},
	{
		name: "a call whose context has ended is never half done",
		why: "it may be answered or refused; refused, it took all of its charges or none " +
			"(backends.Backend: atomic; DESIGN 7: a take without a reply)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			late, cancelLate := context.WithDeadline(context.Background(), time.Unix(0, 0))
			defer cancelLate()
			for name, ctx := range map[string]context.Context{"cancelled": ended, "too late": late} {
				group := []backends.Charge{
					{Scope: name, Key: "a", Limit: plain(limits.PerMinute(10)), Cost: 1},
					{Scope: name, Key: "b", Limit: plain(limits.PerMinute(10)), Cost: 1},
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
					if !same(group[0], a, b) {
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

// invalid is a charge that must be an error.
type invalid struct {
	label       string
	charge      backends.Charge
	besideValid bool // it is an error only in a group with the valid charge
}

// invalidCharges returns charges that are an error, alone or in a group with valid.
func invalidCharges(valid backends.Charge) []invalid {
	all := []invalid{
		{"a cost of -1", backends.Charge{Scope: "s", Key: "secret-bad", Limit: valid.Limit, Cost: -1},
			false},
		{"the most negative cost",
			backends.Charge{Scope: "s", Key: "secret-bad", Limit: valid.Limit, Cost: -1 << 63}, false},
		{"a negative cost in shadow",
			backends.Charge{Scope: "s", Key: "secret-bad", Limit: valid.Limit, Cost: -1, Shadow: true},
			false},
		{"a negative cost that the sum hides",
			backends.Charge{Scope: valid.Scope, Key: valid.Key, Limit: valid.Limit, Cost: -1}, false},
		{"one key under two limits",
			backends.Charge{Scope: valid.Scope, Key: valid.Key,
				Limit: plain(limits.PerMinute(11)), Cost: 1}, true},
		{"one key under two limits, looking",
			backends.Charge{Scope: valid.Scope, Key: valid.Key,
				Limit: plain(limits.PerMinute(10))}, true},
		{"one key under two limits, in shadow",
			backends.Charge{Scope: valid.Scope, Key: valid.Key,
				Limit: plain(limits.PerMinute(11)), Cost: 1, Shadow: true}, true},
	}
	illegal := map[string]limits.Limit{
		"no limit":                     {},
		"no units":                     plain(limits.PerMinute(0)),
		"negative units":               plain(limits.PerMinute(-1)),
		"too many units":               plain(limits.PerMinute(1_000_000_001)),
		"no period":                    plain(limits.Per(1, 0)),
		"a period below a millisecond": plain(limits.Per(1, 999*us)),
		"a period above 366 days":      plain(limits.Per(1, 366*day+1*us)),
		"a period with nanoseconds":    plain(limits.Rate{Units: 1, Period: 1*sec + 1}),
	}
	for _, a := range algorithms() {
		maps.Copy(illegal, a.illegal)
	}
	for label, limit := range illegal {
		all = append(all, invalid{label,
			backends.Charge{Scope: "s", Key: "secret-bad", Limit: limit, Cost: 1}, false})
		all = append(all, invalid{label + ", looking",
			backends.Charge{Scope: "s", Key: "secret-bad", Limit: limit}, false})
	}
	return all
}

// refuses checks that Take and Peek return an error that names no key.
func (w world) refuses(label string, charges []backends.Charge, out []limits.Decision) {
	w.Helper()
	check := func(method string, err error) {
		w.Helper()
		if err == nil {
			w.Errorf("%s: %s returned no error", label, method)
			return
		}
		if strings.Contains(err.Error(), "secret") {
			w.Errorf("%s: %s put a key into its error: %v", label, method, err)
		}
	}
	check("Take", w.backend.Take(context.Background(), charges, out))
	check("Peek", backends.Peek(context.Background(), w.backend, charges, out))
}
