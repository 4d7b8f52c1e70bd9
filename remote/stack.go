package remote

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// Stack is a backend in the recommended wrapping, which [NewStack] makes. It is safe for
// concurrent use and needs no closing.
type Stack struct {
	*DenialCache // has all methods of a backend
	breaker      *Breaker
	leases       *LeaseCache // nil: none
}

// NewStack wraps inner in the recommended order. From the outside in: a denial cache
// with its defaults, a lease cache if [Options].Lease is set, a breaker with these options,
// inner. It panics where [NewBreaker] and [NewLeaseCache] do. Without Lease and Announcer it is
// short for
//
//	NewDenialCache(NewBreaker(inner, options), DenialCacheOptions{})
func NewStack(inner limits.Backend, options Options) *Stack {
	lease, announcer := options.Lease, options.Announcer
	options.Lease, options.Announcer = 0, nil
	s := &Stack{breaker: NewBreaker(inner, options)}
	cached := limits.Backend(s.breaker)
	if lease != 0 {
		s.leases = NewLeaseCache(cached, LeaseOptions{Term: lease})
		cached = s.leases
	}
	s.DenialCache = NewDenialCache(cached, DenialCacheOptions{Announcer: announcer})
	return s
}

// Status returns the state of the breaker, for health checks and metrics: see [Breaker.Status].
func (s *Stack) Status() (state string, since time.Time, opened int64) { return s.breaker.Status() }

// Leases returns what the lease cache holds and has done: see [LeaseCache.Counts].
// Without [Options].Lease it returns the zero value.
func (s *Stack) Leases() limits.LeaseCounts {
	if s.leases == nil {
		return limits.LeaseCounts{}
	}
	return s.leases.Counts()
}

// Unwrap returns the denial cache. Limiters find there what else a backend can do.
func (s *Stack) Unwrap() limits.Backend { return s.DenialCache }
