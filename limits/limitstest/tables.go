package limitstest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/ground/steps"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// stepCases returns a case for each table of steps that a backend can play. Each is played on
// several keys: alone, together with a key that has plenty, in shadow, and with the cost split over
// two charges. The numbers must be the same.
func stepCases() []testCase {
	tables, err := steps.All()
	if err != nil {
		panic(err) // the tests of package steps find it
	}
	var all []testCase
	for _, table := range tables {
		if !table.Arithmetic {
			all = append(all, testCase{name: table.Name, why: table.Why, stepsBack: table.StepsBack(),
				run: func(t testing.TB, h Harness) { h.play(t, table) }})
		}
	}
	return all
}

// play plays a table under each of its limits that the backend supports.
func (h Harness) play(t testing.TB, table steps.Table) {
	t.Helper()
	inWays, played := ways, false
	if table.Ends() {
		if inWays = ways[:2]; !backends.CanSettle(h.world(t).backend) {
			t.Logf("not tested, since the backend cannot end what it has taken (it is no backends.Settler)")
			t.SkipNow()
		}
	}
	for i := range table.Phases[0].Under {
		lacks := func(p steps.Phase) bool { return !h.limits.has(p.Under[i]) }
		if slices.ContainsFunc(table.Phases, lacks) {
			continue // the case logs which limit
		}
		played = true
		for _, way := range inWays {
			p := player{world: h.world(t), table: table, way: way, plenty: h.limits.plenty()}
			for _, phase := range table.Phases {
				for _, s := range phase.Steps {
					p.step(s, phase.Under[i])
				}
			}
		}
	}
	if !played {
		t.SkipNow()
	}
}

// player plays a table on one key.
type player struct {
	world
	table  steps.Table
	way    way
	plenty limits.Limit
	open   []begun // requests that may end
}

// step makes a step under l. It ends the test if that does not lead to what the step says.
func (p *player) step(s steps.Step, l limits.Limit) {
	p.Helper()
	p.clock.set(p.table.Start.Add(s.At).UnixMicro())
	c := backends.Charge{Scope: "table", Key: p.way.name, Limit: l, Cost: s.Units,
		Value: valueOf(s.Value)}
	if !l.Algorithm().Holds() {
		c.Lasts = p.table.Lasts
	}
	switch s.Verb {
	case steps.Charge:
		c.Cost = 0
		p.ends(s, begun{c, p.take(c)[0]}, s.Units,
			limits.Settlement{Charged: s.Want.Changed, Forgiven: s.Units - s.Want.Changed})
	case steps.Return:
		at := p.table.Start.Add(s.From).UnixMicro()
		for i, b := range slices.Backward(p.open) {
			if b.decision.At == at && b.charge.Cost == s.Of {
				p.open = slices.Delete(p.open, i, i+1)
				p.ends(s, b, s.Of-s.Units, limits.Settlement{Returned: s.Want.Changed})
				break
			}
		}
		c.Cost = 0
	}
	charges := p.way.charges(c, p.plenty)
	got, want := p.take(charges...), s.Want.Decision
	want.At = p.clock.micros()
	if d := diff(charges[:1], got[:1], []limits.Decision{want}); d != "" {
		p.Fatalf("%s, %s, charged %s:\n%s", s.Place, instant(want.At), p.way.name, d)
	}
	if got[0].Allowed && c.Cost > 0 {
		p.open = append(p.open, begun{charges[0], got[0]})
	}
}

// ends ends a request and checks its settlement.
func (p *player) ends(s steps.Step, b begun, final int64, want limits.Settlement) {
	p.Helper()
	if got := p.end(b, final); got != want {
		p.Fatalf("%s: %s\n%d taken cost %d in the end: %+v, want %+v", s.Place, showLimit(b.charge.Limit),
			b.charge.Cost, final, got, want)
	}
}

func allowed(remaining int64, reset, window time.Duration) limits.Decision {
	return limits.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset,
		EffectiveWindow: window}
}

func queued(delay time.Duration, remaining int64, reset, window time.Duration) limits.Decision {
	return limits.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset,
		EffectiveWindow: window, Delay: delay}
}

func denied(remaining int64, retry, reset time.Duration) limits.Decision {
	return limits.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset,
		EffectiveWindow: retry}
}

// held returns a denial by a concurrency limit. Its wait is a guess, which is not compared.
func held(remaining int64, retry time.Duration) limits.Decision {
	return limits.Decision{Remaining: remaining, RetryAfter: retry, EffectiveWindow: limits.Never}
}

// way says in which charges the charge of a step reaches the backend. Its decision is the first.
type way struct {
	name    string
	charges func(c backends.Charge, plenty limits.Limit) []backends.Charge
}

var ways = []way{
	{"alone", func(c backends.Charge, _ limits.Limit) []backends.Charge {
		return []backends.Charge{c}
	}},
	{"together with a key that has plenty",
		func(c backends.Charge, plenty limits.Limit) []backends.Charge {
			return []backends.Charge{c, {Scope: "plenty", Key: c.Key, Limit: plenty, Cost: 1}}
		}},
	{"in shadow", func(c backends.Charge, _ limits.Limit) []backends.Charge {
		c.Shadow = true
		return []backends.Charge{c}
	}},
	{"as two charges", func(c backends.Charge, _ limits.Limit) []backends.Charge {
		rest := c
		c.Cost = c.Cost / 2
		rest.Cost -= c.Cost
		return []backends.Charge{c, rest}
	}},
}

var (
	plenty       = limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000_000)
	tenPerMinute = limits.SlidingWindow(limits.PerMinute(10))
)

// about returns a message of a case about one of several limits.
func about(l limits.Limit, format string, args ...any) string {
	return showLimit(l) + ": " + fmt.Sprintf(format, args...)
}
