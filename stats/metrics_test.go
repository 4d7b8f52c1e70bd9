package stats_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/stats"
)

// noMetric has the fields of a Snapshot that no metric shows, with all that is below them.
var noMetric = map[string]string{
	"At":                            "when it was read",
	"Since":                         "when counting began",
	"Limiters.Rules.Scope":          "a name",
	"Limiters.Rules.Local":          "the source of decisions shows it",
	"Limiters.Rules.DenyAs503":      "what clients are told",
	"Limiters.Rules.Hidden":         "what clients are told",
	"Limiters.Rules.Override.Mode":  "the mode in force shows it",
	"Limiters.Rules.Override.Limit": "the limit in force shows it",
	"Limiters.Rules.Override.Why":   "for people",
	"Limiters.Top":                  "of keys",
	"Limiters.Denials":              "of keys",
	"Limiters.Skipped":              "how complete Top and Denials are",
	"Shedders.InFlight":             "the classes show it",
	"Shedders.Waiting":              "the classes show it",
	"Shedders.Exempt":               "for the operator's page",
	"Shedders.Shadowed":             "for the operator's page",
	"Shedders.Routes":               "how the limit is found",
	"Shedders.Tenants":              "how the limit is shared",
	"Shedders.Updates":              "how the limit is found",
	"Shedders.Classes.Entry":        "the limit and the share show it",
	"Memories.CountedAt":            "10 s ago at most",
	"Breakers.State":                "Open shows it",
	"Breakers.Since":                "those who read metrics know it",
	"Policies.FailingSince":         "those who read metrics know it",
}

// Whoever adds a number to a snapshot adds it to the table, or says here why not.
func TestEveryNumberOfASnapshotIsInTheTable(t *testing.T) {
	whole := filled()
	var fields []string
	eachField(reflect.ValueOf(&whole).Elem(), "", func(path string, v reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		change(t, path, v)
		shown := shows(filled().Metrics(), whole.Metrics(), isCount(path, v))
		v.Set(was)

		reason := ""
		for field, why := range noMetric {
			if path == field || strings.HasPrefix(path, field+".") {
				reason = why
				fields = append(fields, field)
			}
		}
		if !shown && reason == "" {
			t.Errorf("no metric shows Snapshot.%s: add it to the table, or to noMetric", path)
		}
		if shown && reason != "" {
			t.Errorf("a metric shows Snapshot.%s: take it out of noMetric", path)
		}
	})
	for field := range noMetric {
		if !slices.Contains(fields, field) {
			t.Errorf("there is no Snapshot.%s: take it out of noMetric", field)
		}
	}
}

// isCount reports whether a field is a number that series show as it is: if it rises, one does.
func isCount(path string, v reflect.Value) bool {
	return v.CanInt() && v.Type() != reflect.TypeFor[core.Mode]() && !strings.HasSuffix(path, ".Bounds")
}

// shows reports whether metrics show what has changed in a snapshot; of a count, by a series
// that has risen.
func shows(before, after []stats.Metric, count bool) bool {
	if !count {
		return !reflect.DeepEqual(before, after)
	}
	for i := range after {
		for j, s := range after[i].Series {
			was := before[i].Series[j]
			if s.Value > was.Value || s.Histogram.Sum > was.Histogram.Sum ||
				s.Histogram.Count() > was.Histogram.Count() {
				return true
			}
		}
	}
	return false
}

// filled returns a snapshot with one of everything, and no zero but that of modes.
func filled() (shot stats.Snapshot) {
	fill(reflect.ValueOf(&shot).Elem())
	return shot
}

func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case core.Mode:
		return
	case limits.Limit:
		v.Set(reflect.ValueOf(limits.FixedWindow(limits.PerDay(3))))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1000, 0)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(1)
	default:
		v.SetInt(7)
	}
}

// eachField calls f with each field below v that has no fields of its own.
func eachField(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	_, isLimit := v.Interface().(limits.Limit)
	_, isTime := v.Interface().(time.Time)
	switch {
	case isLimit || isTime:
		f(path, v)
	case v.Kind() == reflect.Slice:
		eachField(v.Index(0), path, f)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			below := path
			if !field.Anonymous {
				below = strings.TrimPrefix(path+"."+field.Name, ".")
			}
			eachField(v.Field(i), below, f)
		}
	default:
		f(path, v)
	}
}

