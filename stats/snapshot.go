package stats

import (
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Snapshot is all that a [Stats] has counted, as plain values that share nothing with it.
// Counts are since [New]. Names are fit to be labels of metrics.
type Snapshot struct {
	At    time.Time // when it was taken
	Since time.Time // when New was called

	Limiters []LimiterSnapshot
	Shedders []ShedderSnapshot
	Backends []BackendSnapshot
	Memories []MemorySnapshot
	Breakers []BreakerSnapshot
	Leases   []LeaseSnapshot
	Policies []PolicySnapshot
}

// LimiterSnapshot is what the limiter of one name has done.
type LimiterSnapshot struct {
	Name     string
	Requests Requests

	// Preflights is how many requests that look like CORS preflights passed without a
	// decision, because of SkipPreflight. Waiting is how many requests wait for their turn in a leaky queue
	// now. QueueFull is how many requests were unavailable because no more could wait;
	// QueueLeft is how many ended while they waited. Requests counts both as allowed.
	// All are 0 if the limiter is not watched or is no HTTP limiter.
	Preflights, QueueFull, QueueLeft int64
	Waiting                          int

	// Held is how many units of concurrency limits are held now, and HeldSince is when
	// the oldest request was decided that has something to end and has not; the zero Time
	// if there is none.
	Held      int
	HeldSince time.Time

	Rules []RuleSnapshot

	// Top is which keys were denied most in the last one to two minutes, most first, and
	// at most 512. Denials are the last 256 of the last hour, latest first. Skipped is how
	// many denials are in neither, because another goroutine was using the lists.
	Top     TopKeys
	Denials []Denial
	Skipped int64
}

// Requests counts requests by [core.Verdict]: each decided request once.
type Requests struct{ Allowed, Denied, Unavailable, Abandoned int64 }

// Total returns the sum.
func (r Requests) Total() int64 { return r.Allowed + r.Denied + r.Unavailable + r.Abandoned }

// RuleSnapshot is what one rule has decided. Rules that are gone keep their counters.
type RuleSnapshot struct {
	Name    string // or [Other]
	InForce bool   // a watched limiter has the rule; what follows is zero if not

	Scope     string
	Limit     limits.Limit `json:",omitzero"` // zero if LimitFor finds it
	Mode      core.Mode
	Local     bool
	DenyAs503 bool
	Override  core.Override `json:",omitzero"` // the zero Override if there is none

	// Decisions has a count for each combination that has been, in a fixed order, and zeros
	// for those that the rule may decide in its mode, except by leases and denial caches.
	Decisions []DecisionCount

	// Failures counts the decisions of source limits.SourceOpen and limits.SourceClosed by what
	// failed.
	Failures Failures

	Binding   int64 // denied requests of which this was the binding rule, see [core.Outcome.BindingRule]
	NearLimit int64 // requests that took something and left a fifth of the limit or less
	Units     int64 // taken by allowed requests, before what their ends returned or charged

	Delay       Histogram // of requests that had to wait for their turn in a leaky queue
	Settlements Settlements
}

// DecisionCount counts the decisions of one kind that a rule has made. It does not count
// rules that were not asked.
type DecisionCount struct {
	Allowed bool
	Mode    core.Mode // Enforce or Shadow
	Source  limits.Source
	Count   int64
}

// Count returns how many decisions there are for which keep is true; nil: all.
func (r *RuleSnapshot) Count(keep func(DecisionCount) bool) int64 {
	var n int64
	for _, d := range r.Decisions {
		if keep == nil || keep(d) {
			n += d.Count
		}
	}
	return n
}

// Failures counts decisions that a rule could not make. Why is in the log of the limiter.
type Failures struct {
	Key      int64 // its Key returned an error: nobody can be charged
	Limit    int64 // its LimitFor did, or returned a limit that is not legal
	Cost     int64 // its Cost was negative, or panicked
	Backend  int64 // the backend failed, and the rule does not fall back
	Fallback int64 // the fallback failed after the backend
}

// Settlements counts what became of the ends of requests, by rule. See [limits.Settlement].
type Settlements struct {
	Ended int64 // in all, those that were lost or dropped too

	Returned, Charged, Forgiven int64 // units

	Lost    int64 // ends that the backend failed to carry out
	Dropped int64 // ends that were not sent, because too many waited: [backends.ErrEndingDropped]
}

// TopKeys are the keys that were denied most.
type TopKeys struct {
	Since   time.Time // what they count begins here
	Denials int64     // counted since then, of all keys
	Keys    []TopKey

	// Spread is true if so many keys were denied that the list says little: for most
	// of the counted denials it cannot tell whose they were.
	Spread bool
}

// TopKey is a key that one rule has denied often: at least Count − Error times and at most
// Count times. A key that has more than Denials/256 is in the list.
type TopKey struct {
	Rule         string
	Mode         core.Mode // Shadow: it would have been denied
	Key          string    `json:"-"` // may identify a person
	Cut          bool      // Key is the first 92 bytes of a longer one
	Count, Error int64
}

// Denial is a request that was denied.
type Denial struct {
	At         time.Time
	Rule       string        // the one that binds
	Key        string        `json:"-"` // may identify a person
	Cut        bool          // Key is the first 92 bytes of a longer one
	Source     limits.Source // who decided
	Limit      limits.Limit  // under which it was denied
	Cost       int64
	Remaining  int64
	RetryAfter time.Duration
}

// BackendSnapshot is what was asked of the backend of one name, see [Stats.Backend].
type BackendSnapshot struct {
	Name       string
	Operations []OperationSnapshot // take, peek, settle, reset, count
}

// OperationSnapshot is about the calls of one method of a backend.
type OperationSnapshot struct {
	Name      string
	Succeeded Histogram // how long calls took that returned no error
	Failed    Histogram // and those that did
	Errors    Errors
}

// Errors counts errors by reason.
type Errors struct {
	Timeout     int64 // a deadline passed
	Canceled    int64 // the caller left
	Unsupported int64 // the backend has no such method
	Other       int64
}

// MemorySnapshot is how full a memory is.
type MemorySnapshot struct {
	Name      string
	Keys      int       // with live state
	CountedAt time.Time // when; 10 s ago at most
	MaxKeys   int
	Displaced int64 // keys whose place others took, because the memory was full
}

// BreakerSnapshot is the state of a circuit breaker. It has closed Opened times, or once
// less if it is open.
type BreakerSnapshot struct {
	Name   string
	State  string
	Open   bool
	Since  time.Time
	Opened int64
}

// LeaseSnapshot is what a process holds of the units of a backend, see [Stats.WatchLeases].
// How many decisions were made from them is in the counts of the rules, by source.
type LeaseSnapshot struct {
	Name string
	backends.LeaseCounts
}

// PolicySnapshot is what has become of a policy file, see [Stats.WatchPolicy].
type PolicySnapshot struct {
	Name         string
	Applied      int64     // policies that came into force, the first included
	Failed       int64     // loads that did not: the policy of before stays in force
	Digest       string    // of the content in force
	AppliedAt    time.Time // when it came into force
	FailingSince time.Time // since when newer content is not in force; the zero Time if there is none
	Failure      string    // why, for people, never a label; "" if there is none
}
