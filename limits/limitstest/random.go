package limitstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// randomCases play long random scripts on a backend and on [Exact], and compare every field of
// every decision.
var randomCases = []testCase{
	randomCase("one charge at a time is decided as by the definitions", style{charges: 1}),
	randomCase("one charge at a time is decided as by the definitions while the clock steps back",
		style{charges: 1, back: 8}),
	randomCase("one charge at a time is decided as by the definitions while limits change",
		style{charges: 1, change: 6, back: 20}),
	randomCase("groups are decided as by the definitions", style{charges: 5, back: 20}),
	randomCase("requests that end are decided as if they had cost what they did",
		style{charges: 1, settle: 2}),
	randomCase("requests that end are decided as if they had cost what they did while the clock "+
		"steps back", style{charges: 1, settle: 2, back: 8}),
	randomCase("requests that end are decided as if they had cost what they did while limits change",
		style{charges: 2, settle: 2, change: 8, reset: 30}),
	randomCase("everything at once is decided as by the definitions", everything),
}

var everything = style{charges: 4, change: 10, back: 10, peek: 8, reset: 30, settle: 3}

// style says how often each kind of event occurs in a random script: n is about every n-th call,
// 0 is never.
type style struct {
	charges                           int // the most charges of a call
	back, change, peek, reset, settle int
	values                            bool // all limits count values
}

func randomCase(name string, s style) testCase {
	return testCase{
		name: name,
		why: "for random legal limits, keys, costs and instants every field of every decision equals " +
			"that of a slow model that computes with rational numbers (DESIGN 5)",
		run: func(t testing.TB, h Harness) {
			seed := h.seed(t)
			for i := 0; i < max(1, h.Decisions/5/scriptLength) && !t.Failed(); i++ {
				h.improvise(t, s, scriptLength, rand.New(rand.NewPCG(seed, uint64(i))))
			}
		},
	}
}

const scriptLength = 250

// improvise plays one random script of length calls, and makes it up as it plays.
func (h Harness) improvise(t testing.TB, s style, length int, random *rand.Rand) {
	t.Helper()
	stage := h.stage(t, h.Open)
	if s.peek > 0 && !canPeek(t, stage.backend) {
		s.peek = 0
	}
	if s.reset > 0 && !canReset(t, stage.backend) {
		s.reset = 0
	}
	if s.settle > 0 && !backends.CanSettle(stage.backend) {
		s.settle = 0
	}
	a := author{style: s, limits: h.limits, random: random,
		now: newYear.UnixMicro() + random.Int64N(day.Microseconds())}
	for range 2 + random.IntN(7) {
		a.accounts = append(a.accounts, a.newAccount(len(a.accounts)))
	}
	var calls script
	for range length {
		call := a.next(stage.exact)
		calls = append(calls, call)
		want, difference := stage.play(call)
		for _, target := range a.accounts {
			if target.isIn(stage.unsure) {
				target.rename()
			}
		}
		if difference != "" {
			h.report(t, h.Open, calls, difference)
			return
		}
		a.remember(call, want)
		if now := stage.clock.micros(); now > a.now && random.IntN(2) == 0 {
			a.now = now // the clock stepped back, but the backend's time did not
		}
	}
}

// author writes the calls of a script.
type author struct {
	style
	limits   *selection
	random   *rand.Rand
	now      int64
	accounts []*accountInPlay
	takes    int64
	open     []openCharge // charges that have not ended
}

// openCharge is a charge that a settle call may end.
type openCharge struct {
	at     int64 // when it was taken
	id     int64
	index  int
	charge backends.Charge
}

// longest is how long a request lasts at most whose charge ends: see [backends.Ending].Ticket.
const longest = 400 * day

// accountInPlay is an account of a script, with its present limit and the last decision on it.
type accountInPlay struct {
	scope, key string
	limit      limits.Limit
	last       limits.Decision
	names      int    // how often it was renamed
	value      uint64 // of the next call
}

var (
	oddScopes = []string{"", "api", "login", "a:b", "\x00", "\xff", "{x}", "héllo", "a b"}
	oddKeys   = []string{"", "user 1", "2001:db8::/64", "\x00\x01", "\xff\xfe", "{y}z", "日本", "a\nb"}
	oddValues = []uint64{0, 1, 1 << 31, 1 << 32, 1<<32 + 1, 1 << 63, 1<<64 - 1, 0xfedcba9876543210}
)

func (a *author) newAccount(i int) *accountInPlay {
	return &accountInPlay{
		scope: oddScopes[a.random.IntN(len(oddScopes))],
		key:   fmt.Sprint(oddKeys[a.random.IntN(len(oddKeys))], i),
		limit: a.limit(),
	}
}

// limit returns the limit of a new account.
func (a *author) limit() limits.Limit {
	if a.values {
		return randomDistinct(a.random)
	}
	return a.limits.random(a.random)
}

