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

// NewProducer returns a producer that exports the counters of s. Pass it to a reader with
// metric.WithProducer. It is safe for concurrent use. Counters are cumulative since [stats.New],
// also for exporters that prefer deltas.
func NewProducer(s *stats.Stats) metric.Producer { return producer{s} }

type producer struct{ stats *stats.Stats }

// Produce implements [metric.Producer]. Its error is always nil.
func (p producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	shot := p.stats.Snapshot()
	var metrics []metricdata.Metrics
	for _, m := range shot.Metrics() {
		if len(m.Series) > 0 {
			metrics = append(metrics, metricdata.Metrics{
				Name: m.Instrument, Description: m.Help, Unit: m.Unit,
				Data: dataOf(&m, shot.Since, shot.At),
			})
		}
	}
	return []metricdata.ScopeMetrics{{
		Scope:   instrumentation.Scope{Name: "github.com/weir-go/weir/stats/weirotel"},
		Metrics: metrics,
	}}, nil
}

// dataOf returns the series of m as data points.
func dataOf(m *stats.Metric, since, at time.Time) metricdata.Aggregation {
	switch m.Kind {
	case "histogram":
		var points []metricdata.HistogramDataPoint[float64]
		for _, s := range m.Series {
			h := s.Histogram
			points = append(points, metricdata.HistogramDataPoint[float64]{
				Attributes: attributesOf(m, s), StartTime: since, Time: at,
				Count: uint64(h.Count()), Sum: h.Sum.Seconds(), Bounds: inSeconds(h.Bounds),
				BucketCounts: unsigned(h.Counts),
			})
		}
		return metricdata.Histogram[float64]{
			DataPoints: points, Temporality: metricdata.CumulativeTemporality,
		}
	case "counter":
		var points []metricdata.DataPoint[int64]
		for _, s := range m.Series {
			points = append(points, metricdata.DataPoint[int64]{
				Attributes: attributesOf(m, s), StartTime: since, Time: at, Value: int64(s.Value),
			})
		}
		return metricdata.Sum[int64]{
			DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
		}
	}
	var points []metricdata.DataPoint[float64]
	for _, s := range m.Series {
		value := s.Value
		if m.Kind == "timestamp" && value != 0 { // OpenTelemetry shows the age
			value = max(0, at.Sub(time.UnixMicro(int64(value*1e6))).Seconds())
		}
		points = append(points,
			metricdata.DataPoint[float64]{Attributes: attributesOf(m, s), Time: at, Value: value})
	}
	return metricdata.Gauge[float64]{DataPoints: points}
}

func attributesOf(m *stats.Metric, s stats.Series) attribute.Set {
	attributes := make([]attribute.KeyValue, len(s.Labels))
	for i, value := range s.Labels {
		if m.Attributes[i] == "error.type" && value == "other" {
			value = "_OTHER" // value of the semantic conventions
		}
		attributes[i] = attribute.String(m.Attributes[i], value)
	}
	return attribute.NewSet(attributes...)
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
