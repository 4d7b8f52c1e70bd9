package weirprom_test

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/stats/weirprom"
)

// scrape returns what Prometheus reads.
func scrape(t testing.TB, registry *prometheus.Registry) string {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, family := range all {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestNumbersAreThoseOfTheRequests(t *testing.T) {
	registry, limiter, _ := newWorld(t)
	ask(limiter, 10)
	text := scrape(t, registry)
	for _, line := range []string{
		`weir_requests_total{limiter="api",verdict="allowed"} 30`,
		`weir_requests_total{limiter="api",verdict="denied"} 20`,
		`weir_requests_total{limiter="api",verdict="unavailable"} 0`,
		`weir_requests_total{limiter="api",verdict="abandoned"} 1`,
		`weir_rule_decisions_total{decision="denied",limiter="api",mode="enforce",rule="per-client",source="primary"} 20`,
		`weir_rule_decisions_total{decision="denied",limiter="api",mode="enforce",rule="per-client",source="fallback"} 0`,
		`weir_rule_decisions_total{decision="allowed",limiter="api",mode="shadow",rule="next",source="primary"} 10`,
		`weir_rule_binding_total{limiter="api",rule="per-client"} 20`,
		`weir_rule_binding_total{limiter="api",rule="queue"} 0`,
		`weir_rule_units_total{limiter="api",rule="tokens"} 300`,
		`weir_rule_near_limit_total{limiter="api",rule="per-client"} 10`,
		`weir_rule_limit_units{limiter="api",rule="per-client"} 3`,
		`weir_rule_period_seconds{limiter="api",rule="per-client"} 86400`,
		`weir_rule_limit_units{limiter="api",rule="at-once"} 100`,
		`weir_rule_period_seconds{limiter="api",rule="at-once"} 0`,
		`weir_rule_enforced_ratio{limiter="api",rule="next"} 0`,
		`weir_rule_mode{limiter="api",mode="shadow",rule="next"} 1`,
		`weir_rule_mode{limiter="api",mode="disabled",rule="off"} 1`,
		`weir_rule_mode{limiter="api",mode="enforce",rule="next"} 0`,
		`weir_settlements_total{limiter="api",result="done",rule="tokens"} 27`,
		`weir_settled_units_total{kind="returned",limiter="api",rule="tokens"} 162`,
		`weir_held_units{limiter="api"} 3`,
		`weir_breaker_open{breaker="redis"} 1`,
		`weir_breaker_changes_total{breaker="redis",to="open"} 2`,
		`weir_breaker_changes_total{breaker="redis",to="closed"} 1`,
		`weir_memory_keys{memory="fallback"} 51`,
		`weir_shed_requests_total{class="critical",shedder="api",verdict="admitted"} 2`,
		`weir_shed_requests_total{class="critical",shedder="api",verdict="shed"} 1`,
		`weir_shed_requests_total{class="other",shedder="api",verdict="shed"} 1`,
		`weir_shed_requests_total{class="other",shedder="next",verdict="shadowed"} 1`,
		`weir_shed_limit_requests{shedder="api"} 2`,
		`weir_shed_max_limit_requests{shedder="api"} 10000`,
		`weir_shed_in_flight_requests{class="critical",shedder="api"} 2`,
		`weir_shed_class_share_ratio{class="other",shedder="api"} 0.5`,
		`weir_shed_mode{mode="enforce",shedder="api"} 1`,
		`weir_shed_mode{mode="shadow",shedder="api"} 0`,
		`weir_policy_loads_total{policy="weir.yaml",result="applied"} 1`,
		`weir_policy_failing{policy="weir.yaml"} 1`,
		`weir_policy_info{digest="0123456789ab",policy="weir.yaml"} 1`,
		`weir_backend_errors_total{backend="redis",operation="take",reason="timeout"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			var near []string
			for l := range strings.Lines(text) {
				if strings.HasPrefix(l, name+"{") {
					near = append(near, l)
				}
			}
			t.Errorf("the scrape has no\n%s\nbut\n%s", line, strings.Join(near, ""))
		}
	}
	for _, absent := range []string{
		`weir_rule_limit_units{limiter="api",rule="by-plan"}`, "denial-cache", "client-", "a mistake",
	} {
		if strings.Contains(text, absent) {
			t.Errorf("the scrape has %s", absent)
		}
	}
}

// docs/operations.md says how many.
func TestTwoRulesHaveFortyFourSeries(t *testing.T) {
	s := newStats()
	limiter := newLimiterOf(t, s, 2)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(weirprom.NewCollector(s))
	before := len(seriesOf(scrape(t, registry)))
	ask(limiter, 10)
	if after := len(seriesOf(scrape(t, registry))); before != 44 || after != 44 {
		t.Errorf("%d series, and %d after requests, want 44", before, after)
	}
}

func TestKeysMakeNoSeries(t *testing.T) {
	s := newStats()
	limiter := newLimiterOf(t, s, 1)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(weirprom.NewCollector(s))
	before := len(seriesOf(scrape(t, registry)))
	ask(limiter, 100_000/5)
	for i := range 80_000 {
		limiter.Decide(t.Context(), "another-"+strconv.Itoa(i))
	}
	if after := len(seriesOf(scrape(t, registry))); after != before {
		t.Errorf("%d series after 100,000 keys, %d before", after, before)
	}
}

// seriesOf returns the names and labels in a scrape.
func seriesOf(text string) map[string]bool {
	all := make(map[string]bool)
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			all[line[:strings.LastIndexByte(line, ' ')]] = true
		}
	}
	return all
}

func TestNamesFollowTheRulesOfPrometheus(t *testing.T) {
	registry, limiter, _ := newWorld(t)
	ask(limiter, 10)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	check := testrun.Command(t, "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(scrape(t, registry))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func TestScrapesAndRequestsAtOnce(t *testing.T) {
	registry, limiter, _ := newWorld(t)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() { ask(limiter, 50) })
		running.Go(func() {
			for range 10 {
				if _, err := registry.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
}

func BenchmarkScrapeOfAHundredRules(b *testing.B) {
	s := newStats()
	limiter := newLimiterOf(b, s, 100)
	ask(limiter, 10)
	collector := weirprom.NewCollector(s)
	metrics := make(chan prometheus.Metric)
	go func() {
		for range metrics {
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		collector.Collect(metrics)
	}
	close(metrics)
}
