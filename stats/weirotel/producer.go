package weirotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir/stats"
)

// NewProducer returns what hands over what s has counted, for the option WithProducer of a
// reader. It is safe for concurrent use. Counters are cumulative, since [stats.New], also
// for exporters that prefer deltas.
func NewProducer(s *stats.Stats) metric.Producer { return producer{s} }

type producer struct{ stats *stats.Stats }

// Produce implements [metric.Producer]. Its error is always nil.
func (p producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	shot := p.stats.Snapshot()
	b := batch{shot: &shot, of: make(map[string]int)}
	for i := range shot.Limiters {
		b.limiter(&shot.Limiters[i])
	}
	for i := range shot.Shedders {
		b.shedder(&shot.Shedders[i])
	}
	for i := range shot.Backends {
		b.backend(&shot.Backends[i])
	}
	for i := range shot.Memories {
		b.memory(&shot.Memories[i])
	}
	for i := range shot.Breakers {
		b.breaker(&shot.Breakers[i])
	}
	for i := range shot.Leases {
		b.leases(&shot.Leases[i])
	}
	for i := range shot.Policies {
		b.policy(&shot.Policies[i])
	}
	return []metricdata.ScopeMetrics{{
		Scope:   instrumentation.Scope{Name: "github.com/weir-go/weir/stats/weirotel"},
		Metrics: b.metrics,
	}}, nil
}

// instrument is a name with what it means.
type instrument struct{ name, unit, description string }

// batch collects the metrics of one snapshot.
type batch struct {
	shot    *stats.Snapshot
	metrics []metricdata.Metrics
	of      map[string]int // index in metrics, by name
}

// metric returns the metric of an instrument, which begins with empty data.
func (b *batch) metric(i *instrument, empty metricdata.Aggregation) *metricdata.Metrics {
	at, ok := b.of[i.name]
	if !ok {
		at = len(b.metrics)
		b.of[i.name] = at
		b.metrics = append(b.metrics, metricdata.Metrics{Name: i.name, Description: i.description, Unit: i.unit, Data: empty})
	}
	return &b.metrics[at]
}

// counter adds a value that only rises.
func (b *batch) counter(i *instrument, value int64, attributes ...attribute.KeyValue) {
	m := b.metric(i, metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true})
	sum := m.Data.(metricdata.Sum[int64])
	sum.DataPoints = append(sum.DataPoints, metricdata.DataPoint[int64]{
		Attributes: attribute.NewSet(attributes...), StartTime: b.shot.Since, Time: b.shot.At, Value: value,
	})
	m.Data = sum
}

// gauge adds a value that is true now.
func (b *batch) gauge(i *instrument, value float64, attributes ...attribute.KeyValue) {
	m := b.metric(i, metricdata.Gauge[float64]{})
	gauge := m.Data.(metricdata.Gauge[float64])
	gauge.DataPoints = append(gauge.DataPoints, metricdata.DataPoint[float64]{
		Attributes: attribute.NewSet(attributes...), Time: b.shot.At, Value: value,
	})
	m.Data = gauge
}

// histogram adds durations.
func (b *batch) histogram(i *instrument, h *stats.Histogram, attributes ...attribute.KeyValue) {
	m := b.metric(i, metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality})
	histogram := m.Data.(metricdata.Histogram[float64])
	histogram.DataPoints = append(histogram.DataPoints, metricdata.HistogramDataPoint[float64]{
		Attributes: attribute.NewSet(attributes...), StartTime: b.shot.Since, Time: b.shot.At,
		Count: uint64(h.Count()), Sum: h.Sum.Seconds(), Bounds: inSeconds(h.Bounds), BucketCounts: unsigned(h.Counts),
	})
	m.Data = histogram
}

func inSeconds(bounds []time.Duration) []float64 {
	seconds := make([]float64, len(bounds))
	for i, bound := range bounds {
		seconds[i] = bound.Seconds()
	}
	return seconds
}

func unsigned(counts []int64) []uint64 {
	all := make([]uint64, len(counts))
	for i, n := range counts {
		all[i] = uint64(n)
	}
	return all
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
