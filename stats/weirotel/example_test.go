package weirotel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/stats/weirotel"
)

var encoder = attribute.DefaultEncoder()

// A program gives the producer to the reader that it has: a PeriodicReader with its
// exporter. This one reads by hand.
func ExampleNewProducer() {
	counters := stats.New(stats.Options{})
	api := counters.Limiter("api")
	limiter := core.MustNew(core.Config[string]{
		Rules:    []core.Rule[string]{{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: self}},
		Observer: api,
	})
	reader := metric.NewManualReader(metric.WithProducer(weirotel.NewProducer(counters)))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer provider.Shutdown(context.Background())

	limiter.Decide(context.Background(), "ann")
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
	}
	requests := all.ScopeMetrics[0].Metrics[0]
	fmt.Println(requests.Name, requests.Unit, requests.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
	// Output: weir.requests {request} 1
}

// The span of a denied request says which rule it was.
func ExampleObserveSpan() {
	limiter := core.MustNew(core.Config[string]{
		Rules:    []core.Rule[string]{{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: self}},
		Observer: core.ObserverFuncs[string]{OnDecision: weirotel.ObserveSpan[string]},
	})
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("example")
	for range 2 {
		ctx, span := tracer.Start(context.Background(), "GET /")
		limiter.Decide(ctx, "ann")
		span.End()
	}
	for _, span := range spans.Ended() {
		set := attribute.NewSet(span.Attributes()...)
		fmt.Printf("%q\n", set.Encoded(encoder))
	}
	// Output:
	// ""
	// "weir.decision.source=primary,weir.mode=enforce,weir.policy_rule.name=per-client,weir.verdict=denied"
}

// The span of a request that was shed says of which class it was.
func ExampleObserveShedSpan() {
	shedder := shed.MustNew(shed.Options[string]{MaxInFlight: 1, Observe: weirotel.ObserveShedSpan[string]})
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("example")
	for range 2 {
		ctx, span := tracer.Start(context.Background(), "GET /")
		shedder.Acquire(ctx, "ann") // the first does not end
		span.End()
	}
	for _, span := range spans.Ended() {
		set := attribute.NewSet(span.Attributes()...)
		fmt.Printf("%q\n", set.Encoded(encoder))
	}
	// Output:
	// ""
	// "weir.shed.class=all,weir.shed.verdict=shed"
}
