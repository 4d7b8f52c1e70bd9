package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Rule is a named limit with the functions that apply it to a request of type R.
type Rule[R any] struct {
	// Name appears in response headers and metrics: 1 to 64 printable ASCII characters, stable, not
	// secret. Required, and unique in its limiter.
	Name string

	// Scope keeps the keys of this rule apart from the keys of other rules on the same backend.
	// Rules of equal scope, in one limiter or several, count together. If two limiters share a
	// backend, choose their scopes on purpose. Rates, bans, distinct limits and concurrency limits
	// count apart under one scope: New refuses a second limiter of another kind. "": Name.
	Scope string

	// Limit is the limit of each key. Required unless LimitFor is set.
	Limit limits.Limit

	// LimitFor finds the limit of a request, such as that of the client's plan. key is the result
	// of Key as the backend sees it: a digest from keyfuncs that hide a secret, such as
	// keyfuncs.APIKey, with the prefix that keyfuncs.First writes ("0:alice"), and "" for a request
	// without the key. To look up a plan by another form of the key, read it from r.
	//
	// The limit must depend on the key alone: limits that alternate under one key admit together as
	// much as the most generous one. If the limit varies by method or route, make these a part of
	// the key. A [memory.Memory] tells up to 65,535 limits with live keys apart. Package plans finds
	// limits in a database. nil: Limit.
	LimitFor func(r R, key string) (limits.Limit, error)

	// Key finds the key of a request: who is counted. Required. See [ErrAbsent] and [When].
	Key func(R) (string, error)

	// KeyName says in words what Key returns, such as "API key". The operator's page shows it; it
	// changes no decision. If Key returns one of several keys, as keyfuncs.First does, name them in
	// that order: "API key or address". "": the page guesses from the text of a key.
	KeyName string

	// Value finds the value of a request under a [limits.Distinct] limit, which counts the
	// different values of a key: for example, the user name of a login. Such a limit requires it;
	// other limits refuse it. [ErrAbsent] is the value "". [ErrDoesNotApply] and other errors mean
	// the same as those of Key. Only a digest of the value leaves the limiter:
	// no outcome, log or page shows it, and no backend gets it.
	Value func(R) (string, error)

	// Cost finds how many units a request takes. A cost of 0 takes nothing and is always allowed,
	// except during a ban. A negative cost fails like an error of Key. So do not return the
	// ContentLength of an http.Request unchecked: it is -1 if the client announces no length.
	// Charge the largest body that is accepted instead. Under a [limits.Concurrent] limit a cost is
	// at most 64. nil: 1.
	Cost func(R) int64

	// Unit tells clients what the units are. If Cost returns bytes, set ContentBytes; if it returns
	// tokens of a language model, Tokens, InputTokens or OutputTokens; if it returns a price, Money.
	// Zero: Requests.
	Unit Unit

	// OnFailure says what happens if the backend fails. If Key, LimitFor or Cost fails, no key can
	// be charged: the request is allowed if OnFailure is FailOpen, and unavailable otherwise. So do
	// not let a rule fail open if a client can make its Key fail. Zero: FallBack.
	OnFailure FailurePolicy

	// Mode says whether the rule may deny. Zero: Enforce.
	Mode Mode

	// FinalCost returns the real cost of an allowed request at its end, if Cost was an estimate. If
	// it is less, the rest is returned, as far as that admits nothing above the limit. If it is
	// more, the difference is charged, whether it fits or not, and the key is denied until it has
	// drained. A key owes at most its limit's maximum; more is forgiven. A negative result or a
	// panic leaves the estimate.
	//
	// If the estimate is never below the final cost, nothing above the limit is admitted, under any
	// concurrency. Otherwise the excess is at most the difference times the requests of the key in
	// flight: bound those by a second rule with a [limits.Concurrent] limit. A Cost of 0 admits any
	// number of requests at once.
	//
	// A bucket does not get unused units back from requests that take longer than two minutes.
	//
	// [SpentCost] is such a function, and [OnStatus] returns one. The caller of [Limiter.Decide]
	// must call [Outcome.End]. nil: the cost is final.
	FinalCost func(Result) int64

	// NoDelay is how many units of a [limits.LeakyQueue] start at once: a request waits only for
	// units ahead of it beyond these. It must be less than the capacity, and 0 with other limits or
	// a LimitFor. It changes when requests start, not which are allowed. nginx calls it "delay". 0:
	// a request waits for all units ahead of it.
	NoDelay int64

	// Local keeps the rule's state in this process although Backend is elsewhere. Local rules are
	// decided first; if one denies, Backend is not asked. Each process then allows the whole limit.
	// A Local rule cannot share a scope with a rule that is not. While Backend decides a request,
	// the local units are taken, which may deny others.
	Local bool

	// DenyAs503 says that a denial by this rule means a full service, and not a client that asked
	// too much: see [Outcome.Status]. Many a balancer takes a 503 for a dead server, and then refuses
	// every client, unless a line of its configuration keeps it from that: see the [table].
	//
	// [table]: https://github.com/weir-go/weir/blob/main/docs/shedding.md#balancers-in-front
	DenyAs503 bool

	// Hidden keeps the rule from clients, whether it allows or denies: no header field, answer or
	// quota has its name or its numbers. A denial by it has its status and its Retry-After, and the
	// fields of the other rules. Hide a limit that all clients share, whose numbers would mislead
	// each of them, and a limit that is not published. Operators see it: it is in the [State], on the
	// operator's page and in metrics like any other.
	Hidden bool
}