// change gives a field another value.
func change(t *testing.T, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String, reflect.Pointer, reflect.Struct: // structs are limits and times
		v.SetZero()
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int16, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	default:
		t.Fatalf("Snapshot.%s is a %s, which this test cannot change", path, v.Type())
	}
}

func TestEveryMetricIsWellFormedAndHasSeries(t *testing.T) {
	prometheus := regexp.MustCompile(`^weir(_[a-z]+)+$`)
	openTelemetry := regexp.MustCompile(`^weir(\.[a-z]+(_[a-z]+)*)+$`)
	kinds := []string{"counter", "gauge", "timestamp", "histogram"}
	names := make(map[string]bool)
	for _, m := range filled().Metrics() {
		if !prometheus.MatchString(m.Name) || !openTelemetry.MatchString(m.Instrument) ||
			!slices.Contains(kinds, m.Kind) ||
			m.Unit == "" || !strings.HasSuffix(m.Help, ".") || len(m.Labels) != len(m.Attributes) {
			t.Errorf("%+v", m)
		}
		if (m.Kind == "counter") != strings.HasSuffix(m.Name, "_total") ||
			m.Unit == "s" && !strings.HasSuffix(m.Name, "_seconds") {
			t.Errorf("%s is a %s of %s", m.Name, m.Kind, m.Unit)
		}
		if names[m.Name] || names[m.Instrument] {
			t.Errorf("%s or %s is there twice", m.Name, m.Instrument)
		}
		names[m.Name], names[m.Instrument] = true, true
		if len(m.Series) == 0 {
			t.Errorf("%s has no series", m.Name)
		}
		of := make(map[string]bool)
		for _, s := range m.Series {
			if key := strings.Join(s.Labels, "\x00"); len(s.Labels) != len(m.Labels) || of[key] {
				t.Errorf("%s of %q: a series too many, or labels too few", m.Name, s.Labels)
			} else {
				of[key] = true
			}
			if (m.Kind == "histogram") != (s.Histogram.Bounds != nil) {
				t.Errorf("%s is a %s", m.Name, m.Kind)
			}
		}
	}
}

// seriesOf returns all series by name and labels, in the form of Prometheus.
func seriesOf(s stats.Snapshot) map[string]float64 {
	all := make(map[string]float64)
	for _, m := range s.Metrics() {
		for _, series := range m.Series {
			pairs := make([]string, len(m.Labels))
			for i := range pairs {
				pairs[i] = fmt.Sprintf("%s=%q", m.Labels[i], series.Labels[i])
			}
			all[m.Name+"{"+strings.Join(pairs, ",")+"}"] = series.Value + float64(series.Histogram.Count())
		}
	}
	return all
}

// elsewhere is a backend that is in no way in this process, and fails now and then.
type elsewhere struct {
	of    *memory.Memory
	fails bool
}

func (e *elsewhere) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if e.fails {
		return errors.New("away")
	}
	return e.of.Take(ctx, charges, out)
}

func (e *elsewhere) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	return e.of.Settle(ctx, endings, out)
}

func (*elsewhere) Supports(limits.Limit) bool { return true }

