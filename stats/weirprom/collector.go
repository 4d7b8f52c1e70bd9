package weirprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/stats"
)

// NewCollector returns a collector of what s has counted. Register it once, with
// [prometheus.Registerer]. Two collectors of one registry need different Stats and names
// of limiters that differ, which prometheus.WrapRegistererWith can add as a label.
func NewCollector(s *stats.Stats) prometheus.Collector { return collector{s} }

type collector struct{ stats *stats.Stats }

// Describe implements [prometheus.Collector].
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range families {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. It takes a snapshot.
func (c collector) Collect(to chan<- prometheus.Metric) {
	shot := c.stats.Snapshot()
	w := writer{to}
	for i := range shot.Limiters {
		w.limiter(&shot.Limiters[i])
	}
	for i := range shot.Shedders {
		w.shedder(&shot.Shedders[i])
	}
	for i := range shot.Backends {
		w.backend(&shot.Backends[i])
	}
	for i := range shot.Memories {
		w.memory(&shot.Memories[i])
	}
	for i := range shot.Breakers {
		w.breaker(&shot.Breakers[i])
	}
	for i := range shot.Leases {
		w.leases(&shot.Leases[i])
	}
	for i := range shot.Policies {
		w.policy(&shot.Policies[i])
	}
}

// families has every metric family that Collect may send.
var families []*prometheus.Desc

// family returns the description of a metric family.
func family(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("weir_"+name, help, labels, nil)
	families = append(families, d)
	return d
}

// writer sends metrics of a scrape.
type writer struct{ to chan<- prometheus.Metric }

func (w writer) counter(d *prometheus.Desc, value int64, labels ...string) {
	w.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func (w writer) gauge(d *prometheus.Desc, value float64, labels ...string) {
	w.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// histogram sends the buckets of h, which add up in Prometheus.
func (w writer) histogram(d *prometheus.Desc, h *stats.Histogram, labels ...string) {
	buckets := make(map[float64]uint64, len(h.Bounds))
	sum := uint64(0)
	for i, bound := range h.Bounds {
		sum += uint64(h.Counts[i])
		buckets[bound.Seconds()] = sum
	}
	w.to <- prometheus.MustNewConstHistogram(d, uint64(h.Count()), h.Sum.Seconds(), buckets, labels...)
}
