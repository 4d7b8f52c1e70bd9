package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
)

// Rule is a named limit and how to apply it to a request of type R.
type Rule[R any] struct {
	// Name appears in response headers and metrics: 1 to 64 printable ASCII
	// characters, stable, nothing secret. Required, unique in its limiter.
	Name string

	// Scope keeps the keys of this rule apart from those of other rules on the
	// same backend. Rules of equal scope, in one limiter or several, count
	// together. "": Name. Two limiters that share a backend should choose
	// their scopes on purpose.
	Scope string

	// Limit is the limit of each key. Required unless LimitFor is set.
	Limit limits.Limit

	// LimitFor finds the limit of a request, for per-plan limits. It must depend
	// on the key alone: what a key has used drains by the limit of its last
	// request, so limits that alternate under one key admit together what the
	// most generous of them does. Where the limit varies by method or route,
	// make those a part of the key. A [memory.Memory] tells up to 65,535 limits with
	// live keys apart. key is what Key has returned, "" for a request without the key. nil: Limit.
	LimitFor func(r R, key string) (limits.Limit, error)

	// Key finds who is counted. Required. See [ErrAbsent] and [When].
	Key func(R) (string, error)

	// KeyName says in words what Key returns, for the operator's page, such as "API key". If
	// Key returns one of several keys, as that of keyfuncs.First does, it has their names in
	// that order, as in "API key or address". It changes no decision. "": the page says what
	// the form of a key tells.
	KeyName string

	// Cost finds how many units a request takes, 0 or more; 0 takes nothing and is
	// always allowed, except during a ban. A negative cost fails like an error of Key. So do not return
	// the ContentLength of an http.Request as it is: it is -1 if the client
	// announces no length. Charge the largest body that is accepted instead. A cost
	// under a [limits.Concurrent] limit is at most 64. nil: 1.
	Cost func(R) int64

	// Unit says what the units are, for clients to read. A rule whose Cost is a
	// number of bytes has ContentBytes. Zero: Requests.
	Unit Unit

	// OnFailure says what happens when the backend fails. When Key, LimitFor or
	// Cost fails, no key can be charged: the request is allowed if OnFailure is
	// FailOpen and unavailable otherwise. So do not let a rule fail open whose
	// Key a client can make fail. Zero: FallBack.
	OnFailure FailurePolicy

	// Mode says whether the rule may deny. Zero: Enforce.
	Mode Mode

	// FinalCost says at the end of an allowed request what it has really cost, where
	// Cost was an estimate. Less: the rest is returned, as far as that admits nothing
	// above the limit. More: the difference is charged, whether it fits or not, and the
	// key is denied until that has drained; the key owes at most its limit's maximum,
	// and what is above is forgiven. A negative result or a panic leaves the estimate.
	//
	// If the estimate is never below the final cost, nothing above the limit is
	// admitted, whatever runs at once. Otherwise at most the requests of the key that are
	// in flight, times the difference: a rule with a [limits.Concurrent] limit beside it bounds
	// that. A Cost of 0 lets any number of requests pass at once.
	//
	// To a bucket, unused units of requests that take longer than two minutes are not returned.
	//
	// [SpentCost] and [OnStatus] are ready-made. The caller of [Limiter.Decide] must call
	// [Outcome.End]. nil: the cost is final.
	FinalCost func(Result) int64

	// NoDelay is how many units of a [limits.LeakyQueue] go on at once: a request waits only for
	// what is ahead of it beyond them. It is less than the capacity, and of no use with other
	// limits or a LimitFor. It changes when requests start, not which are allowed. It is
	// nginx's "delay". 0: a request waits for all that is ahead of it.
	NoDelay int64

	// Local keeps the rule's state in this process although Backend is elsewhere: it is
	// decided first, and a request that it denies asks Backend nothing. Each process then
	// allows the whole limit. Its rules cannot share a scope with others. While Backend
	// decides, the units of a request that it denies are held, which may deny others.
	Local bool

	// DenyAs503 says that a denial by this rule means that the service is full, not that
	// the client asked too much: see [Outcome.Status].
	DenyAs503 bool
}

// FailurePolicy is what a rule does when the backend cannot decide.
type FailurePolicy uint8

const (
	// FallBack: the limiter's fallback backend decides, by the same limit or,
	// with [Config].Instances, this instance's share of it.
	FallBack FailurePolicy = iota
	// FailOpen: the request is allowed and not counted.
	FailOpen
	// FailClosed: the request is answered 503 and takes nothing anywhere.
	FailClosed
)

// Unit is what the units of a rule are: a quota unit of draft-ietf-httpapi-ratelimit-headers-11,
// section 3.1.2. It changes nothing but what clients are told.
type Unit uint8

const (
	// Requests: a request takes one unit, or as many as its cost. Clients read
	// a unit as a request where they are told nothing else.
	Requests Unit = iota
	// ContentBytes: a unit is a byte of the content of requests.
	ContentBytes
	// ConcurrentRequests: a unit is a request that has not ended. It is the unit of
	// rules with a [limits.Concurrent] limit, and not to be set.
	ConcurrentRequests
)

