package limitstest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// waitCases check the numbers of a decision by trying them: they play the same history on a new
// key, and move the clock to the instant at which the number says something happens, and to one
// microsecond before.
var waitCases = []testCase{
	{
		name: "RetryAfter is the least wait that works",
		why: "a request one microsecond before RetryAfter is denied, and one at RetryAfter is " +
			"allowed, so that it is not simply the whole window; it is Never exactly where no wait " +
			"helps (DESIGN 1 and 5)",
		run: func(t testing.TB, h Harness) {
			tryHistories(t, h, func(p *past, last backends.Charge, d limits.Decision) {
				if never := last.Cost > last.Limit.Burst(); never != (d.RetryAfter == limits.Never) {
					p.fail("a cost of %d has RetryAfter %s", last.Cost, wait(d.RetryAfter))
				}
				if d := p.again(last.Limit.Burst()+1, 0); d.Allowed || d.RetryAfter != limits.Never {
					p.fail("a cost above the maximum is told %s", showDecision(d))
				}
				if d.Allowed || d.RetryAfter == limits.Never {
					return
				}
				p.denies(last.Cost, d.RetryAfter-1*us, "1µs before RetryAfter")
				p.allows(last.Cost, d.RetryAfter, "after RetryAfter")
			})
		},
	},
	{
		name: "Remaining is the largest cost that is allowed now",
		why: "as many units as Remaining are allowed at the same instant, and one more is denied; a " +
			"Remaining from a second reading can promise units to a denied client (DESIGN 5)",
		run: func(t testing.TB, h Harness) {
			tryHistories(t, h, func(p *past, last backends.Charge, d limits.Decision) {
				if d.Remaining < 0 {
					p.fail("Remaining is %d", d.Remaining)
				}
				p.allows(d.Remaining, 0, "of Remaining")
				p.denies(d.Remaining+1, 0, "of Remaining and one more")
			})
		},
	},
	{
		name: "after ResetAfter a key is as never charged",
		why: "ResetAfter is the wait until the state equals fresh, to the microsecond, and a fresh " +
			"state has none (DESIGN 5)",
		run: func(t testing.TB, h Harness) {
			tryHistories(t, h, func(p *past, last backends.Charge, d limits.Decision) {
				look := p.look(d.ResetAfter)
				if look.ResetAfter != 0 || look.Remaining != last.Limit.Burst() {
					p.fail("after ResetAfter, %s, it says %s", d.ResetAfter, showDecision(look))
				}
				p.allows(last.Limit.Burst(), d.ResetAfter, "of the maximum after ResetAfter")
				if d.ResetAfter == 0 {
					return
				}
				if look := p.look(d.ResetAfter - 1*us); look.ResetAfter != 1*us {
					p.fail("1µs before ResetAfter, %s, it says %s", d.ResetAfter, showDecision(look))
				}
			})
		},
	},
	{
		name: "EffectiveWindow is the wait for one unit where there is none",
		why: "where nothing remains EffectiveWindow tells when one unit fits, or a fixed or anchored " +
			"window ends, which is the same but for units of another limit (DESIGN 5, EffectiveWindow)",
		run: func(t testing.TB, h Harness) {
			tryHistories(t, h, func(p *past, last backends.Charge, d limits.Decision) {
				if !d.Allowed && d.EffectiveWindow != d.RetryAfter {
					p.fail("a denial has RetryAfter %s and EffectiveWindow %s", wait(d.RetryAfter),
						wait(d.EffectiveWindow))
				}
				if hasWindows(last.Limit) &&
					slices.ContainsFunc(p.charges, func(c pastCharge) bool { return c.limit != last.Limit }) {
					return // units of another limit may still be in use when the window ends
				}
				if d.Allowed && d.Remaining == 0 {
					p.denies(1, d.EffectiveWindow-1*us, "1µs before EffectiveWindow")
					p.allows(1, d.EffectiveWindow, "after EffectiveWindow")
				}
			})
		},
	},
}

// past is the history of one key. It can be played again on another key.
type past struct {
	world
	open    func() world // opens another world
	limit   limits.Limit // the present one
	clones  int
	charges []pastCharge
}

