package core

import (
	"errors"
	"fmt"
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

	// Limit is what each key is held to. Required unless LimitFor is set.
	Limit Limit

	// LimitFor finds the limit of a request, for per-plan limits. It must depend
	// on the key alone: what a key has used drains by the limit of its last
	// request, so limits that alternate under one key admit together what the
	// most generous of them does. Where the limit varies by method or route,
	// make those a part of the key. A [Memory] tells up to 65,535 limits with
	// live keys apart. nil: Limit.
	LimitFor func(R) (Limit, error)

	// Key finds who is counted. Required. See [ErrAbsent] and [When].
	Key func(R) (string, error)

	// Cost finds how many units a request takes, 0 or more; 0 takes nothing and is
	// always allowed. A negative cost fails like an error of Key. So do not return
	// the ContentLength of an http.Request as it is: it is -1 if the client
	// announces no length. Charge the largest body that is accepted instead. nil: 1.
	Cost func(R) int64

	// Unit says what the units are, for clients to read. A rule whose Cost is a
	// number of bytes has ContentBytes. Zero: Requests.
	Unit Unit

	// OnFailure says what happens when the backend fails. When Key, LimitFor or
	// Cost fails, nobody can be charged: the request is allowed if OnFailure is
	// FailOpen and unavailable otherwise. So do not let a rule fail open whose
	// Key a client can make fail. Zero: FallBack.
	OnFailure Failure
}

// Failure is what a rule does when the backend cannot decide.
type Failure uint8

const (
	// FallBack: the limiter's fallback backend decides, by the same limit or,
	// with [Config].Instances, this instance's share of it.
	FallBack Failure = iota
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
)

var unitNames = [...]string{Requests: "requests", ContentBytes: "content-bytes"}

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
		errs = append(errs, errors.New("key: is nil: set Key to a key function, such as one of package keyfuncs"))
	}
	switch {
	case rule.LimitFor == nil:
		if err := rule.Limit.Validate(); err != nil {
			errs = append(errs, prefixEach("limit: ", err))
		}
	case rule.Limit != Limit{}:
		errs = append(errs, errors.New("limit: both Limit and LimitFor are set: remove one"))
	}
	if rule.OnFailure > FailClosed {
		errs = append(errs, fmt.Errorf("on failure: must be FallBack, FailOpen or FailClosed (got %d)", rule.OnFailure))
	}
	if rule.Unit > ContentBytes {
		errs = append(errs, fmt.Errorf("unit: must be Requests or ContentBytes (got %d)", rule.Unit))
	}
	return errors.Join(errs...)
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
