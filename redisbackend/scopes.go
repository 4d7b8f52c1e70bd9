package redisbackend

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// A denial by a key of a Cluster or Ring may be due to units that another request is about to give
// back. It is then marked Transient, so that no cache repeats it. Only groups that another group
// follows are ever given back, so only scopes in such groups have Transient denials. These scopes
// are few, and the same in all processes of an application.

// scopeSet is a set of scopes that only grows. It is read without a lock.
type scopeSet struct {
	mu     sync.Mutex
	scopes atomic.Pointer[map[string]struct{}]
}

// maxScopes bounds a scopeSet. If an application has more scopes, perhaps one for each user, every
// scope counts as a member.
const maxScopes = 1024

// has reports whether a scope is in s.
func (s *scopeSet) has(scope string) bool {
	scopes := s.scopes.Load()
	if scopes == nil {
		return false
	}
	_, ok := (*scopes)[scope]
	return ok || len(*scopes) > maxScopes
}

// add adds a scope. Callers add it before they take its group, so that a request that these units
// deny finds it.
func (s *scopeSet) add(scope string) {
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

// markTransient marks the denials that may be due to units about to be given back.
func (s *scopeSet) markTransient(charges []backends.Charge, out []limits.Decision) {
	for i := range out {
		d := &out[i]
		d.Transient = !d.Allowed && d.RetryAfter != limits.Never && s.has(charges[i].Scope)
	}
}
