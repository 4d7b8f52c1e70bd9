package core

import (
	"math"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/internal/list"
	"github.com/weir-go/weir/limits"
)

// request is what an admitted request still has to end. All copies of its [Outcome]
// share it. A record serves one request after another, and an outcome has the generation that it
// belongs to. A stale outcome has an older generation and does nothing.
type request struct {
	ledger     *ledger
	list       *requestList // always the same; its lock guards what follows, until the request has ended
	state      requestState
	sentAway   bool   // a goroutine reports later what became of it
	generation uint16 // how many requests it has served; at lastGeneration it serves no more
	taken      []taken
	fewTaken   [2]taken // enough for most requests

	at   int64 // the latest instant of its decisions
	node list.Node[*request]
}

// requestState is zero in a record that nobody uses: only its generation and its state may then
// be looked at, with the lock.
type requestState uint8

const (
	ended requestState = iota
	underWay
	detached // only the function that Detach returned ends it
)

const lastGeneration = math.MaxUint16

// taken is one charge of a request that has an end.
type taken struct {
	rule   *ruleIdentity
	limit  *limits.Limit
	key    string
	cost   int64
	spent  int64         // −1: nothing was said
	final  int64         // what it has come to at the end
	source limits.Source // SourcePrimary for SourceLease, too
	ticket int64
}

// End ends the request: units of concurrency limits are released, and every rule with a
// FinalCost is charged its final cost. Whoever calls [Limiter.Decide] must call End once
// an allowed request is over, best in a defer; middleware does so itself. End does
// nothing for an outcome that is not allowed, or that has no rule with an end. Of all
// calls, on the outcome and its copies and from any goroutine, only the first counts. It
// does not wait: a backend in another process is told afterwards, and what became of the
// endings is reported to [Config].ObserveEnd.
func (o *Outcome) End(result Result) {
	if o.request != nil {
		o.request.end(o.generation, result, underWay)
	}
}

// Spend adds n units to what the request has really cost under the rule of that name. The
// first call replaces the rule's estimate; see [SpentCost]. It reports whether this counts:
// not if the rule has no FinalCost or did not charge this request, n is negative, or the
// request has ended. Goroutines may call it at once. Sums above math.MaxInt64 become that.
func (o *Outcome) Spend(rule string, n int64) bool {
	return o.request != nil && n >= 0 && o.request.spend(o.generation, rule, n)
}

// Detach leaves the end of the request to the caller, who must call end when it is over;
// [Outcome.End] then does nothing. It is for a request that outlives its handler, such as
// a hijacked connection, or that is over before. ok is false, and end nil, if the request
// has nothing to end, has ended, or is detached already.
func (o *Outcome) Detach() (end func(Result), ok bool) {
	q, generation := o.request, o.generation
	if q == nil {
		return nil, false
	}
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if q.generation != generation || q.state != underWay {
		return nil, false
	}
	q.state = detached
	return func(result Result) { q.end(generation, result, detached) }, true
}

// HasEnd reports whether the request has something to end, so that End matters.
func (o answer) HasEnd() bool { return o.request != nil }

func (q *request) spend(generation uint16, rule string, n int64) bool {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if q.generation != generation || q.state == ended {
		return false
	}
	counted := false
	for i := range q.taken {
		t := &q.taken[i]
		if t.rule.name == rule && t.rule.finalCost != nil {
			t.spent = arith.Sum(max(0, t.spent), n)
			counted = true
		}
	}
	return counted
}

// end ends the request, which is in a given generation, if it is in state from.
func (q *request) end(generation uint16, result Result, from requestState) {
	if q.list.remove(q, generation, from) {
		q.ledger.settle(q, result)
	}
}

// finalCost returns what t should have cost. The function is the user's: what is not a
// cost, and a panic, leave the estimate.
func (t *taken) finalCost(result Result) (final int64) {
	if t.rule.held {
		return 0
	}
	result.Cost, result.Spent = t.cost, t.spent
	final = t.cost
	defer func() {
		if v := recover(); v != nil {
			final = t.cost
		}
	}()
	if cost := t.rule.finalCost(result); cost >= 0 {
		final = cost
	}
	return final
}
