package core

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/endings"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// ledger knows the requests of a limiter that have an end and have not ended, and ends
// them with the backends that decided. A limiter whose rules have no end has none.
type ledger struct {
	primary  *settling
	fallback func() *settling              // of the rules that fall back
	local    atomic.Pointer[memory.Memory] // of the rules that are Local; nil: there were none
	observe  func(limits.Settlement)

	lists          [ledgerLists]requestList
	next           atomic.Uint32 // which list the next record belongs to
	records        sync.Pool     // of *request that have ended
	onlyInFallback atomic.Int64  // requests with units that the fallback alone holds
	adopting       atomic.Bool   // a timer asks whether the backend works again
}

// ledgerLists is in how many lists requests are, so that their ends do not queue.
const ledgerLists = 8

// requestList is a list of requests, oldest first.
type requestList struct {
	mu             sync.Mutex
	oldest, newest *request
	units          int // of concurrency limits
	_              [32]byte
}

// settling is a backend that ends what it has taken.
type settling struct {
	*endings.Backend
	backend limits.Backend
	memory  *memory.Memory // backend itself, or nil
	holder  limits.Holder  // nil: the backend cannot be told of held units
}

func settlingBy(b limits.Backend) *settling {
	s := &settling{Backend: endings.Of(b), backend: b}
	s.memory, _ = b.(*memory.Memory)
	s.holder, _ = limits.Innermost(b).(limits.Holder)
	return s
}

func newLedger(primary limits.Backend, fallback func() limits.Backend, observe func(limits.Settlement)) *ledger {
	l := &ledger{
		primary:  settlingBy(primary),
		fallback: sync.OnceValue(func() *settling { return settlingBy(fallback()) }),
		observe:  observe,
	}
	l.records.New = func() any {
		q := &request{ledger: l, list: &l.lists[l.next.Add(1)%ledgerLists]}
		q.taken = q.fewTaken[:0]
		return q
	}
	return l
}

// begin gives o, which is allowed, a request with an end if it was charged for one.
func (l *ledger) begin(o *Outcome) {
	var q *request
	for i := range o.Len() {
		d := o.at(i)
		if !d.rule.hasEnd || !d.Allowed || !d.Source.Counted() {
			continue
		}
		if q == nil {
			q = l.records.Get().(*request)
			q.at = 0
		}
		q.taken = append(q.taken, taken{rule: d.rule, limit: d.limit, key: d.key, cost: d.cost, spent: -1, source: d.Source, ticket: d.Ticket})
		if d.rule.finalCost == nil {
			l.hold(&q.taken[len(q.taken)-1], d.rule)
		}
		q.at = max(q.at, d.At)
	}
	if q != nil {
		o.request, o.life = q, l.add(q)
	}
}

// forget keeps the record of q, which has ended, for another request: to allocate one for
// each made BenchmarkStartToEnd half as slow again.
func (l *ledger) forget(q *request) {
	if q.sentAway || q.life == lastLife {
		return
	}
	clear(q.taken) // it holds no memory of the user's
	q.taken = q.taken[:0]
	l.records.Put(q)
}

// hold notes who holds the units of t, and tells the fallback of units that the backend
// has decided: if it has to decide next, it starts from what is held.
func (l *ledger) hold(t *taken, rule *ruleIdentity) {
	switch t.source {
	case limits.SourcePrimary:
		t.held = true
		if rule.onFailure == FallBack && l.primary.memory == nil {
			if f := l.fallback(); f.holder != nil {
				t.heldByFallback, t.fallbackTicket = true, f.holder.Hold(rule.scope, t.key, t.limit.Value(), t.cost)
			}
		}
	case limits.SourceFallback:
		t.heldByFallback, t.fallbackTicket = true, t.ticket
	}
}

// add begins a life of q and returns its number.
func (l *ledger) add(q *request) uint16 {
	if q.onlyInFallback() {
		l.onlyInFallback.Add(1)
		l.adoptLater()
	}
	list, units := q.list, q.units()
	list.mu.Lock()
	q.state = underWay
	q.life++
	life := q.life
	if q.older = list.newest; q.older != nil {
		q.older.younger = q
	} else {
		list.oldest = q
	}
	list.newest = q
	list.units += units
	list.mu.Unlock()
	return life
}

// remove ends the given life of q and takes it out of its list. It reports whether q was
// in state from; if not, it does nothing.
func (list *requestList) remove(q *request, life uint16, from requestState) bool {
	list.mu.Lock()
	if q.life != life || q.state != from {
		list.mu.Unlock()
		return false
	}
	q.state = ended
	if q.older != nil {
		q.older.younger = q.younger
	} else {
		list.oldest = q.younger
	}
	if q.younger != nil {
		q.younger.older = q.older
	} else {
		list.newest = q.older
	}
	q.older, q.younger = nil, nil
	list.units -= q.units()
	if q.onlyInFallback() {
		q.ledger.onlyInFallback.Add(-1)
	}
	list.mu.Unlock()
	return true
}

// units returns how many units of concurrency limits q holds.
func (q *request) units() int {
	units := 0
	for i := range q.taken {
		if t := &q.taken[i]; t.rule.finalCost == nil {
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
		list := &l.lists[i]
		list.mu.Lock()
		units += list.units
		if list.oldest != nil {
			at = min(at, list.oldest.at)
		}
		list.mu.Unlock()
	}
	if at == math.MaxInt64 {
		return units, time.Time{}
	}
	return units, time.UnixMicro(at)
}
