package stats

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Logger gets a line when a rule begins to deny requests, a line when it has denied
	// none for a minute, and at most ten a minute in between. It gets the same for each
	// class that a shedder sheds, with one line a minute in between. nil: the logger that
	// slog.Default returns at that time. To log nothing, use a slog.DiscardHandler.
	Logger *slog.Logger

	// Key returns how a log line shows a key, such as a digest with a secret; "" leaves it
	// out. It is called on a goroutine of the Stats, never while a request is decided.
	// nil: no line has a key.
	Key func(rule, key string) string
}

// Stats has the counters of the limiters, shedders, backends, breakers, memories and policies
// of a program. It is safe for concurrent use and needs no closing.
type Stats struct {
	lines lines
	since time.Time

	mu       sync.Mutex
	limiters map[string]*Counters
	backends map[string]*backendCounts
	memories map[string]*watched
	breakers map[string]breakerStatus
	leases   map[string]func() backends.LeaseCounts
	shedders map[string]*shedder
	policies map[string]PolicyStatus
	looks    bool // at shedders
}

// New returns a Stats without counters.
func New(options Options) *Stats {
	return &Stats{
		lines:    lines{logger: options.Logger, key: options.Key},
		since:    time.Now(),
		limiters: make(map[string]*Counters),
		backends: make(map[string]*backendCounts),
		memories: make(map[string]*watched),
		breakers: make(map[string]breakerStatus),
		leases:   make(map[string]func() backends.LeaseCounts),
		shedders: make(map[string]*shedder),
		policies: make(map[string]PolicyStatus),
	}
}

// Limiter returns the counters of the limiter of that name, which it makes if there are
// none. The name is a label of metrics: short, stable and nothing that a client chooses.
// Limiters that use the counters of one name are counted together. In this name and all
// others, U+FFFD stands for bytes that are not UTF-8.
func (s *Stats) Limiter(name string) *Counters {
	name = label(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return named(s.limiters, name, func() *Counters { return newLimiter(name, &s.lines) })
}

// WatchMemory has snapshots show how full m is. A limiter without a Backend has a memory
// that nobody can watch: make one with [memory.New] and set Config.Backend to it. A
// later call with the same name watches another memory instead, or none if m is nil.
func (s *Stats) WatchMemory(name string, m *memory.Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.memories, name, &watched{of: m}, m == nil)
}

// watch sets the value of a name, or removes the name if there is nothing to watch.
func watch[V any](values map[string]V, name string, v V, unset bool) {
	if name = label(name); unset {
		delete(values, name)
		return
	}
	values[name] = v
}

type breakerStatus func() (state string, since time.Time, opened int64)

// WatchBreaker has snapshots show what status returns: "open", or another state in which
// the breaker calls its backend; since when; and how often it has opened. The method
// Status of a breaker is such a function. status must be quick and safe for concurrent
// use. A later call with the same name replaces it, or removes it if status is nil.
func (s *Stats) WatchBreaker(name string, status func() (state string, since time.Time, opened int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.breakers, name, status, status == nil)
}

// WatchLeases has snapshots show what counts returns: what this process holds of the units
// of a backend, and what became of those that it has taken. Such functions are the method
// Counts of a [remote.LeaseCache] and the method Leases of a remote.Stack. It must be quick
// and safe for concurrent use. A later call with the same name replaces it, or removes it if
// counts is nil.
func (s *Stats) WatchLeases(name string, counts func() backends.LeaseCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	watch(s.leases, name, counts, counts == nil)
}

// Snapshot returns all counters. It asks the limiters, shedders, memories, breakers and leases
// that are watched, so that gauges are of this moment; keys of a memory are counted every 10 s at
// most. Everything is sorted by name, rules are in the order in which they were first
// seen. A counter never falls from one snapshot to the next. Counters of one snapshot are
// read one after the other, while requests are decided.
func (s *Stats) Snapshot() Snapshot {
	s.mu.Lock()
	limiters, backends, memories := maps.Clone(s.limiters), maps.Clone(s.backends), maps.Clone(s.memories)
	breakers, leases, policies := maps.Clone(s.breakers), maps.Clone(s.leases), maps.Clone(s.policies)
	shedders := maps.Clone(s.shedders)
	s.mu.Unlock()
	now := time.Now()
	shot := Snapshot{At: now, Since: s.since}
	for _, name := range slices.Sorted(maps.Keys(limiters)) {
		shot.Limiters = append(shot.Limiters, limiters[name].snapshot(now))
	}
	for _, name := range slices.Sorted(maps.Keys(shedders)) {
		shot.Shedders = append(shot.Shedders, shedderSnapshot(name, shedders[name].state()))
	}
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		shot.Backends = append(shot.Backends, backends[name].snapshot(name))
	}
	for _, name := range slices.Sorted(maps.Keys(memories)) {
		shot.Memories = append(shot.Memories, memories[name].snapshot(name, now))
	}
	for _, name := range slices.Sorted(maps.Keys(breakers)) {
		state, since, opened := breakers[name]()
		shot.Breakers = append(shot.Breakers, BreakerSnapshot{name, state, state == "open", since, opened})
	}
	for _, name := range slices.Sorted(maps.Keys(leases)) {
		shot.Leases = append(shot.Leases, LeaseSnapshot{name, leases[name]()})
	}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		shot.Policies = append(shot.Policies, policySnapshot(name, policies[name]))
	}
	return shot
}

// label returns name as a label of metrics. Exporters fail as a whole on bytes that are not
// UTF-8, and two names that look alike in the end have to be one before.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// named returns the value of a name, made if there is none.
func named[V any](values map[string]V, name string, make func() V) V {
	v, ok := values[name]
	if !ok {
		v = make()
		values[name] = v
	}
	return v
}