// FailurePolicy says what a rule does when the backend cannot decide.
type FailurePolicy uint8

const (
	// FallBack: the limiter's fallback decides, by the same limit or, with [Config].Instances or a
	// backend that counts instances, by this instance's share of it.
	FallBack FailurePolicy = iota
	// FailOpen: the request is allowed and not counted.
	FailOpen
	// FailClosed: the request is answered 503 and takes nothing anywhere.
	FailClosed
)

// Unit says what the units of a rule are: a quota unit of draft-ietf-httpapi-ratelimit-headers-11,
// section 3.1.2. It changes header fields only.
type Unit uint8

const (
	// Requests: a request takes one unit, or its cost. Clients assume this unit if they are not
	// told another.
	Requests Unit = iota
	// ContentBytes: a unit is a byte of the content of requests.
	ContentBytes
	// Tokens: a unit is a token of a language model, read or written. The draft registers none of
	// the three units of tokens; they tell clients that a unit is not a request.
	Tokens
	// InputTokens: a unit is a token that a language model reads.
	InputTokens
	// OutputTokens: a unit is a token that a language model writes.
	OutputTokens
	// Money: a unit is an amount of money, such as a millionth of a dollar. The draft does not
	// register it.
	Money
	// ConcurrentRequests: a unit is a request in flight. Rules with a [limits.Concurrent] limit
	// have it by themselves; do not set it.
	ConcurrentRequests
	// DistinctValues: a unit is a new value of the key. Rules with a [limits.Distinct] limit have it
	// by themselves; do not set it. The draft does not register this unit; it tells clients that a
	// unit is not a request.
	DistinctValues
)

var unitNames = [...]string{Requests: "requests", ContentBytes: "content-bytes", Tokens: "tokens",
	InputTokens: "input-tokens", OutputTokens: "output-tokens", Money: "money",
	ConcurrentRequests: "concurrent-requests", DistinctValues: "distinct-values"}

// String returns the name that the draft registers, such as "content-bytes". The draft does not
// register those of tokens, Money and DistinctValues, such as "input-tokens".
func (u Unit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return fmt.Sprintf("Unit(%d)", uint8(u))
}

// When makes a rule apply only to requests for which applies returns true. It returns a key
// function that calls key for those, and returns [ErrDoesNotApply] for all others. If either
// argument is nil the result is nil, which [New] reports. nethttp.Probes is a condition.
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

