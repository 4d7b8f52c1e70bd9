package redisbackend

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core"
)

// Where keys are spread over several servers, a denial may rest on units that a
// request denied elsewhere is about to give back. It is then marked Transient, so
// that no cache repeats it. Such units are of scopes that are charged together
// with others, which are the same few in all processes of an application; keys
// of a scope that is only ever charged alone are never given back.

// spread is the set of scopes that a Backend has charged together with others. It
// is read without a lock, and only grows.
type spread struct {
	mu     sync.Mutex
	scopes atomic.Pointer[map[string]struct{}]
}

// maxSpread is how many scopes are told apart. Where there are more, as many as
// there are users perhaps, every scope counts as spread.
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

// noteSpread notes the scopes of a request that may be given back in part: before
// it is sent, so that whoever its units deny finds them noted.
func (b *Backend) noteSpread(r *request, mode mode) {
	if len(r.accounts) < 2 || mode == modePeek || b.lanes.where.Load() == nil {
		return
	}
	for i := range r.accounts {
		b.spread.add(r.accounts[i].Scope)
	}
}

// markTransient marks the denials that may rest on units about to be given back.
// One that is never to end rests on none.
func (b *Backend) markTransient(charges []core.Charge, out []core.Decision) {
	if b.lanes.where.Load() == nil {
		return
	}
	for i := range out {
		d := &out[i]
		d.Transient = !d.Allowed && d.RetryAfter != core.Never && b.spread.has(charges[i].Scope)
	}
}
