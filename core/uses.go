package core

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/perbackend"
	"github.com/weir-go/weir/limits/backends"
)

// usesOf has the uses of each backend.
var usesOf = perbackend.Shared[*uses]{New: func() *uses {
	return &uses{limiters: make(map[use]int)}
}}

// uses counts the limiters on a backend that count a kind under a scope. Limits of different kinds
// count apart, so two limiters that mean to share a scope would each admit their limit. A limiter
// that is garbage counts on: a mistake must not depend on the garbage collector.
type uses struct {
	mu       sync.Mutex
	limiters map[use]int
}

type use struct {
	scope string
	kind  algorithm.Kind
}

func (u use) compare(other use) int {
	return cmp.Or(strings.Compare(u.scope, other.scope), cmp.Compare(u.kind, other.kind))
}

// usedBy returns the uses of rules that backend decides, each with the name of a rule. It leaves
// out rules whose LimitFor may find limits of several kinds.
func usedBy[R any](rules []Rule[R], backend backends.Backend) map[use]string {
	found := make(map[use]string)
	for i := range rules {
		rule := &rules[i]
		switch isElsewhere := rule.Local && !backends.IsInProcess(backend); {
		case rule.Mode == Disabled || isElsewhere:
		case rule.Value != nil:
			found[use{rule.scopeOrName(), algorithm.Values}] = rule.Name
		case !rule.varies():
			found[use{rule.scopeOrName(), algorithm.Of(rule.Limit.Algorithm()).Kind}] = rule.Name
		}
	}
	return found
}

// add counts a limiter with the uses of added, unless that is a mistake.
func (u *uses) add(added map[use]string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.validateLocked(added); err != nil {
		return err
	}
	for one := range added {
		u.limiters[one]++
	}
	return nil
}

func (u *uses) validate(added map[use]string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.validateLocked(added)
}

// validateLocked returns an error for each scope of added that another limiter uses for another
// kind.
func (u *uses) validateLocked(added map[use]string) error {
	var errs []error
	for _, one := range slices.SortedFunc(maps.Keys(added), use.compare) {
		for kind := range algorithm.Kind(algorithm.Kinds) {
			if kind != one.kind && u.limiters[use{one.scope, kind}] > 0 {
				errs = append(errs, fmt.Errorf("core: rule %q: scope: another limiter on this backend "+
					"counts %v under %q, and this rule counts %v: these count apart, so give this rule "+
					"a scope of its own", added[one], kind, one.scope, one.kind))
			}
		}
	}
	return errors.Join(errs...)
}

// replace counts a limiter, which had the uses of before, with those of after.
func (u *uses) replace(before, after map[use]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for one := range before {
		if u.limiters[one]--; u.limiters[one] == 0 {
			delete(u.limiters, one)
		}
	}
	for one := range after {
		u.limiters[one]++
	}
}