// Rate and increase miss the first event of a series that was not there before. These appear
// later: ends of a rule with a FinalCost, with its first end, and calls of a backend.
func TestOnlySeriesThatNoAlertNeedsAppearLater(t *testing.T) {
	var before, after map[string]float64
	synctest.Test(t, func(t *testing.T) {
		counts := stats.New(quietly())
		redis := &elsewhere{of: memory.MustNew(memory.Options{})}
		l := core.MustNew(core.Config[request]{
			Backend: counts.Backend("redis", redis),
			Rules: []core.Rule[request]{
				{Name: "plain", Limit: limits.FixedWindow(limits.PerDay(3)), Key: byKey},
				{Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(100)), Key: byKey, Cost: costOf,
					FinalCost: core.SpentCost},
				{Name: "at-once", Limit: limits.Concurrent(10), Key: byKey},
				{Name: "tomorrow", Limit: limits.FixedWindow(limits.PerDay(2)), Key: orFails, Mode: core.Shadow},
				{Name: "open", Limit: limits.FixedWindow(limits.PerDay(9)), Key: byKey, OnFailure: core.FailOpen},
				{Name: "here", Limit: limits.FixedWindow(limits.PerDay(9)), Key: byKey, Local: true},
				{Name: "share", Limit: limits.FixedWindow(limits.PerDay(2)), Key: byKey, Mode: core.EnforceFor(50)},
				{Name: "queue", Limit: limits.LeakyQueue(limits.PerSecond(100_000), 100), Key: byKey},
			},
			Observer: counts.Limiter("api"),
		})
		counts.Limiter("api").ObserveLimiter(l)
		before = seriesOf(counts.Snapshot())
		for i := range 60 {
			redis.fails = i%10 > 7
			r := request{key: fmt.Sprint("key ", i%5), cost: 2}
			if i%11 == 10 {
				r.key2 = errors.New("no key")
			}
			o := l.Decide(t.Context(), r)
			o.Spend("tokens", 1)
			o.End(core.Result{})
		}
		synctest.Wait() // for the ends
		after = seriesOf(counts.Snapshot())
	})
	later := map[string]bool{ // whether there is such a series
		`weir_settlements_total{limiter="api",rule="tokens",`:                              false,
		`weir_settled_units_total{limiter="api",rule="tokens",`:                            false,
		`weir_backend_duration_seconds{backend="redis",operation="settle",`:                false,
		`weir_backend_errors_total{backend="redis",operation="settle",`:                    false,
		`weir_backend_duration_seconds{backend="redis",operation="take",result="failure"}`: false,
	}
	for series := range after {
		if _, ok := before[series]; ok {
			continue
		}
		known := false
		for prefix := range later {
			if strings.HasPrefix(series, prefix) {
				known, later[prefix] = true, true
			}
		}
		if !known {
			t.Errorf("%s is there only after its first event", series)
		}
	}
	for prefix, there := range later {
		if !there {
			t.Errorf("%s…} did not appear", prefix)
		}
	}
	for series := range before {
		if _, ok := after[series]; !ok {
			t.Errorf("%s is gone", series)
		}
	}
	for _, counted := range []string{
		`weir_rule_decisions_total{limiter="api",rule="plain",decision="denied",mode="enforce",source="primary"}`,
		`weir_rule_decisions_total{limiter="api",rule="plain",decision="allowed",mode="enforce",source="fallback"}`,
		`weir_rule_decisions_total{limiter="api",rule="tomorrow",decision="denied",mode="shadow",source="closed"}`,
		`weir_rule_decisions_total{limiter="api",rule="open",decision="allowed",mode="enforce",source="open"}`,
		`weir_rule_decisions_total{limiter="api",rule="here",decision="allowed",mode="enforce",source="local"}`,
		`weir_rule_failures_total{limiter="api",rule="open",reason="backend"}`,
		`weir_rule_failures_total{limiter="api",rule="tomorrow",reason="key"}`,
		`weir_backend_errors_total{backend="redis",operation="take",reason="other"}`,
	} {
		if after[counted] == 0 {
			t.Errorf("%s is 0, so this test shows nothing about it", counted)
		}
	}
}

// What nobody uses has no series.
func TestALimiterOfPlainRulesHasFewSeries(t *testing.T) {
	counts := stats.New(quietly())
	l := core.MustNew(core.Config[request]{Rules: []core.Rule[request]{
		{Name: "per-client", Limit: limits.FixedWindow(limits.PerHour(6)), Key: byKey},
		{Name: "tomorrow", Limit: limits.TokenBucket(limits.PerHour(3), 9), Key: byKey, Mode: core.Shadow},
		{Name: "off", Limit: limits.FixedWindow(limits.PerHour(6)), Key: byKey, Mode: core.Disabled},
	}})
	counts.Limiter("api").ObserveLimiter(l)
	counts.WatchLeases("redis", func() backends.LeaseCounts { return backends.LeaseCounts{} })
	counts.Backend("redis", memory.MustNew(memory.Options{}))
	got := make(map[string]int)
	for _, m := range counts.Snapshot().Metrics() {
		if len(m.Series) > 0 {
			got[m.Name] = len(m.Series)
		}
	}
	want := map[string]int{
		"weir_requests_total": 4,
		// six of each rule: allowed and denied by the backend and the fallback, open, closed
		"weir_rule_decisions_total":     12,
		"weir_rule_failures_total":      9, // of key, backend and fallback
		"weir_rule_binding_total":       3,
		"weir_rule_units_total":         3,
		"weir_rule_near_limit_total":    3,
		"weir_rule_limit_units":         3,
		"weir_rule_period_seconds":      3,
		"weir_rule_enforced_ratio":      3,
		"weir_rule_mode":                12,
		"weir_rule_overridden":          3,
		"weir_backend_duration_seconds": 1,
		"weir_backend_errors_total":     4,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series by metric, want and got:\n%s", diff)
	}
}
