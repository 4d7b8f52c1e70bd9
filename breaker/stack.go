package breaker

import (
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/remote"
)

// Stack is a backend in the recommended wrapping: a denial cache around a breaker around
// the backend, and between the two a lease cache if that is asked for. It is safe for
// concurrent use and needs no closing. [NewStack] makes it.
type Stack struct {
	*remote.DenialCache // has all methods of a backend
	breaker             *Breaker
	leases              *remote.LeaseCache // nil: none
}

// NewStack wraps inner in the recommended order. From the outside in: a denial cache
// with its defaults, a lease cache if [Options].Lease is set, a breaker with these options,
// inner. It panics where [New] and [remote.NewLeaseCache] do. Without Lease and Announcer it is
// short for
//
//	remote.NewDenialCache(breaker.New(inner, options), remote.DenialCacheOptions{})
//
// and has the methods of the breaker for health checks and metrics.
func NewStack(inner limits.Backend, options Options) *Stack {
	lease, announcer := options.Lease, options.Announcer
	options.Lease, options.Announcer = 0, nil
	b := New(inner, options)
	s, cached := &Stack{breaker: b}, limits.Backend(b)
	if lease != 0 {
		s.leases = remote.NewLeaseCache(b, remote.LeaseOptions{Term: lease})
		cached = s.leases
	}
	s.DenialCache = remote.NewDenialCache(cached, remote.DenialCacheOptions{Announcer: announcer})
	return s
}

// State returns whether the breaker of s is open or closed: see [Breaker.State].
func (s *Stack) State() State { return s.breaker.State() }

// Status returns the state of the breaker of s, since when, and how often it has opened:
// see [Breaker.Status].
func (s *Stack) Status() (state string, since time.Time, opened int64) { return s.breaker.Status() }

// Leases returns what the lease cache of s holds and has done: see [remote.LeaseCache.Counts].
// Without [Options].Lease it returns the zero value.
func (s *Stack) Leases() limits.LeaseCounts {
	if s.leases == nil {
		return limits.LeaseCounts{}
	}
	return s.leases.Counts()
}

// Unwrap returns the denial cache. Limiters find there what else a backend can do.
func (s *Stack) Unwrap() limits.Backend { return s.DenialCache }
