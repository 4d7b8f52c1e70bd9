package stats

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Logger gets a line when a rule begins to deny requests, a line when it has denied none for a
	// minute, and at most ten a minute in between. For each class that a shedder sheds it gets the
	// same lines, with one a minute in between. nil: slog.Default at the time of the line. To log
	// nothing, use a slog.DiscardHandler.
	Logger *slog.Logger

	// Key returns the form of a key in log lines, such as a keyed digest; "" omits it. It is called
	// on a goroutine of the Stats, never while a request is decided. nil: log lines have no key.
	Key func(rule, key string) string
}

// Stats holds the counters of the limiters, shedders, backends, breakers, memories and policies of
// a program. It is safe for concurrent use and needs no closing.
type Stats struct {
	lines    lines
	since    time.Time
	shedders shedders

	mu       sync.Mutex
	limiters map[string]*Counters
	backends map[string]*backendCounts
	memories map[string]*watchedMemory
	breakers map[string]func() backends.BreakerStatus
	leases   map[string]func() backends.LeaseCounts
	policies map[string]PolicyStatus
}

func New(options Options) *Stats {
	s := &Stats{
		lines:    lines{logger: options.Logger, key: options.Key},
		since:    time.Now(),
		limiters: make(map[string]*Counters),
		backends: make(map[string]*backendCounts),
		memories: make(map[string]*watchedMemory),
		breakers: make(map[string]func() backends.BreakerStatus),
		leases:   make(map[string]func() backends.LeaseCounts),
		policies: make(map[string]PolicyStatus),
	}
	s.shedders = shedders{lines: &s.lines, byName: make(map[string]*shedder)}
	return s
}

// Limiter returns the counters of the named limiter, and creates them if needed. The name is a
// label of metrics: short, stable, and never chosen by a client. Limiters of one name share their
// counters. In all names, U+FFFD replaces bytes that are not UTF-8.
func (s *Stats) Limiter(name string) *Counters {
	name = label(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(s.limiters, name, func() *Counters { return newLimiter(name, &s.lines) })
}

// Backend wraps inner to measure its calls. It is for backends outside this process: a decision of
// a [memory.Memory] takes less time than reading the clock. Put it directly around the backend,
// inside a breaker, so that it does not count calls that the breaker refuses. The name is a label
// of metrics; backends of one name share their counters. If inner is nil, Backend returns nil, and
// the constructors of limiters and wrappers report it.
func (s *Stats) Backend(name string, inner backends.Backend) *Backend {
	if isnil.Of(inner) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Backend{
		inner, named(s.backends, label(name), func() *backendCounts { return new(backendCounts) }),
	}
}

// WatchMemory adds m to snapshots. The memory of a limiter without a Backend cannot be watched:
// make one with [memory.New] and set Config.Backend to it. A later call with the same name replaces
// m, or removes it if m is nil.
func (s *Stats) WatchMemory(name string, m *memory.Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.memories, name, &watchedMemory{memory: m}, m == nil)
}

// WatchBreaker adds a circuit breaker to snapshots. status is the method Status of a
// redisbackend.Backend, or of a breaker or stack of package remote. It must be quick and safe for
// concurrent use. A later call with the same name replaces it, or removes it if status is nil.
func (s *Stats) WatchBreaker(name string, status func() backends.BreakerStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.breakers, name, status, status == nil)
}

// WatchLeases adds the leased units of a backend to snapshots. counts is the method Leases of a
// redisbackend.Backend or of a remote.Stack, or Counts of a remote.LeaseCache. It must be quick and
// safe for concurrent use. A later call with the same name replaces it, or removes it if counts is
// nil.
func (s *Stats) WatchLeases(name string, counts func() backends.LeaseCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.leases, name, counts, counts == nil)
}

// WatchPolicy adds a policy file to snapshots. The name is a label of metrics. A later call with
// the same name replaces the file, or removes it if status is nil.
func (s *Stats) WatchPolicy(name string, status PolicyStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.policies, name, status, isnil.Of(status))
}

// WatchShedder adds a shedder, of any framework, to snapshots. A shed.Shedder has the method State.
// Requests that it sheds are answered 503. They are counted by class, apart from requests that
// limiters deny. Lines are logged within five seconds, by a timer that reads the counters and keeps
// a reference to s until the program ends. A later call with the same name replaces the shedder, or
// removes it if shedder is nil.
func (s *Stats) WatchShedder(name string, shedder interface{ State() ShedderState }) {
	if isnil.Of(shedder) {
		s.shedders.watch(name, nil)
		return
	}
	s.shedders.watch(name, shedder.State)
}

// Snapshot returns all counters. It reads the current state of limiters, shedders, memories,
// breakers and leases, so gauges are current; keys of a memory are counted at most every 10 s.
// Everything is sorted by name, rules by the order in which they were first seen. A counter never
// falls from one snapshot to the next. The counters of one snapshot are read one after the other,
// while requests are decided.
func (s *Stats) Snapshot() Snapshot {
	s.mu.Lock()
	limiters, policies := maps.Clone(s.limiters), maps.Clone(s.policies)
	backends, memories := maps.Clone(s.backends), maps.Clone(s.memories)
	breakers, leases := maps.Clone(s.breakers), maps.Clone(s.leases)
	s.mu.Unlock()
	now := time.Now()
	shot := Snapshot{At: now, Since: s.since}
	for _, name := range slices.Sorted(maps.Keys(limiters)) {
		shot.Limiters = append(shot.Limiters, limiters[name].snapshot(now))
	}
	shot.Shedders = s.shedders.snapshots()
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		shot.Backends = append(shot.Backends, backends[name].snapshot(name))
	}
	for _, name := range slices.Sorted(maps.Keys(memories)) {
		shot.Memories = append(shot.Memories, memories[name].snapshot(name, now))
	}
	for _, name := range slices.Sorted(maps.Keys(breakers)) {
		b := breakers[name]()
		shot.Breakers = append(shot.Breakers,
			BreakerSnapshot{name, b.State, b.State == "open", b.Since, b.Opened})
	}
	for _, name := range slices.Sorted(maps.Keys(leases)) {
		shot.Leases = append(shot.Leases, LeaseSnapshot{name, leases[name]()})
	}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		shot.Policies = append(shot.Policies, policySnapshot(name, policies[name]))
	}
	return shot
}
