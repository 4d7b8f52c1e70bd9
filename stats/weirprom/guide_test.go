package weirprom_test

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/stats/weirprom"
)

func metrics(counters *stats.Stats) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(weirprom.NewCollector(counters))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