// next writes the next call. It reads the state of exact to know which keys a backend may
// forget.
func (a *author) next(exact *Exact) scriptCall {
	target := a.accounts[a.random.IntN(len(a.accounts))]
	a.moveClock(exact, target)
	for _, other := range a.accounts {
		if other.limit.Algorithm().CountsValues() {
			other.value = oddValues[a.random.IntN(len(oddValues))]
		}
	}
	a.open = slices.DeleteFunc(a.open,
		func(o openCharge) bool { return a.now-o.at > longest.Microseconds() })
	if len(a.open) > 0 && a.every(a.settle) {
		return a.ending()
	}
	c := scriptCall{at: a.now, charges: []backends.Charge{a.charge(target)}}
	for a.charges > 1 && len(c.charges) < a.charges && a.random.IntN(2) == 0 {
		c.charges = append(c.charges, a.charge(a.accounts[a.random.IntN(len(a.accounts))]))
	}
	switch {
	case a.every(a.reset):
		c.verb = reset
	case a.every(a.peek):
		c.verb = peek
	case a.style.settle > 0:
		a.takes++
		c.id = a.takes
	}
	return c
}

// ending writes a settle call, mostly for a recent charge.
func (a *author) ending() scriptCall {
	i := a.random.IntN(len(a.open))
	if a.random.IntN(2) == 0 {
		i = len(a.open) - 1 - a.random.IntN(min(3, len(a.open)))
	}
	o := a.open[i]
	a.open = append(a.open[:i], a.open[i+1:]...)
	c := scriptCall{at: a.now, verb: settle, id: o.id, index: o.index}
	if o.charge.Limit.Algorithm().Holds() {
		return c
	}
	switch cost := o.charge.Cost; a.random.IntN(8) {
	case 0, 1:
	case 2, 3, 4:
		c.final = a.random.Int64N(cost + 1)
	case 5:
		c.final = cost + upTo(a.random, o.charge.Limit.Burst())
	case 6:
		c.final = cost + a.random.Int64N(3)
	case 7:
		c.final = [...]int64{cost + 3*o.charge.Limit.Burst(), math.MaxInt64, 1}[a.random.IntN(3)]
	}
	return c
}

func (a *author) charge(target *accountInPlay) backends.Charge {
	c := backends.Charge{
		Scope: target.scope, Key: target.key, Limit: target.limit,
		Cost:   randomCost(a.random, target.limit, target.last),
		Shadow: a.charges > 1 && a.random.IntN(4) == 0,
	}
	if c.Limit.Algorithm().CountsValues() {
		c.Value = target.value
		return c
	}
	if a.style.settle > 0 && !c.Limit.Algorithm().Holds() {
		c.Lasts = 20 * sec
		if a.style.charges == 1 && a.random.IntN(8) == 0 {
			c.Lasts = 0
		}
	}
	return c
}

// moveClock sets the instant of the next call, which charges target, and may change target's
// limit.
func (a *author) moveClock(exact *Exact, target *accountInPlay) {
	to := a.now + max(0, randomAdvance(a.random, target.limit, a.now, target.last))
	if a.every(a.back) {
		to = a.now - upTo(a.random, min(2*max(1000, micros(target.limit)), day.Microseconds()*30))
	}
	earliest := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	latest := time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)
	if to < earliest.UnixMicro() || to > latest.UnixMicro() {
		for _, other := range a.accounts {
			other.rename()
		}
		to, a.open = newYear.UnixMicro(), nil
	}
	if to < a.now {
		forgettable := exact.ledger.forgettable(a.now, to)
		for _, other := range a.accounts {
			if other.isIn(forgettable) {
				other.rename()
			}
		}
		a.open = slices.DeleteFunc(a.open,
			func(o openCharge) bool { return forgettable[accountOf(o.charge)] })
	}
	a.now = to
	if a.every(a.change) {
		if target.limit = a.limits.changed(a.random, target.limit); a.values {
			target.limit = randomDistinct(a.random)
		}
	}
}

// isIn reports whether accounts has the account, whatever is counted.
func (k *accountInPlay) isIn(accounts map[account]bool) bool {
	return slices.ContainsFunc(everyCounted[:], func(what counted) bool {
		return accounts[account{k.scope, k.key, what}]
	})
}

// rename gives the account a new key, without state.
func (k *accountInPlay) rename() {
	k.names++
	k.key = fmt.Sprint(k.key, "/", k.names)
	k.last = limits.Decision{}
}

func (a *author) remember(c scriptCall, want []limits.Decision) {
	taken := !slices.ContainsFunc(want, func(d limits.Decision) bool { return !d.Allowed })
	for i, d := range want {
		if charge := c.charges[i]; taken && c.verb == take && c.id != 0 && charge.Cost > 0 &&
			charge.Cost < math.MaxInt64/4 {
			if charge.Lasts > 0 || charge.Limit.Algorithm().Holds() {
				a.open = append(a.open, openCharge{c.at, c.id, i, charge})
			}
		}
		for _, target := range a.accounts {
			if target.scope == c.charges[i].Scope && target.key == c.charges[i].Key {
				target.last = d
			}
		}
	}
}

// every returns true about every n-th time, and never if n is 0.
func (a *author) every(n int) bool { return n > 0 && a.random.IntN(n) == 0 }
