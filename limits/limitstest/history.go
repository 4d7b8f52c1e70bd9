package limitstest

import (
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

	"github.com/anishathalye/porcupine"
	"github.com/weir-go/weir/limits"
)

// historyCases record what several callers were told, and look for one order
// of their calls in which [Exact] would have told them the same. A call may
// only come before another in that order if it began before the other ended.
var historyCases = []testCase{
	{
		name: "calls on one key are as if made one after another",
		why:  "there is an order of the concurrent calls that explains every number in every decision, with callers that read the clock in one order and decide in another (DESIGN 1: exact under any concurrency)",
		run: func(t testing.TB, h Harness) {
			random := rand.New(rand.NewPCG(h.seed(t), 2))
			for _, s := range h.scenes() {
				for range max(1, h.Decisions/10_000) {
					s.record(t, h, random, func(caller *rand.Rand) []limits.Charge {
						k := caller.IntN(2)
						return []limits.Charge{s.charge(k, caller.Int64N(5))}
					}).check(t, true)
				}
			}
		},
	},
	{
		name: "groups are as if made one after another",
		why:  "groups, duplicates and shadows over several keys included: nobody ever sees a part of a group taken (DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			random := rand.New(rand.NewPCG(h.seed(t), 3))
			scenes := h.scenes()
			for i, s := range scenes {
				other := scenes[(i+1)%len(scenes)]
				for range max(1, h.Decisions/10_000) {
					s.record(t, h, random, func(caller *rand.Rand) []limits.Charge {
						group := make([]limits.Charge, 1+caller.IntN(3))
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

// scene is a limit, and how its keys were used before a history begins. The
// clock moves on by less than 40ms in a history, so that no key becomes fresh
// within it: a backend would be free to forget it from then on.
type scene struct {
	limit  limits.Limit
	start  time.Duration // after newYear
	before []step        // only advance and cost are used
}

var scenes = []scene{
	{limits.TokenBucket(limits.PerSecond(500), 64), 0, []step{{cost: 60}}}, // fresh in 120ms
	{limits.LeakyQueue(limits.Per(7, 13*ms), 40), 0, []step{{cost: 38}}},
	{limits.FixedWindow(limits.Per(30, 50*ms)), 0, []step{{cost: 1}}},                                                                    // ends in 50ms
	{limits.SlidingWindow(limits.Per(60, 50*ms)), 30 * ms, []step{{cost: 50}}},                                                           // the next window starts within the history
	{limits.SlidingLog(limits.Per(60, 50*ms)), 0, []step{{cost: 30}, {5 * ms, 10, limits.Decision{}}, {20 * ms, 15, limits.Decision{}}}}, // takings leave within it
	{limits.AnchoredWindow(limits.Per(30, 50*ms)), 30 * ms, []step{{cost: 1}}},                                                           // closes in 50ms
}

// scenes are those under limits that the backend supports.
func (h Harness) scenes() []scene {
	return slices.DeleteFunc(slices.Clone(scenes), func(s scene) bool { return !h.limits.has(s.limit) })
}

func (s scene) charge(key int, cost int64) limits.Charge {
	return limits.Charge{Scope: "scene", Key: fmt.Sprint(key), Limit: s.limit, Cost: cost}
}

// call is one Take or Reset in a history.
type call struct {
	charges []limits.Charge
	reset   bool // of the first charge's account
}

// history is what happened in one scene.
type history struct {
	mu    sync.Mutex
	time  atomic.Int64 // counts beginnings and ends of calls
	calls []porcupine.Operation
}

// record lets callers make random calls in a scene.
func (s scene) record(t testing.TB, h Harness, random *rand.Rand, next func(*rand.Rand) []limits.Charge) *history {
	t.Helper()
	const callers, each = 4, 12
	w := h.lateWorld(t)
	c := w.clock
	c.advance(s.start)
	resets := canReset(t, w.backend)
	past := new(history)
	for _, step := range s.before {
		c.advance(step.advance)
		for k := range 3 {
			past.call(w, callers, call{charges: []limits.Charge{s.charge(k, step.cost)}})
		}
	}
	var all sync.WaitGroup
	for i := range callers {
		caller := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		all.Go(func() {
			for range each {
				charges := next(caller)
				// A bucket that was reset and charged anew would be fresh within the history.
				reset := resets && !isBucket(charges[0].Limit) && caller.IntN(24) == 0
				past.call(w, i, call{charges, reset})
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
func (p *history) call(w world, caller int, c call) {
	w.Helper()
	begin := p.time.Add(1)
	var out []limits.Decision
	if c.reset {
		if err := limits.Reset(context.Background(), w.backend, c.charges[0].Scope, c.charges[0].Key); err != nil {
			w.Errorf("Reset: %v", err)
		}
	} else {
		out = w.try(c.charges...)
	}
	end := p.time.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, porcupine.Operation{ClientId: caller, Input: c, Call: begin, Output: out, Return: end})
}

// check looks for an order. In a history of single charges every key is looked
// at on its own.
func (p *history) check(t testing.TB, single bool) {
	t.Helper()
	if t.Failed() {
		return // a call failed, and there is nothing to check
	}
	model := porcupine.Model{
		Init: func() any { return ledger{} },
		Step: explains,
		Equal: func(a, b any) bool {
			return maps.EqualFunc(a.(ledger), b.(ledger), usage.equal)
		},
	}
	if single {
		model.Partition = byAccount
	}
	result, info := porcupine.CheckOperationsVerbose(model, p.calls, 0)
	if result == porcupine.Ok {
		return
	}
	t.Errorf("no order of these %d calls explains what they were told", len(p.calls))
	for _, orders := range info.PartialLinearizationsOperations() {
		longest := []porcupine.Operation(nil) // stays empty if no call can come first
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
		reportOrder(t, longest, p.calls)
	}
}

// reportOrder prints the longest order that can be explained, and the calls that could
// come next if they were told something else.
func reportOrder(t testing.TB, order, calls []porcupine.Operation) {
	t.Helper()
	state, done := any(ledger{}), map[int64]bool{}
	accounts := map[account]bool{}
	for _, op := range order {
		_, state = explains(state, op.Input, op.Output)
		done[op.Call] = true
		for _, c := range op.Input.(call).charges {
			accounts[accountOf(c)] = true
		}
		t.Logf("  %s", describe(op))
	}
	mayBeNext := func(op porcupine.Operation) bool {
		c := op.Input.(call).charges[0]
		return !done[op.Call] && (len(order) == 0 || accounts[accountOf(c)])
	}
	first := int64(math.MaxInt64) // the end of the call that ended first
	for _, op := range calls {
		if mayBeNext(op) {
			first = min(first, op.Return)
		}
	}
	for _, op := range calls {
		if !mayBeNext(op) || op.Call > first {
			continue
		}
		t.Logf("  then %s", describe(op))
		c, got := op.Input.(call), op.Output.([]limits.Decision)
		want := make([]limits.Decision, len(got))
		if _, err := state.(ledger).take(got[0].At, c.charges, want); err == nil {
			t.Logf("  but\n%s", diff(c.charges, got, want))
		}
	}
}

func describe(op porcupine.Operation) string {
	return fmt.Sprintf("caller %d, %d to %d: %s", op.ClientId, op.Call, op.Return, op.Input.(call).show(op.Output.([]limits.Decision)))
}

// explains reports whether a call that finds state is told what it was told,
// and returns the state that it leaves.
func explains(state, input, output any) (bool, any) {
	before, c, got := state.(ledger), input.(call), output.([]limits.Decision)
	after := maps.Clone(before)
	if c.reset {
		delete(after, accountOf(c.charges[0]))
		return true, after
	}
	want := make([]limits.Decision, len(got))
	changes, err := before.take(got[0].At, c.charges, want)
	if err != nil || diff(c.charges, got, want) != "" {
		return false, before
	}
	maps.Copy(after, changes)
	return true, after
}

func byAccount(calls []porcupine.Operation) [][]porcupine.Operation {
	parts := map[account][]porcupine.Operation{}
	for _, op := range calls {
		first := op.Input.(call).charges[0]
		a := accountOf(first)
		parts[a] = append(parts[a], op)
	}
	return slices.Collect(maps.Values(parts))
}

// equal reports whether u and v are the same usage.
func (u usage) equal(v usage) bool {
	sameLevel := u.level == v.level || u.level != nil && v.level != nil && u.level.Cmp(v.level) == 0
	sameChange := u.change == v.change || u.change != nil && v.change != nil && *u.change == *v.change
	return sameLevel && sameChange && u.limit == v.limit && u.at == v.at && u.curr == v.curr && u.prev == v.prev &&
		u.debt == v.debt && u.until == v.until && slices.Equal(u.takings, v.takings) && slices.Equal(u.held, v.held) &&
		slices.EqualFunc(u.events, v.events, event.equal)
}

func (c call) show(out []limits.Decision) string {
	if c.reset {
		return "reset " + shorten(c.charges[0].Key)
	}
	var b strings.Builder
	for i := range out {
		fmt.Fprintf(&b, "%s: %s; ", show(c.charges[i]), showDecision(out[i]))
	}
	return b.String()
}
