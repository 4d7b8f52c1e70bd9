package redisbackend

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/limits"
)

// If keys are spread over several servers, a denial may be due to units that another request
// is about to give back. It is then marked Transient, so that no cache repeats it. Only
// scopes that are charged together with others are given back. They are few, and the same
// in all processes of an application.

// spread is the set of scopes that a Backend has charged together with others. It
// is read without a lock, and only grows.
type spread struct {
	mu     sync.Mutex
	scopes atomic.Pointer[map[string]struct{}]
}

// maxSpread is how many scopes the set has, at most. If there are more, perhaps one for each
// user, every scope counts as a member.
const maxSpread = 1024

// has reports whether a scope is in the set.
func (s *spread) has(scope string) bool {
	scopes := s.scopes.Load()
	if scopes == nil {
		return false
	}
	_, ok := (*scopes)[scope]
	return ok || len(*scopes) > maxSpread
}

// add puts a scope into the set.
func (s *spread) add(scope string) {
	if s.has(scope) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	more := make(map[string]struct{})
	if scopes := s.scopes.Load(); scopes != nil {
		more = maps.Clone(*scopes)
	}
	more[strings.Clone(scope)] = struct{}{}
	s.scopes.Store(&more)
}

// noteSpread adds the scopes of a request that may be given back. That is done before the
// request is sent, so that a request that its units deny finds them in the set.
func (b *Backend) noteSpread(r *request, mode mode) {
	if len(r.accounts) < 2 || mode == modePeek || b.lanes.partitioner.Load() == nil || b.lieTogether(r.accounts) {
		return
	}
	for i := range r.accounts {
		b.spread.add(r.accounts[i].Scope)
	}
}

// lieTogether reports whether one step decides accounts because of Options.Together.
func (b *Backend) lieTogether(accounts []account) bool {
	for i := range accounts {
		if !b.tagged[accounts[i].Scope] || accounts[i].Key != accounts[0].Key {
			return false
		}
	}
	return true
}

// markTransient marks the denials that may be due to units about to be given back. A denial
// for ever is not.
func (b *Backend) markTransient(charges []limits.Charge, out []limits.Decision) {
	if b.lanes.partitioner.Load() == nil {
		return
	}
	for i := range out {
		d := &out[i]
		d.Transient = !d.Allowed && d.RetryAfter != limits.Never && b.spread.has(charges[i].Scope)
	}
}
