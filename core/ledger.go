package core

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/endings"
	"github.com/weir-go/weir/internal/list"
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

func settlingBy(b limits.Backend) *settling {
	m, _ := b.(*memory.Memory)
	return &settling{endings.Of(b), m}
}

func newLedger(primary limits.Backend, fallback func() limits.Backend, observe func(limits.Settlement)) *ledger {
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
	return t.rule.finalCost == nil && t.source == limits.SourcePrimary && t.rule.onFailure == FallBack &&
		l.primary.memory == nil && !l.fallback().Remote()
}

// mirror tells the fallback how many units of t it has held until now, and how many it
// holds from now on.
func (l *ledger) mirror(t *taken, before, after int64) {
	var endings [1]limits.Ending
	var out [1]limits.Settlement
	t.ending(&endings[0])
	endings[0].Taken, endings[0].Final, endings[0].Ticket = before, after, 0
	if m := l.fallback().memory; m != nil {
		_ = m.Settle(context.Background(), endings[:], out[:])
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
