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

// ledger knows the requests of a limiter that have an end and have not ended, and ends
// them with the backends that decided. A limiter whose rules have no end has none.
type ledger struct {
	primary  *settling
	fallback func() *settling              // of the rules that fall back
	local    atomic.Pointer[memory.Memory] // of the rules that are Local; nil: there were none
	observe  Observer                      // nil: none

	lists   [ledgerLists]requestList
	next    atomic.Uint32 // which list the next record belongs to
	records sync.Pool     // of *request that have ended
}

// ledgerLists is in how many lists requests are, so that their ends do not queue.
const ledgerLists = 8

// requestList has requests that have not ended, the oldest first.
type requestList struct {
	mu       sync.Mutex
	requests list.List[*request]
	units    int // of concurrency limits
	_        [24]byte
}

// settling is a backend that ends what it has taken.
type settling struct {
	*endings.Backend
	memory *memory.Memory // the backend itself, or nil
}

func settlingBy(b backends.Backend) *settling {
	m, _ := b.(*memory.Memory)
	return &settling{endings.Of(b), m}
}

func newLedger(primary backends.Backend, fallback func() backends.Backend, observe Observer) *ledger {
	l := &ledger{
		primary:  settlingBy(primary),
		fallback: sync.OnceValue(func() *settling { return settlingBy(fallback()) }),
		observe:  observe,
	}
	l.records.New = func() any {
		q := &request{ledger: l, list: &l.lists[l.next.Add(1)%ledgerLists]}
		q.taken, q.node.Of = q.fewTaken[:0], q
		return q
	}
	return l
}

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

// requestState is zero in a record without a request: only its generation and its state may then
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

// begin gives o, which is allowed, a request with an end if it was charged for one.
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
		q.taken = append(q.taken, taken{rule: d.rule, limit: d.limit, key: d.Key, cost: d.Cost, spent: -1, source: d.Source, ticket: d.Ticket})
		t := &q.taken[len(q.taken)-1]
		if t.source == limits.SourceLease { // of units that the backend has given
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

// forget keeps the record of q, which has ended, for another request: to allocate one for
// each made BenchmarkStartToEnd half as slow again.
func (l *ledger) forget(q *request) {
	if q.sentAway || q.generation == lastGeneration {
		return
	}
	clear(q.taken) // it holds no memory of the user's
	q.taken = q.taken[:0]
	l.records.Put(q)
}

// mirrors reports whether the fallback holds the units of t, too, which the backend has
// allowed: if it has to decide next, it starts from what runs.
func (l *ledger) mirrors(t *taken) bool {
	return t.rule.held && t.source == limits.SourcePrimary && t.rule.onFailure == FallBack &&
		l.primary.memory == nil && !l.fallback().Remote()
}

// mirror tells the fallback how many units of t it has held until now, and how many it
// holds from now on.
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

// add begins a generation of q and returns its number.
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

// detach reports whether the given generation of q is under way, which it then leaves to its caller.
func (q *request) detach(generation uint16) bool {
	q.list.mu.Lock()
	defer q.list.mu.Unlock()
	if q.generation != generation || q.state != underWay {
		return false
	}
	q.state = detached
	return true
}

// end ends the request, which is in a given generation, if it is in state from.
func (q *request) end(generation uint16, result Result, from requestState) {
	if q.list.remove(q, generation, from) {
		q.ledger.settle(q, result)
	}
}

// remove ends the given generation of q and takes it out of its list. It reports whether q was
// in state from; if not, it does nothing.
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

// held returns how many units of concurrency limits are held, and since when the request
// that has not ended for longest is under way.
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

// settle ends the charges of q with the backends that made them.
//
// The functions of the user may end the goroutine. So each step is deferred before the
// one that comes first.
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

func (l *ledger) settlePrimary(q *request) { l.send(l.primary, q, limits.SourcePrimary) }

// settleFallback also releases the units that the fallback holds though it did not decide.
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

// reportUnchanged reports the charges that have cost what they were estimated at.
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

// endsWith reports whether t has something to end with the backend that is the source of
// its decision.
func (t *taken) endsWith(source limits.Source) bool {
	return t.source == source && (t.rule.held || t.final != t.cost)
}

// send has a backend end what it has decided.
func (l *ledger) send(to *settling, q *request, source limits.Source) {
	if to.memory != nil {
		l.settleIn(to.memory, q, 0, source)
		return
	}
	var endings []backends.Ending
	var of []*taken
	for i := range q.taken {
		if t := &q.taken[i]; t.endsWith(source) {
			endings = append(endings, backends.Ending{})
			t.ending(&endings[len(endings)-1])
			of = append(of, t)
		}
	}
	if len(endings) > 0 {
		q.sentAway = q.sentAway || to.Remote()
		to.Send(endings, func(i int, s limits.Settlement) { l.report(of[i], s) })
	}
}

// settleIn is send for a Memory, from the i-th charge on: one by one, so that nothing is
// allocated.
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

// carryOut has m carry out one ending. It returns an error if the clock of m panics: the ending is lost.
func carryOut(m *memory.Memory, endings *[1]backends.Ending, out *[1]limits.Settlement) (err error) {
	defer call.PanicAsError(m, &err)
	return m.Settle(context.Background(), endings[:], out[:])
}

// reportAndSettleIn reports the i-th charge and settles the others, though the observer may
// end the goroutine.
func (l *ledger) reportAndSettleIn(m *memory.Memory, q *request, i int, source limits.Source, s limits.Settlement) {
	defer l.settleIn(m, q, i+1, source)
	l.report(&q.taken[i], s)
}

// ending sets e to what t has to end.
func (t *taken) ending(e *backends.Ending) {
	e.Scope, e.Key, e.Limit = t.rule.scope, t.key, *t.limit
	e.Taken, e.Final, e.Ticket, e.Lasts = t.cost, t.final, t.ticket, t.rule.lasts
}

// report tells the observer what became of t. A panic of the observer is dropped: the
// request is over, and others may wait for the goroutine.
func (l *ledger) report(t *taken, s limits.Settlement) {
	if l.observe == nil {
		return
	}
	s.Rule, s.Scope, s.Taken, s.Final = t.rule.name, t.rule.scope, t.cost, t.final
	defer func() { _ = recover() }()
	l.observe.ObserveEnd(s)
}
