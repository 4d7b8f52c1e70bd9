package weirotel_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/stats/weirotel"
)

// self is the key of requests that are their own keys.
func self(key string) (string, error) { return key, nil }

// newWorld returns a program that uses all there is, with the reader of its metrics.
func newWorld(t *testing.T) (*metric.ManualReader, *core.Limiter[string]) {
	s := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
	counts := s.Limiter("api")
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) // no key drains, and no day ends, however long a test takes
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return noon }})
	limiter, err := core.New(core.Config[string]{
		Rules: []core.Rule[string]{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(3)), Key: self},
			{Name: "next", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: self, Mode: core.Shadow},
			{Name: "at-once", Limit: limits.Concurrent(100), Key: self},
			{Name: "by-plan", LimitFor: func(string, string) (limits.Limit, error) {
				return limits.SlidingLog(limits.PerDay(1000)), nil
			}, Key: self},
			{Name: "queue", Limit: limits.LeakyQueue(limits.PerSecond(1000), 100_000), Key: self},
		},
		Backend:  s.Backend("redis", store),
		Observer: core.ObserverFuncs[string]{OnDecision: weirotel.ObserveSpan[string], Next: counts},
	})
	if err != nil {
		t.Fatal(err)
	}
	counts.ObserveLimiter(limiter)
	s.WatchMemory("fallback", store)
	s.WatchBreaker("redis", func() backends.BreakerStatus {
		return backends.BreakerStatus{State: "open", Since: time.Now(), Opened: 2}
	})
	s.WatchLeases("redis", func() backends.LeaseCounts {
		return backends.LeaseCounts{
			Keys: 1, Held: 2, BlocksTaken: 3, BlocksDenied: 4, BlocksFailed: 5, UnitsTaken: 60, UnitsReturned: 7,
			UnitsVoid: 8,
		}
	})
	s.WatchShedder("api", newShedder(t))
	s.WatchPolicy("weir.yaml", broken{})
	reader := metric.NewManualReader(metric.WithProducer(weirotel.NewProducer(s)))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	t.Cleanup(func() { provider.Shutdown(context.Background()) })
	return reader, limiter
}

// collect returns every series with its value; of histograms, their count.
func collect(t *testing.T, reader metric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	put := func(name, attributes string, value float64) {
		series := name + "{" + attributes + "}"
		if _, ok := values[series]; ok {
			t.Errorf("%s is there twice", series)
		}
		values[series] = value
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if !strings.HasPrefix(m.Name, "weir.") || strings.HasSuffix(m.Name, "total") || m.Unit == "" ||
				m.Description == "" {
				t.Errorf("%s, in %q (%q), is not named as OpenTelemetry names", m.Name, m.Unit, m.Description)
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes.Encoded(encoder), float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes.Encoded(encoder), p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if len(p.BucketCounts) != len(p.Bounds)+1 {
						t.Errorf("%s has %d buckets of %d bounds", m.Name, len(p.BucketCounts), len(p.Bounds))
					}
					put(m.Name, p.Attributes.Encoded(encoder), float64(p.Count))
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return values
}

func TestNumbersAreThoseOfTheRequests(t *testing.T) {
	reader, limiter := newWorld(t)
	for i := range 10 {
		for range 5 {
			o := limiter.Decide(t.Context(), "client-"+strconv.Itoa(i))
			if i > 0 {
				o.End(core.Result{Status: 200})
			}
		}
	}
	after := collect(t, reader)
	for series, want := range map[string]float64{
		"weir.requests{weir.limiter.name=api,weir.verdict=allowed}":     30,
		"weir.requests{weir.limiter.name=api,weir.verdict=denied}":      20,
		"weir.requests{weir.limiter.name=api,weir.verdict=unavailable}": 0,
		"weir.rate_limiting.decisions{weir.decision=denied,weir.decision.source=primary,weir.limiter.name=api,weir.mode=enforce,weir.policy_rule.name=per-client}": 20,
		"weir.rate_limiting.decisions{weir.decision=allowed,weir.decision.source=primary,weir.limiter.name=api,weir.mode=shadow,weir.policy_rule.name=next}":       10,
		"weir.rate_limiting.binding{weir.limiter.name=api,weir.policy_rule.name=per-client}":                                                                       20,
		"weir.rate_limiting.limit{weir.limiter.name=api,weir.policy_rule.name=at-once}":                                                                            100,
		"weir.rate_limiting.enforced{weir.limiter.name=api,weir.policy_rule.name=next}":                                                                            0,
		"weir.queue.delay{weir.limiter.name=api,weir.policy_rule.name=queue}":                                                                                      20,
		"weir.held{weir.limiter.name=api}": 3,
		"weir.backend.operation.duration{weir.backend.name=redis,weir.backend.operation=take,weir.result=success}": 50,
		"weir.backend.operation.errors{error.type=_OTHER,weir.backend.name=redis,weir.backend.operation=take}":     0,
		"weir.breaker.changes{weir.breaker.name=redis,weir.breaker.state=closed}":                                  1,
		"weir.shed.requests{weir.shed.class=critical,weir.shed.verdict=admitted,weir.shedder.name=api}":            2,
		"weir.shed.requests{weir.shed.class=other,weir.shed.verdict=shed,weir.shedder.name=api}":                   1,
		"weir.shed.limit{weir.shedder.name=api}":                                                                   2,
		"weir.shed.mode{weir.mode=enforce,weir.shedder.name=api}":                                                  1,
		"weir.policy.failing{weir.policy.name=weir.yaml}":                                                          1,
		"weir.policy.info{weir.policy.digest=0123456789ab,weir.policy.name=weir.yaml}":                             1,
		"weir.settlements{weir.limiter.name=api,weir.policy_rule.name=at-once,weir.result=done}":                   27,
	} {
		if got, ok := after[series]; !ok || got != want {
			t.Errorf("%s: %v (there: %v), want %v", series, got, ok, want)
		}
	}
	for series := range after {
		if strings.Contains(series, "client-") || strings.Contains(series, "mistake") {
			t.Errorf("%s names what must not be named", series)
		}
	}
}

// Prometheus is told when something happened, OpenTelemetry how long ago.
func TestATimestampIsAnAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stats.New(stats.Options{})
		s.WatchPolicy("applied", applied(time.Now()))
		s.WatchPolicy("never", applied(time.Time{}))
		time.Sleep(90 * time.Minute)
		reader := metric.NewManualReader(metric.WithProducer(weirotel.NewProducer(s)))
		provider := metric.NewMeterProvider(metric.WithReader(reader))
		defer provider.Shutdown(t.Context())
		got := collect(t, reader)
		a, n := got["weir.policy.age{weir.policy.name=applied}"], got["weir.policy.age{weir.policy.name=never}"]
		if a != 5400 || n != 0 {
			t.Errorf("ages of %v and %v s, want 5400 and 0", a, n)
		}
	})
}