type pastCharge struct {
	at    int64
	limit limits.Limit
	cost  int64
}

// tryHistories calls try with many random histories of one key, each with its last charge and the
// decision on it.
func tryHistories(t testing.TB, h Harness,
	try func(p *past, last backends.Charge, d limits.Decision)) {
	t.Helper()
	seed := h.seed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	w := h.world(t)
	for i := 0; i < max(1, h.Decisions/100) && !t.Failed(); i++ {
		p := &past{world: w, open: func() world { return h.world(t) }, limit: h.limits.randomRate(random),
			clones: i * 1000}
		p.goBack()
		p.clock.set(newYear.UnixMicro() + random.Int64N(micros(p.limit)))
		d := limits.Decision{}
		for left := random.IntN(8); left >= 0; left-- {
			if random.IntN(16) == 0 {
				if changed := h.limits.changed(random, p.limit); isRate(changed) {
					p.limit = changed
				}
			}
			cost := randomCost(random, p.limit, d)
			if left == 0 && random.IntN(2) == 0 { // a denial with some units left
				cost = min(d.Remaining+upTo(random, p.limit.Burst()), p.limit.Burst())
			}
			p.charges = append(p.charges, pastCharge{p.clock.micros(), p.limit, cost})
			d = p.take(p.charge(p.limit, cost))[0]
			if left > 0 && random.IntN(4) == 0 {
				p.move(random, d)
			}
		}
		try(p, p.charge(p.limit, p.charges[len(p.charges)-1].cost), d)
	}
}

func (p *past) charge(l limits.Limit, cost int64) backends.Charge {
	return backends.Charge{Scope: "past", Key: strconv.Itoa(p.clones), Limit: l, Cost: cost}
}

// move steps the clock: mostly forward, and back only while the key is live.
func (p *past) move(random *rand.Rand, d limits.Decision) {
	if random.IntN(4) == 0 && d.ResetAfter > 0 {
		p.clock.advance(-time.Duration(1+random.Int64N(min(micros(p.limit), day.Microseconds()))) * us)
		return
	}
	if d.ResetAfter > 1*us {
		step := 1 + random.Int64N(d.ResetAfter.Microseconds()-1)
		if p.clock.micros()+step < lastMove.UnixMicro() {
			p.clock.set(p.clock.micros() + step)
		}
	}
}

// lastMove leaves room for the longest wait, a century, before 2255: later instants may be too
// large for backends.
var lastMove = time.Date(2150, time.January, 1, 0, 0, 0, 0, time.UTC)

// goBack opens another backend if this one cannot be charged at an earlier instant.
func (p *past) goBack() {
	if p.clock.keeps {
		p.world = p.open()
	}
}

// again plays the past on a new key and charges cost after a wait.
func (p *past) again(cost int64, wait time.Duration) limits.Decision {
	p.Helper()
	p.clones++
	p.goBack()
	for _, then := range p.charges {
		p.clock.set(then.at)
		p.take(p.charge(then.limit, then.cost))
	}
	p.clock.advance(wait)
	return p.take(p.charge(p.limit, cost))[0]
}

func (p *past) look(wait time.Duration) limits.Decision {
	p.Helper()
	return p.again(0, wait)
}

func (p *past) allows(cost int64, wait time.Duration, label string) {
	p.Helper()
	if d := p.again(cost, wait); !d.Allowed {
		p.fail("%d %s, %s later, are denied: %s", cost, label, wait, showDecision(d))
	}
}

func (p *past) denies(cost int64, wait time.Duration, label string) {
	p.Helper()
	if d := p.again(cost, wait); d.Allowed {
		p.fail("%d %s, %s later, are allowed: %s", cost, label, wait, showDecision(d))
	}
}

func (p *past) fail(format string, args ...any) {
	p.Helper()
	p.Error(about(p.limit, format, args...))
	for _, c := range p.charges {
		p.Logf("  charged %d of %s at %s", c.cost, showLimit(c.limit), instant(c.at))
	}
}