// Unless makes a rule apply only to requests for which excepts returns false: it is the opposite of
// [When]. A rule with When and one with Unless, of one condition, share all requests among them.
func Unless[R any](excepts func(R) bool, key func(R) (string, error)) func(R) (string, error) {
	if excepts == nil {
		return nil
	}
	return When(func(r R) bool { return !excepts(r) }, key)
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
		errs = append(errs, errors.New(
			"key: is nil: set a key function (keyfuncs returns nil for illegal arguments)"))
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
		errs = append(errs, fmt.Errorf("on failure: must be FallBack, FailOpen or FailClosed (got %d)",
			rule.OnFailure))
	}
	if rule.Unit > Money {
		errs = append(errs, fmt.Errorf("unit: must be Requests, ContentBytes, Tokens, InputTokens, "+
			"OutputTokens or Money (got %d)", rule.Unit))
	} else if rule.Unit != Requests && rule.holds() {
		errs = append(errs, errors.New(
			"unit: a concurrency limit counts concurrent requests: remove Unit"))
	}
	if err := rule.Mode.validate(); err != nil {
		errs = append(errs, fmt.Errorf("mode: %w", err))
	}
	return errors.Join(append(errs, rule.validateUndelayed(), rule.validateEnd(),
		rule.validateValue())...)
}

// varies reports whether LimitFor finds the limit of each request.
func (rule *Rule[R]) varies() bool { return rule.LimitFor != nil }

func (rule *Rule[R]) validateUndelayed() error {
	switch {
	case rule.NoDelay == 0:
		return nil
	case !algorithm.Of(rule.Limit.Algorithm()).Queues:
		return errors.New("no delay: only a leaky queue delays requests: remove it, or set " +
			"Limit to a LeakyQueue")
	case rule.NoDelay < 0 || rule.NoDelay >= rule.Limit.Burst():
		return fmt.Errorf("no delay: must be 0 to %d, less than the capacity (got %d): a "+
			"TokenBucket delays nothing",
			rule.Limit.Burst()-1, rule.NoDelay)
	}
	return nil
}

// undelayed returns the time in which the units of NoDelay drain.
func (rule *Rule[R]) undelayed() time.Duration {
	if rule.NoDelay == 0 {
		return 0
	}
	return arith.Wait(arith.Muldiv(rule.NoDelay, rule.Limit.Rate().Period.Microseconds(),
		rule.Limit.Rate().Units))
}

// longestRequest is how long a request may take and still return units to a bucket: see
// [Rule].FinalCost.
const longestRequest = 2 * time.Minute

// validateEnd reports a mistake about the end of requests.
func (rule *Rule[R]) validateEnd() error {
	if rule.FinalCost != nil && rule.holds() {
		return errors.New("final cost: a concurrency limit has none: remove FinalCost")
	}
	return nil
}

// scopeOrName returns the scope of rule, which is its name unless set.
func (rule *Rule[R]) scopeOrName() string {
	if rule.Scope == "" {
		return rule.Name
	}
	return rule.Scope
}

// holds reports whether requests hold their units until they end.
func (rule *Rule[R]) holds() bool { return algorithm.Of(rule.Limit.Algorithm()).Held }

// hasEnd reports whether the charges of rule have an end.
func (rule *Rule[R]) hasEnd() bool { return rule.FinalCost != nil || rule.holds() }

// unitOf returns the unit of rule.
func (rule *Rule[R]) unitOf() Unit {
	switch {
	case rule.holds():
		return ConcurrentRequests
	case rule.Value != nil:
		return DistinctValues
	}
	return rule.Unit
}

// lastsOf returns the Lasts of rule's charges.
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

