package limitstest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// historyCases record the decisions that several callers got at once. Then they look for an order
// of the calls in which [Exact] makes the same decisions. In that order a call may stand before
// another only if it began before the other ended.
var historyCases = []testCase{
	{
		name: "calls on one key are as if made one after another",
		why: "there is an order of the concurrent calls that explains every number in every decision, " +
			"with callers that read the clock in one order and decide in another (DESIGN 1: exact " +
			"under any concurrency)",
		run: func(t testing.TB, h Harness) {
			random := rand.New(rand.NewPCG(h.seed(t), 2))
			for _, s := range h.scenes() {
				for range max(1, h.Decisions/10_000) {
					s.record(t, h, random, func(caller *rand.Rand) []backends.Charge {
						k := caller.IntN(2)
						return []backends.Charge{s.charge(k, caller.Int64N(5))}
					}).check(t, true)
				}
			}
		},
	},
	{
		name: "groups are as if made one after another",
		why: "groups, with duplicates and shadows over several keys: no caller ever sees a part of a " +
			"group taken (DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			random := rand.New(rand.NewPCG(h.seed(t), 3))
			scenes := h.scenes()
			for i, s := range scenes {
				other := scenes[(i+1)%len(scenes)]
				for range max(1, h.Decisions/10_000) {
					s.record(t, h, random, func(caller *rand.Rand) []backends.Charge {
						group := make([]backends.Charge, 1+caller.IntN(3))
						for i := range group {
							k := caller.IntN(3)
							group[i] = s.charge(k, caller.Int64N(5))
							if k == 2 {
								group[i].Limit = other.limit
							}
							group[i].Shadow = caller.IntN(4) == 0
						}
						return group
					}).check(t, false)
				}
			}
		},
	},
}

// scene is a limit, and the use of its keys before a history begins. A history lasts less than
// 40ms, so no key becomes fresh within it: a backend could forget such a key.
type scene struct {
	limit  limits.Limit
	start  time.Duration // after newYear
	before []earlier
}

// earlier is a charge before a history begins.
type earlier struct {
	after time.Duration // the clock moves by this before the charge
	cost  int64
}

// scenes returns the scenes whose limits the backend supports.
func (h Harness) scenes() []scene {
	var all []scene
	for _, a := range algorithms() {
		all = append(all, a.scenes...)
	}
	return slices.DeleteFunc(all, func(s scene) bool { return !h.limits.has(s.limit) })
}

func (s scene) charge(key int, cost int64) backends.Charge {
	return backends.Charge{Scope: "scene", Key: fmt.Sprint(key), Limit: s.limit, Cost: cost}
}

// call is one Take or Reset in a history, with its decisions.
type call struct {
	lifetime
	caller  int
	charges []backends.Charge
	reset   bool // a Reset of the first charge's key
	told    []limits.Decision
}

// history is the calls made in one scene.
type history struct {
	mu    sync.Mutex
	time  atomic.Int64 // counts the beginnings and the ends of calls
	calls []call
}

// record records random calls of several callers in a scene.
func (s scene) record(t testing.TB, h Harness, random *rand.Rand,
	next func(*rand.Rand) []backends.Charge) *history {
	t.Helper()
	const callers, each = 4, 12
	w := h.lateWorld(t)
	c := w.clock
	c.advance(s.start)
	resets := canReset(t, w.backend)
	past := new(history)
	for _, step := range s.before {
		c.advance(step.after)
		for k := range 3 {
			past.call(w, call{caller: callers, charges: []backends.Charge{s.charge(k, step.cost)}})
		}
	}
	var all sync.WaitGroup
	for i := range callers {
		caller := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		all.Go(func() {
			for range each {
				charges := next(caller)
				// A bucket that is reset and charged again would become fresh within the history.
				reset := resets && !isBucket(charges[0].Limit) && caller.IntN(24) == 0
				past.call(w, call{caller: i, charges: charges, reset: reset})
				if caller.IntN(3) == 0 {
					c.advance(time.Duration(caller.IntN(800)) * us) // 48 calls of less than 800µs
				}
			}
		})
	}
	all.Wait()
	return past
}

