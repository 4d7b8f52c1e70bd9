package core

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/internal/ground/list"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// ledger has the requests of a limiter that have yet to end, and sends their endings to the
// backends that decided. A limiter whose rules have no end has no ledger.
type ledger struct {
	primary  *settler
	fallback func() *settler               // for rules that fall back
	local    atomic.Pointer[memory.Memory] // for Local rules; nil: no rule was Local
	observe  Observer                      // nil: none

	lists   [ledgerLists]requestList
	next    atomic.Uint32 // the list of the next record
	records sync.Pool     // of *request without a request
}

// ledgerLists is the number of lists of requests. Several lists have several locks, so requests
// that end at once do not wait for each other.
const ledgerLists = 8

// requestList has requests in flight, the oldest first.
type requestList struct {
	mu       sync.Mutex
	requests list.List[*request]
	units    int // units of concurrency limits that they hold
	_        [24]byte
}

// settler sends endings to a backend.
type settler struct {
	*endings.Backend
	memory *memory.Memory // the backend, if it is a Memory; else nil
}

func settlerOf(b backends.Backend) *settler {
	m, _ := b.(*memory.Memory)
	return &settler{endings.Of(b), m}
}

func newLedger(primary backends.Backend, fallback func() backends.Backend,
	observe Observer) *ledger {
	l := &ledger{
		primary:  settlerOf(primary),
		fallback: sync.OnceValue(func() *settler { return settlerOf(fallback()) }),
		observe:  observe,
	}
	l.records.New = func() any {
		q := &request{ledger: l, list: &l.lists[l.next.Add(1)%ledgerLists]}
		q.taken, q.node.Of = q.fewTaken[:0], q
		return q
	}
	return l
}

// request is a record of the charges that an admitted request has yet to end. All copies of its
// [Outcome] share it. A record serves one request after another, each with a generation of its own.
// An outcome keeps the generation: one with an older generation is stale, and its End does nothing.
type request struct {
	ledger *ledger
	// never changes; its lock guards the fields below until the request has ended
	list       *requestList
	state      requestState
	sentAway   bool   // the endings are queued: a goroutine will report on them
	generation uint16 // how many requests it has served; at lastGeneration it retires
	taken      []taken
	fewTaken   [2]taken // enough for most requests

	at   int64 // the latest instant of its decisions
	node list.Node[*request]
}

// requestState is ended in a record without a request. Then only generation and state may be read,
// with the lock.
type requestState uint8

const (
	ended requestState = iota
	underWay
	detached // only the function returned by Detach can end it
)

const lastGeneration = math.MaxUint16

// taken is one charge that has an end.
type taken struct {
	rule   *ruleIdentity
	limit  *limits.Limit
	key    string
	cost   int64
	spent  int64         // −1: Spend was not called
	final  int64         // the final cost
	source limits.Source // the backend to end it with; SourcePrimary for SourceLease too
	ticket int64
}

// begin adds the request of o, which is allowed, if a charge of it has an end.
func (l *ledger) begin(o *Outcome) {
	var q *request
	for i := range o.Len() {
		d := o.At(i)
		if !d.rule.hasEnd || !d.Allowed || !d.Source.Counted() {
			continue
		}
		if q == nil {
			q = l.records.Get().(*request)
			q.at = 0
		}
		q.taken = append(q.taken,
			taken{rule: d.rule, limit: d.limit, key: d.Key, cost: d.Cost, spent: -1, source: d.Source,
				ticket: d.Ticket})
		t := &q.taken[len(q.taken)-1]
		if t.source == limits.SourceLease { // the backend has charged the units
			t.source = limits.SourcePrimary
		}
		if l.mirrors(t) {
			l.mirror(t, 0, t.cost)
		}
		q.at = max(q.at, d.At)
	}
	if q != nil {
		o.request, o.generation = q, l.add(q)
	}
}