var unitNames = [...]string{Requests: "requests", ContentBytes: "content-bytes", ConcurrentRequests: "concurrent-requests"}

// String returns the name that the draft registers, such as "content-bytes".
func (u Unit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return fmt.Sprintf("Unit(%d)", uint8(u))
}

// When makes a rule apply only to requests for which applies is true: it
// returns a key function that is key for those and, for all others, leaves the
// rule out of the outcome by [ErrDoesNotApply]. If either argument is nil so is the result, which
// [New] then reports.
func When[R any](applies func(R) bool, key func(R) (string, error)) func(R) (string, error) {
	if applies == nil || key == nil {
		return nil
	}
	return func(r R) (string, error) {
		if !applies(r) {
			return "", ErrDoesNotApply
		}
		return key(r)
	}
}

const maxNameLength = 64

// validate reports every mistake in rule.
func (rule *Rule[R]) validate() error {
	var errs []error
	if err := validateName(rule.Name); err != nil {
		errs = append(errs, fmt.Errorf("name: %w", err))
	}
	if rule.Scope != "" {
		if err := validateName(rule.Scope); err != nil {
			errs = append(errs, fmt.Errorf("scope: %w", err))
		}
	}
	if rule.Key == nil {
		errs = append(errs, errors.New("key: is nil: set a key function; those of keyfuncs are nil if a header name or a part is not legal"))
	}
	switch {
	case !rule.varies():
		if err := rule.Limit.Validate(); err != nil {
			errs = append(errs, prefixEach("limit: ", err))
		}
	case rule.Limit != limits.Limit{}:
		errs = append(errs, errors.New("limit: both Limit and LimitFor are set: remove one"))
	}
	if rule.OnFailure > FailClosed {
		errs = append(errs, fmt.Errorf("on failure: must be FallBack, FailOpen or FailClosed (got %d)", rule.OnFailure))
	}
	if rule.Unit > ContentBytes {
		errs = append(errs, fmt.Errorf("unit: must be Requests or ContentBytes (got %d)", rule.Unit))
	} else if rule.Unit != Requests && rule.holds() {
		errs = append(errs, errors.New("unit: a concurrency limit counts concurrent requests: remove Unit"))
	}
	if err := rule.Mode.validate(); err != nil {
		errs = append(errs, fmt.Errorf("mode: %w", err))
	}
	return errors.Join(append(errs, rule.validateUndelayed(), rule.validateEnd())...)
}

// varies reports whether the limit is found for each request.
func (rule *Rule[R]) varies() bool { return rule.LimitFor != nil }

func (rule *Rule[R]) validateUndelayed() error {
	switch {
	case rule.NoDelay == 0:
		return nil
	case !algorithm.Of(rule.Limit.Algorithm()).Queues:
		return errors.New("no delay: only a leaky queue delays requests: remove it, or set Limit to a LeakyQueue")
	case rule.NoDelay < 0 || rule.NoDelay >= rule.Limit.Burst():
		return fmt.Errorf("no delay: must be 0 to %d, less than the capacity (got %d): a TokenBucket delays nothing", rule.Limit.Burst()-1, rule.NoDelay)
	}
	return nil
}

// undelayed returns how long the units of NoDelay take to leave the queue.
func (rule *Rule[R]) undelayed() time.Duration {
	if rule.NoDelay == 0 {
		return 0
	}
	return arith.Wait(arith.Muldiv(rule.NoDelay, rule.Limit.Rate().Period.Microseconds(), rule.Limit.Rate().Units))
}

// longestRequest is how long a request may take whose units return to a bucket, as [Rule].FinalCost says.
const longestRequest = 2 * time.Minute

// validateEnd reports the mistakes in what rule says of the end of requests.
func (rule *Rule[R]) validateEnd() error {
	if rule.FinalCost != nil && rule.holds() {
		return errors.New("final cost: a concurrency limit has none: its units are released at the end of the request; " +
			"remove FinalCost")
	}
	return nil
}

// scopeOrName returns the scope of rule: its name unless set.
func (rule *Rule[R]) scopeOrName() string {
	if rule.Scope == "" {
		return rule.Name
	}
	return rule.Scope
}

// holds reports whether requests hold the units of rule until they end.
func (rule *Rule[R]) holds() bool { return algorithm.Of(rule.Limit.Algorithm()).Held }

// hasEnd reports whether what rule charges has an end.
func (rule *Rule[R]) hasEnd() bool { return rule.FinalCost != nil || rule.holds() }

// unitOf returns the unit of rule, which a concurrency limit sets.
func (rule *Rule[R]) unitOf() Unit {
	if rule.holds() {
		return ConcurrentRequests
	}
	return rule.Unit
}

// lastsOf returns how long requests last that rule charges again at their end, 0 if it
// does not.
func (rule *Rule[R]) lastsOf() time.Duration {
	if rule.FinalCost == nil {
		return 0
	}
	return longestRequest
}

func validateName(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	if len(s) > maxNameLength {
		return fmt.Errorf("must be at most %d characters (got %d)", maxNameLength, len(s))
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return fmt.Errorf("must be printable ASCII (got %q)", s)
		}
	}
	return nil
}
