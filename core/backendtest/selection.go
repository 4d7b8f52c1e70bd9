package backendtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/core"
)

// selection chooses the limits of a case: those that its backend supports. It keeps
// what it left out, so that the case can say so.
type selection struct {
	backend core.Backend

	mu      sync.Mutex
	leftOut map[core.Algorithm]core.Limit // of each algorithm the first
}

// selectionOf returns the selection for a backend. It ends the test if the backend
// refuses a limit that every backend must support: a suite that leaves everything out
// would pass.
func selectionOf(t testing.TB, b core.Backend) *selection {
	t.Helper()
	for _, l := range slices.Concat(everyAlgorithm(core.PerMinute(10)), typicalLimits, extremeLimits) {
		if core.Supports(undeclared{}, l) && !core.Supports(b, l) {
			t.Fatalf("the backend says that it does not support %s: every backend must decide the algorithms that core.Supports lists", showLimit(l))
		}
	}
	return &selection{backend: b, leftOut: map[core.Algorithm]core.Limit{}}
}

// undeclared is a backend that does not say what it supports.
type undeclared struct{ core.Backend }

// has reports whether the backend supports l.
func (s *selection) has(l core.Limit) bool {
	if core.Supports(s.backend, l) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.leftOut[l.Algorithm()]; !known {
		s.leftOut[l.Algorithm()] = l
	}
	return false
}

// of returns those of limits that the backend supports.
func (s *selection) of(limits ...core.Limit) []core.Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l core.Limit) bool { return !s.has(l) })
}

// all is everyAlgorithm for the backend.
func (s *selection) all(rate core.Rate) []core.Limit { return s.of(everyAlgorithm(rate)...) }

// every is all that are rates.
func (s *selection) every(rate core.Rate) []core.Limit {
	return slices.DeleteFunc(s.all(rate), func(l core.Limit) bool { return !isRate(l) })
}

// randomRate is random that is a rate.
func (s *selection) randomRate(random *rand.Rand) core.Limit {
	for {
		if l := s.random(random); isRate(l) {
			return l
		}
	}
}

// random is randomLimit for the backend.
func (s *selection) random(random *rand.Rand) core.Limit {
	return s.first(func() core.Limit { return randomLimit(random) })
}

// changed is changedLimit for the backend.
func (s *selection) changed(random *rand.Rand, l core.Limit) core.Limit {
	return s.first(func() core.Limit { return changedLimit(random, l) })
}

// lively is livelyLimit for the backend.
func (s *selection) lively(random *rand.Rand) core.Limit {
	return s.first(func() core.Limit { return livelyLimit(random) })
}

// first draws until the backend supports what it has drawn.
func (s *selection) first(draw func() core.Limit) core.Limit {
	for {
		if l := draw(); s.has(l) {
			return l
		}
	}
}

// report logs what was left out.
func (s *selection) report(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for algorithm, example := range s.leftOut {
		names = append(names, fmt.Sprintf("%v (such as %s)", algorithm, showLimit(example)))
	}
	if len(names) > 0 {
		slices.Sort(names)
		t.Logf("not tested, since the backend does not support it: %s", strings.Join(names, ", "))
	}
}