// forget puts q, which has ended, back into the pool. A new record for each request made
// BenchmarkStartToEnd half as slow again.
func (l *ledger) forget(q *request) {
	if q.sentAway || q.generation == lastGeneration {
		return
	}
	clear(q.taken) // keep no memory of the user's alive
	q.taken = q.taken[:0]
	l.records.Put(q)
}

// mirrors reports whether the fallback also holds the units of t, which the backend has allowed. So
// a fallback that must decide starts from the requests in flight.
func (l *ledger) mirrors(t *taken) bool {
	return t.rule.held && t.source == limits.SourcePrimary && t.rule.onFailure == FallBack &&
		l.primary.memory == nil && !l.fallback().Remote()
}

// mirror tells the fallback how many units of t it held before, and how many it holds after.
func (l *ledger) mirror(t *taken, before, after int64) {
	var endings [1]backends.Ending
	var out [1]limits.Settlement
	t.ending(&endings[0])
	endings[0].Taken, endings[0].Final, endings[0].Ticket = before, after, 0
	if m := l.fallback().memory; m != nil {
		_ = carryOut(m, &endings, &out)
		return
	}
	l.fallback().Send(slices.Clone(endings[:]), func(int, limits.Settlement) {})
}

// add begins the next generation of q and returns it.
func (l *ledger) add(q *request) uint16 {
	open, units := q.list, q.units()
	open.mu.Lock()
	q.state = underWay
	q.generation++
	generation := q.generation
	open.requests.Add(&q.node)
	open.units += units
	open.mu.Unlock()
	return generation
}

// spend implements [Outcome.Spend] for a generation of q.
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

// detach makes the given generation of q detached. It returns false if that generation is not under
// way.
func (q *request) detach(generation uint16) bool {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if q.generation != generation || q.state != underWay {
		return false
	}
	q.state = detached
	return true
}

// end ends the given generation of q if it is in state from.
func (q *request) end(generation uint16, result Result, from requestState) {
	if q.list.remove(q, generation, from) {
		q.ledger.settle(q, result)
	}
}

// remove ends the given generation of q and removes it from its list. If q is not in state from, it
// does nothing and returns false.
func (open *requestList) remove(q *request, generation uint16, from requestState) bool {
	open.mu.Lock()
	if q.generation != generation || q.state != from {
		open.mu.Unlock()
		return false
	}
	q.state = ended
	open.requests.Remove(&q.node)
	open.units -= q.units()
	open.mu.Unlock()
	return true
}

// units returns how many units of concurrency limits q holds.
func (q *request) units() int {
	units := 0
	for i := range q.taken {
		if t := &q.taken[i]; t.rule.held {
			units += int(t.cost)
		}
	}
	return units
}

// held returns how many units of concurrency limits are held, and when the oldest request in flight
// began.
func (l *ledger) held() (units int, oldest time.Time) {
	at := int64(math.MaxInt64)
	for i := range l.lists {
		open := &l.lists[i]
		open.mu.Lock()
		units += open.units
		if oldest := open.requests.First; oldest != nil {
			at = min(at, oldest.Of.at)
		}
		open.mu.Unlock()
	}
	if at == math.MaxInt64 {
		return units, time.Time{}
	}
	return units, time.UnixMicro(at)
}

// settle sends the endings of q to the backends that decided its charges.
//
// Functions of the user run in most steps and may end the goroutine (runtime.Goexit). So the steps
// are deferred, the last one first: each runs whatever ended the one before.
func (l *ledger) settle(q *request, result Result) {
	defer l.forget(q)
	defer l.reportUnchanged(q)
	defer l.settleLocal(q)
	defer l.settleFallback(q)
	defer l.settlePrimary(q)
	for i := range q.taken {
		if t := &q.taken[i]; t.rule.finalCost != nil {
			t.final = t.cost
		}
	}
	for i := range q.taken {
		t := &q.taken[i]
		t.final = t.finalCost(result)
	}
}

// finalCost returns the final cost of t. If the user's function panics or returns a negative
// number, that is the estimate.
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

