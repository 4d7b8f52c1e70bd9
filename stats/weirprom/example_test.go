package weirprom_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/stats/weirprom"
)

// A program serves its registry by promhttp.HandlerFor, or the default one by
// promhttp.Handler.
func ExampleNewCollector() {
	counters := stats.New(stats.Options{})
	api := counters.Limiter("api")
	limiter := core.MustNew(core.Config[string]{
		Rules:    []core.Rule[string]{{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: self}},
		Observer: api,
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(weirprom.NewCollector(counters))

	for range 3 {
		limiter.Decide(context.Background(), "ann")
	}
	err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP weir_rule_binding_total Denied requests whose binding rule this was: the one that makes the client wait longest.
# TYPE weir_rule_binding_total counter
weir_rule_binding_total{limiter="api",rule="per-client"} 2
`), "weir_rule_binding_total")
	fmt.Println(err)
	// Output: <nil>
}
