package redisbackend

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/limits"
)

// A denial by a key of a Cluster or Ring may be due to units that another request is about to
// return. It is then marked Transient, so that no cache repeats it. Only what is not in the last
// group of its request is returned. Its scopes are few, and the same in all processes of an
// application.

// spread is the set of scopes that a Backend has charged in a group that others followed. It
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

// add puts the scopes of groups into the set. That is done before they are taken, so that a
// request that their units deny finds them there.
func (s *spread) add(groups []*group) {
	for _, g := range groups {
		for i := range g.accounts {
			s.addScope(g.accounts[i].Scope)
		}
	}
}

func (s *spread) addScope(scope string) {
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

// markTransient marks the denials that may be due to units about to be returned. A denial for
// ever is not.
func (b *Backend) markTransient(charges []limits.Charge, out []limits.Decision) {
	if b.lines.partitioner.Load() == nil {
		return
	}
	for i := range out {
		d := &out[i]
		d.Transient = !d.Allowed && d.RetryAfter != limits.Never && b.spread.has(charges[i].Scope)
	}
}
