package serve

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/weir/stats"
)

// metricsOf returns the handler that Prometheus asks for what all returns, in its text format
// (version 0.0.4).
func metricsOf(all func() []stats.Metric) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		b := bufio.NewWriter(w)
		for _, m := range all() {
			writeMetric(b, m)
		}
		b.Flush()
	})
}

func writeMetric(b *bufio.Writer, m stats.Metric) {
	kind := m.Kind
	if kind == "timestamp" {
		kind = "gauge"
	}
	help := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(m.Help)
	write(b, "# HELP ", m.Name, " ", help, "\n# TYPE ", m.Name, " ", kind, "\n")
	for _, s := range m.Series {
		if m.Kind == "histogram" {
			writeHistogram(b, m, s)
			continue
		}
		write(b, m.Name)
		writeLabels(b, m.Labels, s.Labels, "")
		write(b, " ", strconv.FormatFloat(s.Value, 'g', -1, 64), "\n")
	}
}

func writeHistogram(b *bufio.Writer, m stats.Metric, s stats.Series) {
	sum := int64(0)
	for i, count := range s.Histogram.Counts {
		sum += count
		bound := "+Inf"
		if i < len(s.Histogram.Bounds) {
			bound = strconv.FormatFloat(s.Histogram.Bounds[i].Seconds(), 'g', -1, 64)
		}
		write(b, m.Name, "_bucket")
		writeLabels(b, m.Labels, s.Labels, bound)
		write(b, " ", strconv.FormatInt(sum, 10), "\n")
	}
	write(b, m.Name, "_sum")
	writeLabels(b, m.Labels, s.Labels, "")
	write(b, " ", strconv.FormatFloat(s.Histogram.Sum.Seconds(), 'g', -1, 64), "\n", m.Name, "_count")
	writeLabels(b, m.Labels, s.Labels, "")
	write(b, " ", strconv.FormatInt(sum, 10), "\n")
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// writeLabels writes names with their values, and the bound of a bucket if it is not "".
func writeLabels(b *bufio.Writer, names, values []string, bound string) {
	if len(names) == 0 && bound == "" {
		return
	}
	separator := "{"
	for i, name := range names {
		write(b, separator, name, `="`, escapes.Replace(strings.ToValidUTF8(values[i], "�")), `"`)
		separator = ","
	}
	if bound != "" {
		write(b, separator, `le="`, bound, `"`)
	}
	write(b, "}")
}

func write(w io.StringWriter, texts ...string) {
	for _, text := range texts {
		w.WriteString(text)
	}
}
