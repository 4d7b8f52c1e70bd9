package stats

import (
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Snapshot holds everything that a [Stats] counted, as plain values that share nothing with it.
// Counts are since [New]. Names are valid labels of metrics.
type Snapshot struct {
	At    time.Time // when the snapshot was taken
	Since time.Time // when New was called

	Limiters []LimiterSnapshot
	Shedders []ShedderSnapshot
	Backends []BackendSnapshot
	Memories []MemorySnapshot
	Breakers []BreakerSnapshot
	Leases   []LeaseSnapshot
	Policies []PolicySnapshot
}

// LimiterSnapshot holds the counters of the limiter of one name.
type LimiterSnapshot struct {
	Name     string
	Requests Requests

	// Preflights is the number of requests that look like CORS preflights and passed without a
	// decision, because of SkipPreflight. Waiting is the number of requests that wait in a leaky
	// queue now. QueueFull is the number of requests that were unavailable because the queue was
	// full. QueueLeft is the number of requests that ended while they waited. Requests counts
	// QueueFull and QueueLeft as allowed. All are 0 if the limiter is not watched or is not an HTTP
	// limiter.
	Preflights, QueueFull, QueueLeft int64
	Waiting                          int

	// Instances is by how much a fallback would divide limits now, 0 if that is not known: see
	// [core.State].
	Instances int

	// Held is the number of units of concurrency limits that are held now. HeldSince is when the
	// decision on the oldest of their requests was made; the zero Time if none.
	Held      int
	HeldSince time.Time

	Rules []RuleSnapshot

	// Top lists the keys that were denied most in the last one to two minutes, most denied first,
	// at most 512. Denials are the last 256 denials of the last hour, latest first. Skipped is the
	// number of denials that are in neither, because another goroutine was using the lists.
	Top     TopKeys
	Denials []Denial
	Skipped int64
}

// Requests counts requests by [core.Verdict]. Each decided request counts once.
type Requests struct{ Allowed, Denied, Unavailable, Abandoned int64 }

func (r Requests) Total() int64 { return r.Allowed + r.Denied + r.Unavailable + r.Abandoned }

// add adds n requests with a verdict.
func (r *Requests) add(verdict core.Verdict, n int64) {
	switch verdict {
	case core.Allowed:
		r.Allowed += n
	case core.Denied:
		r.Denied += n
	case core.Unavailable:
		r.Unavailable += n
	case core.Abandoned:
		r.Abandoned += n
	}
}

// RuleSnapshot holds the counters of one rule. Rules that are no longer in force keep their
// counters.
type RuleSnapshot struct {
	Name    string // or [Other]
	InForce bool   // a watched limiter has the rule; if not, the next fields are zero

	Scope     string
	Limit     limits.Limit `json:",omitzero"` // zero if LimitFor returns it
	Mode      core.Mode
	Local     bool
	DenyAs503 bool
	Hidden    bool
	Override  core.Override `json:",omitzero"` // the zero Override if none

	// Decisions has one element for each combination that occurred, in a fixed order. It also has
	// zeros for combinations that the rule may decide in its mode, except those of leases and
	// denial caches.
	Decisions []DecisionCount

	// Failures classifies the decisions with the source limits.SourceOpen or limits.SourceClosed by
	// their cause.
	Failures Failures

	Binding   int64 // denied requests whose [core.Outcome.BindingRule] this is
	NearLimit int64 // requests that took units and left at most a fifth; of a shadow, too
	Units     int64 // taken by allowed requests, before their ends

	Delay       Histogram // waits of requests in a leaky queue
	Settlements Settlements
}

// DecisionCount is the number of decisions of one kind. Rules that were not asked do not count.
type DecisionCount struct {
	Allowed bool
	Mode    core.Mode // Enforce or Shadow
	Source  limits.Source
	Count   int64
}

// Count returns the number of decisions for which keep returns true; all if keep is nil.
func (r *RuleSnapshot) Count(keep func(DecisionCount) bool) int64 {
	var n int64
	for _, d := range r.Decisions {
		if keep == nil || keep(d) {
			n += d.Count
		}
	}
	return n
}

// decisionCounts lists the counts of r. It includes zeros where a rate has to see the first event.
func (r *RuleSnapshot) decisionCounts(
	of *[limits.SourceNotAsked][2][2]int64,
) (counts []DecisionCount) {
	for _, mode := range [...]core.Mode{core.Enforce, core.Shadow} {
		for _, allowed := range [...]bool{true, false} {
			for source := range limits.SourceNotAsked {
				n := of[source][bit(mode == core.Shadow)][bit(allowed)]
				if n != 0 || r.decides(mode) && r.isDecidedBy(source, allowed) {
					counts = append(counts, DecisionCount{allowed, mode, source, n})
				}
			}
		}
	}
	return counts
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// decides reports whether r currently makes decisions in mode, which is Enforce or Shadow.
func (r *RuleSnapshot) decides(mode core.Mode) bool {
	if mode == core.Enforce {
		return r.Mode.Percent() > 0
	}
	return r.Mode != core.Enforce && r.Mode != core.Disabled
}

// isDecidedBy reports whether source may make such decisions for r. Leases and denial caches are
// left out: r does not know whether there are any.
func (r *RuleSnapshot) isDecidedBy(source limits.Source, allowed bool) bool {
	switch source {
	case limits.SourcePrimary:
		return true
	case limits.SourceFallback:
		return !r.Local
	case limits.SourceLocal:
		return r.Local
	case limits.SourceOpen:
		return allowed
	case limits.SourceClosed:
		return !allowed
	}
	return false
}

// queues reports whether requests wait for this rule in a leaky queue, or ever waited.
func (r *RuleSnapshot) queues() bool {
	return algorithm.Of(r.Limit.Algorithm()).Queues || r.Delay.Count() > 0
}

// ends reports whether requests have something to end under this rule, or ever had. A rule with a
// FinalCost shows at its first end.
func (r *RuleSnapshot) ends() bool {
	return algorithm.Of(r.Limit.Algorithm()).Held || r.Settlements.Ended > 0
}

// Failures counts decisions that a rule could not make. The log of the limiter has the reasons.
type Failures struct {
	Key      int64 // Key returned an error: there is no key to charge
	Limit    int64 // LimitFor returned an error or an invalid limit
	Cost     int64 // Cost was negative, or panicked
	Backend  int64 // the backend failed, and the rule has no fallback
	Fallback int64 // the backend and the fallback failed
}

// Settlements counts how ends of requests were settled, by rule. See [limits.Settlement].
type Settlements struct {
	Ended int64 // total, including Lost and Dropped

	Returned, Charged, Forgiven int64 // units

	Lost    int64 // ends that the backend failed to settle
	Dropped int64 // ends not sent because too many waited: [backends.ErrEndingDropped]
}

// TopKeys are the keys that were denied most.
type TopKeys struct {
	Since   time.Time // start of the counting
	Denials int64     // denials of all keys since then
	Keys    []TopKey

	// Spread is true if so many keys were denied that the list is not useful: it cannot attribute
	// most of the denials to a key.
	Spread bool
}

// TopKey is a key that one rule denied at least Count − Error and at most Count times. Every key
// with more than Denials/256 denials is in the list.
type TopKey struct {
	Rule         string
	Mode         core.Mode // Shadow: it would have been denied
	Key          string    `json:"-"` // may identify a person
	Cut          bool      // Key is the first 92 bytes of a longer key
	Count, Error int64
}

type Denial struct {
	At         time.Time
	Rule       string // the binding rule
	Key        string `json:"-"` // may identify a person
	Cut        bool   // Key is the first 92 bytes of a longer key
	Source     limits.Source
	Limit      limits.Limit // limit at the time of the denial
	Cost       int64
	Remaining  int64
	RetryAfter time.Duration
}

// BackendSnapshot holds the calls of the backend of one name, see [Stats.Backend].
type BackendSnapshot struct {
	Name       string
	Operations []OperationSnapshot // take, peek, settle, reset, count
}

// OperationSnapshot holds the calls of one method of a backend.
type OperationSnapshot struct {
	Name      string
	Succeeded Histogram // durations of calls without an error
	Failed    Histogram // durations of calls with an error
	Errors    Errors
}

// Errors counts errors by reason.
type Errors struct {
	Timeout     int64 // a deadline passed
	Canceled    int64 // the caller canceled
	Unsupported int64 // the backend lacks the method
	Other       int64
}

type MemorySnapshot struct {
	Name      string
	Keys      int       // keys with live state
	CountedAt time.Time // when Keys was counted, at most 10 s ago
	MaxKeys   int
	Displaced int64 // keys that lost their place because the memory was full
}

// BreakerSnapshot is the state of a circuit breaker.
type BreakerSnapshot struct {
	Name   string
	State  string
	Open   bool
	Since  time.Time
	Opened int64
}

// LeaseSnapshot holds the units that a process has leased from a backend, see [Stats.WatchLeases].
// The counts of the rules, by source, tell how many decisions used leases.
type LeaseSnapshot struct {
	Name string
	backends.LeaseCounts
}

// PolicySnapshot is the state of a policy file, see [Stats.WatchPolicy].
type PolicySnapshot struct {
	Name         string
	Applied      int64     // policies that came into force, including the first
	Failed       int64     // failed loads: the previous policy stayed in force
	Digest       string    // digest of the content in force
	AppliedAt    time.Time // when it came into force
	FailingSince time.Time // since when newer content is not in force; zero if none
	Failure      string    // why, for people, never a label; "" if none
}
