package core

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// State is a snapshot of a limiter and its counters, for pages, gauges and logs.
type State struct {
	Rules []RuleState // in force, in the order of [Config].Rules, with disabled rules

	// Held is how many units of concurrency limits the requests in flight hold. HeldSince is the
	// instant of the decision on the oldest request in flight that has an end, by the clock of its
	// backend; the zero Time without one. If the number only rises, or the instant is long ago, the
	// program forgets to call [Outcome.End].
	Held      int
	HeldSince time.Time

	// Waiting is how many requests wait for their turn in a leaky queue. QueueFull is how many were
	// refused with [ErrQueueFull], and QueueLeft how many ended while they waited. The rules had
	// allowed these requests.
	Waiting              int
	QueueFull, QueueLeft int64

	// Instances is by how much a fallback would divide limits now: [Config].Instances, or the number
	// that Backend counts if that is larger. 0: neither is known, and limits stay whole.
	Instances int

	// Preflights is how many requests that look like CORS preflights an adapter's SkipPreflight let
	// pass without a decision.
	Preflights int64
}

// RuleState is a rule in force, for pages, gauges and logs. In JSON, limits and modes are texts,
// and most zero fields are omitted.
type RuleState struct {
	Name      string
	Scope     string
	KeyName   string       `json:",omitzero"` // see [Rule].KeyName
	Limit     limits.Limit `json:",omitzero"` // zero if LimitFor finds it
	Mode      Mode
	Local     bool     `json:",omitzero"`
	DenyAs503 bool     `json:",omitzero"` // see [Rule].DenyAs503
	Hidden    bool     `json:",omitzero"` // from clients: see [Rule].Hidden
	Override  Override `json:",omitzero"` // zero: none is in force

	// GivenLimit and GivenMode are those of [New] or the last Replace. They differ from Limit and
	// Mode while an override is in force on this rule, or on a rule of its scope.
	GivenLimit limits.Limit `json:",omitzero"`
	GivenMode  Mode
}