// applied is a policy that was applied then.
type applied time.Time

func (applied) Digest() string                 { return "0123456789abcdef" }
func (a applied) Applied() time.Time           { return time.Time(a) }
func (applied) Failure() (time.Time, error)    { return time.Time{}, nil }
func (applied) Loads() (applied, failed int64) { return 1, 0 }

// What is found on a span is looked up among metrics.
func TestAttributesOfSpansAreThoseOfMetrics(t *testing.T) {
	of := make(map[string]bool)
	for _, m := range (stats.Snapshot{}).Metrics() {
		for _, name := range m.Attributes {
			of[name] = true
		}
	}
	spans := tracetest.NewSpanRecorder()
	ctx, span := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test").Start(t.Context(), "GET /")
	_, limiter := newWorld(t)
	for range 4 {
		limiter.Decide(ctx, "ann")
	}
	shedder := shed.MustNew(shed.Options[int]{Limit: 1, Observe: weirotel.ObserveShedSpan[int]})
	for i := range 2 {
		shedder.Acquire(ctx, i)
	}
	span.End()
	found := spans.Ended()[0].Attributes()
	if len(found) != 6 {
		t.Errorf("%d attributes, want those of a denied and of a shed request: %v", len(found), found)
	}
	for _, a := range found {
		if !of[string(a.Key)] {
			t.Errorf("no metric has the attribute %s", a.Key)
		}
	}
}

// A denial is written on the span, whose status stays that of otelhttp.
func TestASpanSaysWhyARequestWasDenied(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
	_, limiter := newWorld(t)
	for range 4 {
		ctx, span := tracer.Start(t.Context(), "GET /")
		o := limiter.Decide(ctx, "ann")
		o.End(core.Result{})
		span.End()
	}
	limiter.Decide(t.Context(), "ann") // without a span
	ended := spans.Ended()
	for i, span := range ended {
		if span.Status().Code != codes.Unset {
			t.Errorf("span %d has the status %v", i, span.Status())
		}
		if n := len(span.Attributes()); i < 3 && n != 0 {
			t.Errorf("span %d of an allowed request has %d attributes", i, n)
		}
	}
	got := ""
	for _, a := range ended[3].Attributes() {
		got += string(a.Key) + "=" + a.Value.String() + " "
	}
	want := "weir.verdict=denied weir.policy_rule.name=per-client weir.mode=enforce weir.decision.source=primary "
	if got != want {
		t.Errorf("the span of the denial has %q, want %q", got, want)
	}
}

// newShedder returns a shedder with room for two requests, both taken by the class
// critical. It has shed a request of each class.
func newShedder(t testing.TB) *shed.Shedder[int] {
	shedder := shed.MustNew(shed.Options[int]{
		Classes:  []shed.Class{{Name: "critical"}, {Name: "other", Share: 50}},
		Classify: func(class int) int { return class },
		Limit:    2,
	})
	for _, class := range []int{0, 0, 0, 1} {
		shedder.Acquire(t.Context(), class)
	}
	return shedder
}

// broken is a policy whose file has a mistake.
type broken struct{}

func (broken) Digest() string     { return "0123456789abcdef" }
func (broken) Applied() time.Time { return time.Unix(1000, 0) }
func (broken) Failure() (time.Time, error) {
	return time.Unix(2000, 0), errors.New("weir.yaml:1:1: a mistake")
}
func (broken) Loads() (applied, failed int64) { return 1, 1 }
