package weirprom_test

import (
	"strconv"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

// newLimiterOf returns a limiter of n rules that s counts.
func newLimiterOf(t testing.TB, s *stats.Stats, n int) *core.Limiter[string] {
	counts := s.Limiter("api")
	rules := make([]core.Rule[string], n)
	for i := range rules {
		rules[i] = core.Rule[string]{
			Name: "rule-" + strconv.Itoa(i), Limit: limits.FixedWindow(limits.PerDay(3)), Key: self,
		}
	}
	limiter, err := core.New(core.Config[string]{Rules: rules, Observer: counts})
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}
