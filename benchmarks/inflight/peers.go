package inflight

import (
	"sync"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/weir-go/weir/benchmarks/store"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

func peers() []Contestant {
	return []Contestant{
		{Name: "(floor: x/sync semaphore, no keys)", Kind: Floor, AtOnce: true,
			Open: openSemaphore},
		{Name: "x/sync semaphore, sync.Map", Kind: Peer, AtOnce: true, Keyed: true,
			Open: openSemaphores},
		{Name: "failsafe-go bulkhead, sync.Map", Kind: Peer, AtOnce: true, Keyed: true,
			Open: openBulkheads},
		{Name: "x/time and x/sync semaphore, sync.Map", Kind: Peer, AtOnce: true, Rate: true,
			Keyed: true, Open: openBoth},
	}
}

// gate lets requests start and ends them.
type gate interface {
	start() bool
	end()
}

// run starts and ends a request.
func run(g gate) bool {
	if !g.start() {
		return false
	}
	g.end()
	return true
}

// one is a single gate for all requests.
type one struct{ gate }

func (s one) Decider() store.Decider { return s }
func (s one) Hold(string) bool       { return s.start() }
func (s one) Allow(string) bool      { return run(s.gate) }

// byKey has a gate for each key in a sync.Map, and never removes one.
type byKey struct {
	gates sync.Map // string to gate
	open  func() gate
}

func openByKey(open func() gate) *byKey { return &byKey{open: open} }

func (s *byKey) gate(key string) gate {
	if g, ok := s.gates.Load(key); ok {
		return g.(gate)
	}
	g, _ := s.gates.LoadOrStore(key, s.open())
	return g.(gate)
}

func (s *byKey) Decider() store.Decider { return s }
func (s *byKey) Hold(key string) bool   { return s.gate(key).start() }
func (s *byKey) Allow(key string) bool  { return run(s.gate(key)) }

// weighted is a gate of golang.org/x/sync.
type weighted struct{ *semaphore.Weighted }

func (g weighted) start() bool { return g.TryAcquire(1) }
func (g weighted) end()        { g.Release(1) }

func newWeighted(atOnce int) weighted { return weighted{semaphore.NewWeighted(int64(atOnce))} }

func openSemaphore(_ store.Quota, atOnce int) Store { return one{newWeighted(atOnce)} }

func openSemaphores(_ store.Quota, atOnce int) Store {
	return openByKey(func() gate { return newWeighted(atOnce) })
}

// permits is a gate of failsafe-go.
type permits struct{ bulkhead.Bulkhead[any] }

func (g permits) start() bool { return g.TryAcquirePermit() }
func (g permits) end()        { g.ReleasePermit() }

func openBulkheads(_ store.Quota, atOnce int) Store {
	return openByKey(func() gate { return permits{bulkhead.New[any](uint(atOnce))} })
}

// both combines a semaphore with a rate. The semaphore comes first, since its units can be
// returned.
type both struct {
	weighted
	rate *rate.Limiter
}

func (g both) start() bool {
	if !g.weighted.start() {
		return false
	}
	if !g.rate.Allow() {
		g.end()
		return false
	}
	return true
}

func openBoth(q store.Quota, atOnce int) Store {
	return openByKey(func() gate {
		return both{newWeighted(atOnce), rate.NewLimiter(rate.Every(q.Refill), int(q.Burst))}
	})
}