func (l *ledger) settlePrimary(q *request) { l.send(l.primary, q, limits.SourcePrimary) }

// settleFallback also releases the units that the fallback holds by mirror.
func (l *ledger) settleFallback(q *request) {
	decided := false
	for i := range q.taken {
		t := &q.taken[i]
		decided = decided || t.source == limits.SourceFallback
		if l.mirrors(t) {
			l.mirror(t, t.cost, 0)
		}
	}
	if decided {
		l.send(l.fallback(), q, limits.SourceFallback)
	}
}

func (l *ledger) settleLocal(q *request) {
	if local := l.local.Load(); local != nil {
		l.settleIn(local, q, 0, limits.SourceLocal)
	}
}

// reportUnchanged reports the charges whose final cost is their estimate.
func (l *ledger) reportUnchanged(q *request) {
	if l.observe == nil {
		return
	}
	for i := range q.taken {
		if t := &q.taken[i]; t.final == t.cost && t.rule.finalCost != nil {
			l.report(t, limits.Settlement{})
		}
	}
}

// endsWith reports whether t needs an ending by the backend of source.
func (t *taken) endsWith(source limits.Source) bool {
	return t.source == source && (t.rule.held || t.final != t.cost)
}

// send sends the endings of the charges that source decided.
func (l *ledger) send(to *settler, q *request, source limits.Source) {
	if to.memory != nil {
		l.settleIn(to.memory, q, 0, source)
		return
	}
	var endings []backends.Ending
	var owners []*taken // of each ending
	for i := range q.taken {
		if t := &q.taken[i]; t.endsWith(source) {
			endings = append(endings, backends.Ending{})
			t.ending(&endings[len(endings)-1])
			owners = append(owners, t)
		}
	}
	if len(endings) > 0 {
		q.sentAway = q.sentAway || to.Remote()
		to.Send(endings, func(i int, s limits.Settlement) { l.report(owners[i], s) })
	}
}

// settleIn is send for a Memory, from charge i on. It sends one ending at a time, so that it
// allocates nothing.
func (l *ledger) settleIn(m *memory.Memory, q *request, i int, source limits.Source) {
	var endings [1]backends.Ending
	var out [1]limits.Settlement
	for ; i < len(q.taken); i++ {
		t := &q.taken[i]
		if !t.endsWith(source) {
			continue
		}
		t.ending(&endings[0])
		if err := carryOut(m, &endings, &out); err != nil {
			out[0] = limits.Settlement{Err: err}
		}
		if l.observe != nil {
			l.reportAndSettleIn(m, q, i, source, out[0])
			return
		}
	}
}

// carryOut calls m.Settle for one ending. If the clock of m panics, it returns an error, and the
// ending is lost.
func carryOut(m *memory.Memory, endings *[1]backends.Ending,
	out *[1]limits.Settlement) (err error) {
	defer call.PanicAsError(m, &err)
	return m.Settle(context.Background(), endings[:], out[:])
}

// reportAndSettleIn reports charge i and then settles the charges behind it, even if the observer
// ends the goroutine.
func (l *ledger) reportAndSettleIn(m *memory.Memory, q *request, i int, source limits.Source,
	s limits.Settlement) {
	defer l.settleIn(m, q, i+1, source)
	l.report(&q.taken[i], s)
}

// ending fills e for t.
func (t *taken) ending(e *backends.Ending) {
	e.Scope, e.Key, e.Limit = t.rule.scope, t.key, *t.limit
	e.Taken, e.Final, e.Ticket, e.Lasts = t.cost, t.final, t.ticket, t.rule.lasts
}

// report calls the observer with the settlement of t. It drops a panic of the observer: the request
// is over, and other requests may wait for this goroutine.
func (l *ledger) report(t *taken, s limits.Settlement) {
	if l.observe == nil {
		return
	}
	s.Rule, s.Scope, s.Taken, s.Final = t.rule.name, t.rule.scope, t.cost, t.final
	defer func() { _ = recover() }()
	l.observe.ObserveEnd(s)
}
