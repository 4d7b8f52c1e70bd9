package weirprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/stats"
)

// NewCollector returns a collector of the counters of s. Register it once, with
// [prometheus.Registerer]. Two collectors in one registry need different Stats and different names
// of limiters; prometheus.WrapRegistererWith can add a label that tells them apart.
func NewCollector(s *stats.Stats) prometheus.Collector {
	c := &collector{stats: s}
	for _, m := range (stats.Snapshot{}).Metrics() {
		c.descs = append(c.descs, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil))
	}
	return c
}

type collector struct {
	stats *stats.Stats
	descs []*prometheus.Desc // in the order of stats.Snapshot.Metrics
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. It takes a snapshot.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for i, m := range c.stats.Snapshot().Metrics() {
		for _, s := range m.Series {
			switch m.Kind {
			case "histogram":
				count, buckets := cumulative(s.Histogram)
				to <- prometheus.MustNewConstHistogram(c.descs[i], count, s.Histogram.Sum.Seconds(),
					buckets, s.Labels...)
			case "counter":
				to <- prometheus.MustNewConstMetric(c.descs[i], prometheus.CounterValue, s.Value,
					s.Labels...)
			default:
				to <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, s.Value,
					s.Labels...)
			}
		}
	}
}

// cumulative returns the buckets of h by their bounds in seconds, with cumulative counts as
// Prometheus requires.
func cumulative(h stats.Histogram) (count uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.Bounds))
	sum := uint64(0)
	for i, bound := range h.Bounds {
		sum += uint64(h.Counts[i])
		buckets[bound.Seconds()] = sum
	}
	return uint64(h.Count()), buckets
}
