package redisbackend

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
)

// No script can decide keys that are spread over several servers. The accounts of such a request
// are grouped by partition: the slot of a Cluster or the shard of a Ring. The groups are taken one
// after the other, in the order of their first accounts. The first that denies ends the request,
// and what the earlier ones took is given back: see giveBack. Until then another request may be
// denied too early. None is ever admitted beyond a limit.

// group is the accounts of one partition. One step decides them.
type group struct {
	partition any
	accounts  []account
	indexes   []int // of the accounts in their request
	take      takeJob
	results   []result
}

// groupsOf groups accounts by partition.
func groupsOf(accounts []account, locate line.Partitioner) ([]*group, error) {
	var groups []*group
	for i := range accounts {
		partition, _, err := locate(accounts[i].name)
		if err != nil {
			return nil, err
		}
		var g *group
		for _, other := range groups {
			if other.partition == partition {
				g = other
			}
		}
		if g == nil {
			g = &group{partition: partition}
			groups = append(groups, g)
		}
		g.accounts, g.indexes = append(g.accounts, accounts[i]), append(g.indexes, i)
		g.results = append(g.results, resultNotAsked)
	}
	return groups, nil
}

// decideGroups decides groups of accounts, and sets the tickets of accounts.
func (b *Bare) decideGroups(
	ctx context.Context, groups []*group, accounts []account, mode mode,
) ([]result, error) {
	decide := b.takeGroups
	if mode.peeks {
		decide = b.peekGroups
	}
	if err := decide(ctx, groups, mode); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(groups, (*group).isDenied) {
		for _, g := range groups { // a denied request does not queue
			for i := range g.results {
				g.results[i].enforced.Delay, g.results[i].shadow.Delay = 0, 0
			}
		}
	}
	results := make([]result, len(accounts))
	for _, g := range groups {
		for i, index := range g.indexes {
			results[index], accounts[index].ticket = g.results[i], g.accounts[i].ticket
		}
	}
	return results, nil
}

func (b *Bare) peekGroups(ctx context.Context, groups []*group, mode mode) error {
	for _, g := range groups {
		if _, err := b.step(ctx, &g.take, g.accounts, mode); err != nil {
			return err
		}
		copy(g.results, g.take.results)
	}
	return nil
}

// takeGroups takes groups one after the other until one denies. It then gives back what the
// earlier ones took, and the waits of the others stay unknown.
func (b *Bare) takeGroups(ctx context.Context, groups []*group, mode mode) error {
	b.returnable.add(groups[:len(groups)-1]) // the last group is never given back
	for i, g := range groups {
		if _, err := b.step(ctx, &g.take, g.accounts, mode); err != nil {
			b.giveBack(ctx, groups[:i])
			return err
		}
		copy(g.results, g.take.results)
		if g.isDenied() {
			b.giveBack(ctx, groups[:i])
			for _, taken := range groups[:i] {
				taken.markNotAsked()
			}
			return nil
		}
	}
	return nil
}

// markNotAsked resets the results of g to those of accounts that no server was asked about.
func (g *group) markNotAsked() {
	for i := range g.results {
		g.results[i] = resultNotAsked
	}
}

// isDenied reports whether g denies its request. Shadow charges never do, even on a banned key.
func (g *group) isDenied() bool {
	for i := range g.accounts {
		if g.accounts[i].enforces && !g.results[i].enforced.Allowed {
			return true
		}
	}
	return false
}

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

// add adds the scopes of groups. Callers add them before they take the groups, so that a request
// that these units deny finds its scope.
func (s *scopeSet) add(groups []*group) {
	for _, g := range groups {
		for i := range g.accounts {
			s.addScope(g.accounts[i].Scope)
		}
	}
}

func (s *scopeSet) addScope(scope string) {
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
func (b *Bare) markTransient(charges []backends.Charge, out []limits.Decision) {
	for i := range out {
		d := &out[i]
		d.Transient = !d.Allowed && d.RetryAfter != limits.Never &&
			b.returnable.has(charges[i].Scope)
	}
}
