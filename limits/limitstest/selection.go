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

// selection chooses the limits of a case that the backend supports. It remembers the algorithms
// that it left out, and report logs them.
type selection struct {
	t       testing.TB
	backend backends.Backend

	mu      sync.Mutex
	leftOut map[limits.Algorithm]limits.Limit // the first limit of each algorithm
}

// selectionOf returns the selection for a backend. It ends the test if the backend supports no
// limit: a suite that leaves everything out would pass. It also ends the test if the backend
// supports only some limits of an algorithm that [backends.Supports] assumes.
func selectionOf(t testing.TB, b backends.Backend) *selection {
	t.Helper()
	all := slices.Concat(everyAlgorithm(limits.PerMinute(10)), typicalLimits(), extremeLimits())
	supported := map[limits.Algorithm]limits.Limit{} // of each algorithm an example
	for _, l := range all {
		if backends.Supports(b, l) {
			supported[l.Algorithm()] = l
		}
	}
	if len(supported) == 0 {
		t.Fatal("the backend says that it supports no limit: it must decide at least one algorithm")
	}
	for _, l := range all {
		example, decides := supported[l.Algorithm()]
		if decides && backends.Supports(undeclared{}, l) && !backends.Supports(b, l) {
			t.Fatalf("the backend says that it supports %s and not %s: it must decide all legal limits of "+
				"an algorithm, or none",
				showLimit(example), showLimit(l))
		}
	}
	return &selection{t: t, backend: b, leftOut: map[limits.Algorithm]limits.Limit{}}
}

// undeclared is a backend that is no Supporter.
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

// of returns the choices that the backend supports.
func (s *selection) of(choices ...limits.Limit) []limits.Limit {
	return slices.DeleteFunc(slices.Clone(choices), func(l limits.Limit) bool { return !s.has(l) })
}

// all returns the limits of everyAlgorithm that the backend supports.
func (s *selection) all(rate limits.Rate) []limits.Limit { return s.of(everyAlgorithm(rate)...) }

// rates returns the limits of all that are rates. It skips the case if there are none.
func (s *selection) rates(rate limits.Rate) []limits.Limit {
	rates := slices.DeleteFunc(s.all(rate), func(l limits.Limit) bool { return !isRate(l) })
	if len(rates) == 0 {
		s.t.SkipNow()
	}
	return rates
}

// tenPerMinute returns a limit of 10 a minute that comes back at the end of a minute, or drains in
// one. Without such a limit it skips the case.
func (s *selection) tenPerMinute() limits.Limit {
	if s.has(tenPerMinute) {
		return tenPerMinute
	}
	for _, l := range s.rates(limits.PerMinute(10)) {
		if l.Rate().Period == mins {
			return l
		}
	}
	s.t.SkipNow()
	return limits.Limit{}
}

// plenty returns a limit that no case exhausts. 10,000 are too many for some algorithms.
func (s *selection) plenty() limits.Limit {
	choices := []limits.Limit{plenty}
	for _, n := range []int64{10_000, 1000} {
		choices = append(choices, everyAlgorithm(limits.PerSecond(n))...)
	}
	return firstSupported(s.backend, slices.DeleteFunc(choices,
		func(l limits.Limit) bool { return l.Validate() != nil }))
}

// tryable returns a limit that b supports.
func tryable(b backends.Backend) limits.Limit {
	return firstSupported(b,
		append([]limits.Limit{tenPerMinute}, everyAlgorithm(limits.PerMinute(10))...))
}

// firstSupported returns the first of choices that b supports, or the first of all.
func firstSupported(b backends.Backend, choices []limits.Limit) limits.Limit {
	for _, l := range choices {
		if backends.Supports(b, l) {
			return l
		}
	}
	return choices[0]
}

// randomRate returns a random limit that is a rate. It skips the case if the backend supports no
// rate.
func (s *selection) randomRate(random *rand.Rand) limits.Limit {
	s.rates(limits.PerMinute(10)) // skips the case if there are none
	for {
		if l := s.random(random); isRate(l) {
			return l
		}
	}
}

// random returns a randomLimit that the backend supports.
func (s *selection) random(random *rand.Rand) limits.Limit {
	return s.first(func() limits.Limit { return randomLimit(random) })
}

// changed returns a changedLimit that the backend supports.
func (s *selection) changed(random *rand.Rand, l limits.Limit) limits.Limit {
	return s.first(func() limits.Limit { return changedLimit(random, l) })
}

// lively returns a livelyLimit that the backend supports.
func (s *selection) lively(random *rand.Rand) limits.Limit {
	return s.first(func() limits.Limit { return livelyLimit(random) })
}

// first draws limits until the backend supports one.
func (s *selection) first(draw func() limits.Limit) limits.Limit {
	for {
		if l := draw(); s.has(l) {
			return l
		}
	}
}

// report logs the algorithms that the case left out.
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
