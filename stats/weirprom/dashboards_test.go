package weirprom_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

const dashboards = "../../dashboards/"

var (
	metricPattern  = regexp.MustCompile(`\bweir_[a-z_]+`)
	matcherPattern = regexp.MustCompile(`([a-z_]+)(?:=|=~|!=|!~)"([^"]*)"`)
	groupPattern   = regexp.MustCompile(`by \(([a-z, ]+)\)`)
)

// Every metric that the dashboard or an alert names is in a scrape, with the labels and the
// values that they ask for. Prometheus answers a query for a name that nobody has with
// nothing, which looks like a quiet service.
func TestDashboardAndAlertsAskForWhatIsThere(t *testing.T) {
	registry, limiter, _ := newWorld(t)
	ask(limiter, 10)
	has := labelsOf(scrape(t, registry))
	has["weir_rule_decisions_total"]["source"][limits.SourceLease.String()] = true // with the first such decision
	queries := append(queriesOf(t, "weir.json"), queriesOf(t, "alerts.yaml")...)
	if len(queries) < 30 {
		t.Fatalf("found %d queries", len(queries))
	}
	named := make(map[string]bool)
	for _, query := range queries {
		of := make(map[string]map[string]bool) // all labels of the metrics of the query
		for _, metric := range metricPattern.FindAllString(query, -1) {
			labels := has[metric]
			if labels == nil {
				t.Errorf("no scrape has %s, which is in %s", metric, query)
				continue
			}
			named[strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count")] = true
			for label, values := range labels {
				if of[label] == nil {
					of[label] = make(map[string]bool)
				}
				maps.Copy(of[label], values)
			}
		}
		of["instance"], of["job"] = nil, nil // Prometheus adds them
		for _, m := range matcherPattern.FindAllStringSubmatch(query, -1) {
			label, values := m[1], m[2]
			known, ok := of[label]
			if !ok {
				t.Errorf("no metric has the label %s, which is in %s", label, query)
			}
			for _, value := range strings.Split(values, "|") {
				if known != nil && !strings.HasPrefix(value, "$") && !known[value] {
					t.Errorf("no series has %s=%q, which is in %s", label, value, query)
				}
			}
		}
		for _, m := range groupPattern.FindAllStringSubmatch(query, -1) {
			for _, label := range strings.Split(m[1], ", ") {
				if _, ok := of[label]; !ok {
					t.Errorf("no metric has the label %s, by which it is grouped: %s", label, query)
				}
			}
		}
	}
	for metric := range has {
		family := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(metric, "")
		if family != "weir_preflights_total" && !named[family] && !named[metric] {
			t.Errorf("neither the dashboard nor an alert has %s", metric)
		}
	}
}

// labelsOf returns the values of each label of each metric in a scrape.
func labelsOf(text string) map[string]map[string]map[string]bool {
	metrics := make(map[string]map[string]map[string]bool)
	for series := range seriesOf(text) {
		name, labels, _ := strings.Cut(series, "{")
		if metrics[name] == nil {
			metrics[name] = make(map[string]map[string]bool)
		}
		for _, m := range matcherPattern.FindAllStringSubmatch(labels, -1) {
			if metrics[name][m[1]] == nil {
				metrics[name][m[1]] = make(map[string]bool)
			}
			metrics[name][m[1]][m[2]] = true
		}
	}
	return metrics
}

// queriesOf returns the queries of a file: of JSON, every expr, query and definition; of
// the alerts, each rule.
func queriesOf(t *testing.T, name string) (queries []string) {
	t.Helper()
	text, err := os.ReadFile(dashboards + name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, ".json") {
		for _, rule := range strings.Split(string(text), "- alert:")[1:] {
			expr, _, _ := strings.Cut(rule[strings.Index(rule, "expr:"):], "labels:")
			queries = append(queries, expr)
		}
		return queries
	}
	var whole any
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, field := range slices.Sorted(maps.Keys(v)) {
				if s, ok := v[field].(string); ok && (field == "expr" || field == "definition") {
					queries = append(queries, s)
				}
				walk(v[field])
			}
		}
	}
	walk(whole)
	return queries
}

// A table merges rows of several queries if all labels that they share are equal. The name
// of the metric is such a label, so that a query which keeps it has rows of its own.
func TestQueriesOfATableHaveNoName(t *testing.T) {
	text, err := os.ReadFile(dashboards + "weir.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, Format string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if target.Format != "table" {
				continue
			}
			n++
			if !groupPattern.MatchString(target.Expr) {
				t.Errorf("%s: %s keeps the name of its metric", panel.Title, target.Expr)
			}
		}
	}
	if n == 0 {
		t.Error("no table was found")
	}
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		check := testrun.Command(t, "promtool", args...)
		check.Dir = dashboards
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// A rule that ends nothing has no series of returned and charged units. A sum with one that is
// not there would be nothing, too.
func TestTheDashboardShowsUnitsOfRulesWithAndWithoutEnds(t *testing.T) {
	queries := queriesOf(t, "weir.json")
	i := slices.IndexFunc(queries, func(query string) bool { return strings.Contains(query, "weir_rule_units_total") })
	if i < 0 {
		t.Fatal("the dashboard does not ask for weir_rule_units_total")
	}
	query := strings.NewReplacer("$__rate_interval", "5m", "$limiter", ".*", "$rule", ".*", "$instance",
		".*").Replace(queries[i])
	file := filepath.Join(t.TempDir(), "units.yaml")
	test := fmt.Sprintf(`
tests:
  - interval: 1m
    input_series:
      - {series: 'weir_rule_units_total{limiter="api",rule="plain",instance="a"}', values: "0+60x10"}
      - {series: 'weir_rule_units_total{limiter="api",rule="tokens",instance="a"}', values: "0+600x10"}
      - {series: 'weir_rule_units_total{limiter="api",rule="tokens",instance="b"}', values: "0+600x10"}
      - {series: 'weir_settled_units_total{limiter="api",rule="tokens",instance="a",kind="returned"}', values: "0+120x10"}
      - {series: 'weir_settled_units_total{limiter="api",rule="tokens",instance="b",kind="charged"}', values: "0+60x10"}
    promql_expr_test:
      - expr: %q
        eval_time: 10m
        exp_samples:
          - {labels: '{limiter="api",rule="plain"}', value: 1}
          - {labels: '{limiter="api",rule="tokens"}', value: 19}
`, query)
	if err := os.WriteFile(file, []byte(test), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testrun.Command(t, "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