// identity returns the part of rule, the i-th, that outcomes refer to.
func (rule *Rule[R]) identity(i int) ruleIdentity {
	return ruleIdentity{
		index: i, name: rule.Name, scope: rule.scopeOrName(), limit: new(rule.Limit), unit: rule.unitOf(),
		capacity: rule.DenyAs503, hidden: rule.Hidden, onFailure: rule.OnFailure,
		hasEnd: rule.hasEnd(), held: rule.holds(), finalCost: rule.FinalCost, lasts: rule.lastsOf(),
		undelayed: rule.undelayed(),
	}
}

// unsupported returns an error if b cannot carry out the endings of rule, or does not decide its
// limit. role is "backend" or "fallback".
func (rule *Rule[R]) unsupported(role string, b backends.Backend) error {
	if isnil.Of(b) {
		return nil
	}
	if rule.hasEnd() && !backends.CanSettle(b) {
		return fmt.Errorf("core: rule %q: the %s, a %T, cannot end what it charges: "+
			"use a backends.Settler",
			rule.Name, role, backends.Innermost(b))
	}
	if rule.varies() || rule.Limit.Validate() != nil || backends.Supports(b, rule.Limit) {
		return nil
	}
	return fmt.Errorf("core: rule %q: limit: the %s, a %T, does not decide %v limits: "+
		"see backends.Supporter",
		rule.Name, role, b, rule.Limit.Algorithm())
}

// validateKeyLimit returns why the limit of a key of rule cannot be overridden with limit on b.
func (rule *Rule[R]) validateKeyLimit(limit limits.Limit, b backends.Backend) error {
	switch err := limit.Validate(); {
	case err != nil:
		return err
	case rule.holds() || limit.Algorithm().Holds():
		return errors.New("a concurrency limit is the same for all keys: override the rule")
	case rule.NoDelay != 0:
		return errors.New("the rule has a NoDelay, which suits its own limit alone: override the rule")
	case countsValues(limit) != (rule.Value != nil):
		return fmt.Errorf("must be a distinct limit if the rule counts values, and otherwise none (got %v)", limit)
	case !backends.Supports(b, limit):
		return fmt.Errorf("the backend, a %T, does not decide %v limits", backends.Innermost(b), limit.Algorithm())
	}
	return nil
}

// limits reports whether rule applies to r and is enforced for its key.
func (rule *Rule[R]) limits(r R) (limits bool) {
	if rule.Key == nil || rule.Mode.Percent() == 0 {
		return false
	}
	defer func() {
		if v := recover(); v != nil {
			limits = true // the rule itself will fail
		}
	}()
	key, err := rule.Key(r)
	switch {
	case err == nil:
		return rule.Mode.enforces(shareHash(rule.Name, key))
	case errors.Is(err, ErrAbsent):
		return rule.Mode.enforces(shareHash(rule.Name, ""))
	}
	return !errors.Is(err, ErrDoesNotApply)
}

// countsValues reports whether rule counts the different values of a key.
func (rule *Rule[R]) countsValues() bool { return countsValues(rule.Limit) }

func countsValues(l limits.Limit) bool { return algorithm.Of(l.Algorithm()).Values }

const noCost = "a distinct limit has none: a new value takes one unit; remove "

// validateValue reports the mistakes of rule about values. A rule with a LimitFor has a Value if
// its limits count values.
func (rule *Rule[R]) validateValue() error {
	var errs []error
	switch {
	case rule.Value == nil && !rule.countsValues():
		return nil
	case rule.Value == nil:
		errs = append(errs, errors.New("value: is nil: "+
			"a distinct limit counts different values, and Value says which: set it"))
	case !rule.varies() && !rule.countsValues():
		return errors.New("value: only a distinct limit counts values: " +
			"remove Value, or set Limit to a limits.Distinct")
	}
	if rule.Cost != nil {
		errs = append(errs, errors.New("cost: "+noCost+"Cost"))
	}
	if rule.FinalCost != nil {
		errs = append(errs, errors.New("final cost: "+noCost+"FinalCost"))
	}
	if rule.Unit != Requests {
		errs = append(errs, errors.New("unit: a distinct limit counts values: remove Unit"))
	}
	return errors.Join(errs...)
}
