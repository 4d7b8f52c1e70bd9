// Package store sets up every contestant to do one and the same thing: decide
// one request of one key, in memory. Each file is one contestant. What it does
// besides the call that its users would make is what the benchmark measures
// wrongly, so there should be nothing.
package store

import "time"

// Contestant is one way to decide by key in memory.
type Contestant struct {
	Name string
	Kind Kind
	// Open makes a store that holds every key to q. keys 0 means the
	// contestant's own defaults. Otherwise it has room for so many keys, where
	// that is something its users set, and does not sweep them away for an
	// hour, where that is, so as to disturb no reading.
	Open func(q Quota, keys int) Store
}

// Kind says what a contestant is compared as.
type Kind uint8

const (
	Peer    Kind = iota // what users would pick instead
	Backend             // weir's memory, through backends.Backend
	Limiter             // weir's core.Limiter in front of it
	Bound               // weir's memory, bound to one limit, without rules
	Harness             // no limiter: what the measuring itself costs, and the floor
)

// Store is a contestant set up.
type Store interface {
	// Decider returns what one goroutine decides with. Contestants that need
	// nothing of their own for each goroutine return the same every time.
	Decider() Decider
}

// Decider decides requests on one goroutine.
type Decider interface {
	// Allow takes one unit of key and reports whether it was there to take. A
	// contestant that fails has not allowed.
	Allow(key string) bool
}

// Settler is a store that has to wait for its steady state once its keys are
// in: a sliding window whose previous window is empty has less to do.
type Settler interface{ Settle() }

// Counter is a store that can say how many keys are live in it.
type Counter interface{ Live() int }

// Quota is what one key may spend. Buckets and windows cannot do the same;
// these numbers make them give the same answers in a benchmark.
type Quota struct {
	Burst  int64         // at once, and per window
	Refill time.Duration // buckets: one unit comes back in this time
	Window time.Duration // windows: their length
	Turns  bool          // a sliding window turns once its keys are in, see [Settler]
}

var (
	// Ample is not used up by one key in a run.
	Ample = Quota{Burst: 1_000_000_000, Refill: 3 * time.Second, Window: time.Hour, Turns: true}

	// Lasting is not used up by many keys in a run, and each that has taken one
	// unit is live, not as good as new, for longer than a run takes.
	Lasting = Quota{Burst: 10_000_000, Refill: 5 * time.Minute, Window: time.Hour, Turns: true}

	// Scarce is used up by one request.
	Scarce = Quota{Burst: 1, Refill: time.Hour, Window: time.Hour}

	// Ordinary is the kind of limit that a login page has.
	Ordinary = Quota{Burst: 10, Refill: 6 * time.Minute, Window: time.Hour}
)

// Contestants returns all of them, peers first.
func Contestants() []Contestant {
	return append(peers(), weir()...)
}

func peers() []Contestant {
	return []Contestant{
		{"(empty harness)", Harness, openHarness},
		{"(floor: clock, hash, lock, place)", Harness, openFloor},
		{"go-limiter", Peer, openGoLimiter},
		{"x/time, mutex map", Peer, openMutexMap},
		{"x/time, sync.Map", Peer, openSyncMap},
		{"echo store", Peer, openEcho},
		{"throttled map", Peer, openThrottledMap},
		{"throttled LRU", Peer, openThrottledLRU},
		{"httprate", Peer, openHTTPRate},
		{"ulule", Peer, openUlule},
		{"tollbooth", Peer, openTollbooth},
		{"gin-rate-limit", Peer, openGinRateLimit},
	}
}

// harness allows whatever it is asked, or denies it, and keeps nothing.
type harness bool

func openHarness(q Quota, _ int) Store        { return harness(q.Burst > 1) }
func (h harness) Decider() Decider            { return h }
func (h harness) Allow(string) (allowed bool) { return bool(h) }
