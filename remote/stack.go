package remote

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-go/weir/limits/backends"
)

// StackOptions are the options of [NewStack]. The zero value is ready to use.
type StackOptions struct {
	// Budget, OpenFor and Logger are those of [BreakerOptions].
	Budget  time.Duration
	OpenFor time.Duration
	Logger  *slog.Logger

	// Lease puts a [LeaseCache] around the breaker: this process then decides busy keys by units
	// that it took in advance. It is the Term of [LeaseOptions], and must be the same on all
	// instances. 0: the backend makes every decision.
	Lease time.Duration

	// Announcer is that of [DenialCacheOptions]. nil: denials stay in this process.
	Announcer backends.Announcer
}

// Stack is a backend in the recommended wrapping: see [NewStack]. It is safe for concurrent use
// and needs no closing.
type Stack struct {
	*DenialCache // implements all interfaces of backends
	breaker      *Breaker
	leases       *LeaseCache // nil: none
}

// NewStack wraps inner in the recommended order, or returns an error that reports every mistake in
// the arguments. From the outside in the order is a denial cache with its defaults, a lease cache
// if [StackOptions].Lease is set, a breaker, and inner. A backend of redisbackend.New or
// redisbackend.Open has its stack already.
func NewStack(inner backends.Backend, options StackOptions) (*Stack, error) {
	if err := errors.Join(validateInner(inner), options.Validate()); err != nil {
		return nil, err
	}
	s := &Stack{breaker: MustNewBreaker(inner, options.breaker())}
	cached := backends.Backend(s.breaker)
	if options.Lease != 0 {
		s.leases = MustNewLeaseCache(cached, LeaseOptions{Term: options.Lease})
		cached = s.leases
	}
	s.DenialCache = MustNewDenialCache(cached, DenialCacheOptions{Announcer: options.Announcer})
	return s, nil
}

// MustNewStack is [NewStack] for arguments that the program sets. It panics if they have a
// mistake.
func MustNewStack(inner backends.Backend, options StackOptions) *Stack {
	return must(NewStack(inner, options))
}

// Validate returns every mistake in o.
func (o StackOptions) Validate() error {
	breaker := o.breaker()
	errs := []error{breaker.validate()}
	if o.Lease != 0 && (o.Lease < minLease || o.Lease > maxLease) {
		errs = append(errs, fmt.Errorf(
			"remote: lease: must be %v to %v, or 0 for none (got %v)", minLease, maxLease, o.Lease))
	}
	return errors.Join(append(errs, validateAnnouncer(o.Announcer))...)
}

func (o StackOptions) breaker() BreakerOptions {
	return BreakerOptions{Budget: o.Budget, OpenFor: o.OpenFor, Logger: o.Logger}
}

// Status returns the state of the breaker, for health checks and metrics: see [Breaker.Status].
func (s *Stack) Status() backends.BreakerStatus { return s.breaker.Status() }

// Leases returns the units that the lease cache holds, and its counts: see [LeaseCache.Counts].
// Without [StackOptions].Lease it returns the zero value.
func (s *Stack) Leases() backends.LeaseCounts {
	if s.leases == nil {
		return backends.LeaseCounts{}
	}
	return s.leases.Counts()
}

// Unwrap returns the denial cache.
func (s *Stack) Unwrap() backends.Backend { return s.DenialCache }
