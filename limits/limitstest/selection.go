package limitstest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// selection chooses the limits of a case: those that its backend supports. It keeps
// what it left out, so that the case can say so.
type selection struct {
	backend backends.Backend

	mu      sync.Mutex
	leftOut map[limits.Algorithm]limits.Limit // of each algorithm the first
}

// selectionOf returns the selection for a backend. It ends the test if the backend
// refuses a limit that every backend must support: a suite that leaves everything out
// would pass.
func selectionOf(t testing.TB, b backends.Backend) *selection {
	t.Helper()
	for _, l := range slices.Concat(everyAlgorithm(limits.PerMinute(10)), typicalLimits, extremeLimits) {
		if backends.Supports(undeclared{}, l) && !backends.Supports(b, l) {
			t.Fatalf("the backend says that it does not support %s: every backend must decide the algorithms that backends.Supports lists", showLimit(l))
		}
	}
	return &selection{backend: b, leftOut: map[limits.Algorithm]limits.Limit{}}
}

// undeclared is a backend that does not say what it supports.
type undeclared struct{ backends.Backend }

// has reports whether the backend supports l.
func (s *selection) has(l limits.Limit) bool {
	if backends.Supports(s.backend, l) {
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
func (s *selection) of(choices ...limits.Limit) []limits.Limit {
	return slices.DeleteFunc(slices.Clone(choices), func(l limits.Limit) bool { return !s.has(l) })
}

// all is everyAlgorithm for the backend.
func (s *selection) all(rate limits.Rate) []limits.Limit { return s.of(everyAlgorithm(rate)...) }

// rates is all that are rates.
func (s *selection) rates(rate limits.Rate) []limits.Limit {
	return slices.DeleteFunc(s.all(rate), func(l limits.Limit) bool { return !isRate(l) })
}

// randomRate is random that is a rate.
func (s *selection) randomRate(random *rand.Rand) limits.Limit {
	for {
		if l := s.random(random); isRate(l) {
			return l
		}
	}
}

// random is randomLimit for the backend.
func (s *selection) random(random *rand.Rand) limits.Limit {
	return s.first(func() limits.Limit { return randomLimit(random) })
}

// changed is changedLimit for the backend.
func (s *selection) changed(random *rand.Rand, l limits.Limit) limits.Limit {
	return s.first(func() limits.Limit { return changedLimit(random, l) })
}

// lively is livelyLimit for the backend.
func (s *selection) lively(random *rand.Rand) limits.Limit {
	return s.first(func() limits.Limit { return livelyLimit(random) })
}

// first draws until the backend supports what it has drawn.
func (s *selection) first(draw func() limits.Limit) limits.Limit {
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