// call makes one call and records it.
func (p *history) call(w world, c call) {
	w.Helper()
	c.begin = p.time.Add(1)
	if c.reset {
		err := backends.Reset(context.Background(), w.backend, c.charges[0].Scope, c.charges[0].Key)
		if err != nil {
			w.Errorf("Reset: %v", err)
		}
	} else {
		c.told = w.try(c.charges...)
	}
	c.end = p.time.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
}

// check fails the test if no order explains the calls. If each call has a single charge, it checks
// each key by itself.
func (p *history) check(t testing.TB, single bool) {
	t.Helper()
	if t.Failed() {
		return // a call failed, and there is nothing to check
	}
	slices.SortFunc(p.calls, func(a, b call) int { return cmp.Compare(a.begin, b.begin) })
	parts := map[account][]call{}
	for _, c := range p.calls {
		part := account{}
		if single {
			part = accountOf(c.charges[0])
		}
		parts[part] = append(parts[part], c)
	}
	for _, calls := range parts {
		lifetimes := make([]lifetime, len(calls))
		for i, c := range calls {
			lifetimes[i] = c.lifetime
		}
		order := longestOrder(lifetimes, ledger{},
			func(l ledger, i int) (ledger, bool) { return l.explains(calls[i]) }, ledger.equal)
		if len(order) < len(calls) {
			t.Errorf("no order of these %d calls explains what they were told", len(calls))
			reportOrder(t, order, calls)
		}
	}
}

// reportOrder prints the longest order that Exact explains. It also prints the calls that could
// come next, with the decisions that Exact would have made.
func reportOrder(t testing.TB, order []int, calls []call) {
	t.Helper()
	state := ledger{}
	for _, i := range order {
		state, _ = state.explains(calls[i])
		t.Logf("  %s", calls[i])
	}
	first := int64(math.MaxInt64) // the end of the call that ended first
	for i, c := range calls {
		if !slices.Contains(order, i) {
			first = min(first, c.end)
		}
	}
	for i, c := range calls {
		if slices.Contains(order, i) || c.begin > first {
			continue
		}
		t.Logf("  then %s", c)
		want := make([]limits.Decision, len(c.told))
		if _, err := state.take(c.told[0].At, c.charges, want); err == nil {
			t.Logf("  but\n%s", diff(c.charges, c.told, want))
		}
	}
}

// explains reports whether c gets its decisions if it finds l, and returns the ledger after c.
func (l ledger) explains(c call) (ledger, bool) {
	after := maps.Clone(l)
	if c.reset {
		delete(after, accountOf(c.charges[0]))
		return after, true
	}
	want := make([]limits.Decision, len(c.told))
	changes, err := l.take(c.told[0].At, c.charges, want)
	if err != nil || diff(c.charges, c.told, want) != "" {
		return nil, false
	}
	maps.Copy(after, changes)
	return after, true
}

// equal reports whether l and m are the same ledger.
func (l ledger) equal(m ledger) bool { return maps.EqualFunc(l, m, usage.equal) }

// equal reports whether u and v are the same usage.
func (u usage) equal(v usage) bool {
	sameLevel := u.level == v.level || u.level != nil && v.level != nil && u.level.Cmp(v.level) == 0
	sameChange := u.change == v.change || u.change != nil && v.change != nil && *u.change == *v.change
	return sameLevel && sameChange && u.limit == v.limit && u.at == v.at && u.curr == v.curr &&
		u.prev == v.prev &&
		u.debt == v.debt && u.until == v.until && slices.Equal(u.takings, v.takings) &&
		slices.Equal(u.held, v.held) &&
		slices.EqualFunc(u.events, v.events, event.equal)
}

func (c call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "caller %d, %d to %d: ", c.caller, c.begin, c.end)
	if c.reset {
		fmt.Fprintf(&b, "reset %s", shorten(c.charges[0].Key))
	}
	for i, d := range c.told {
		fmt.Fprintf(&b, "%s: %s; ", show(c.charges[i]), showDecision(d))
	}
	return b.String()
}
