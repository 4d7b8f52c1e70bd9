// Package weirotel exports the counters of a [stats.Stats] by OpenTelemetry, and writes on
// spans why a request was denied. It is a module of its own, so that a program without
// OpenTelemetry does not require it.
//
//	counters := stats.New(stats.Options{})
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(weirotel.NewProducer(counters)))
//	provider := metric.NewMeterProvider(metric.WithReader(reader))
//
// A producer takes one snapshot for each collection, so that all numbers of one export
// belong together, and decisions do not know of it. It can hand over histograms, which
// observable instruments cannot.
//
// Names begin with weir and follow
// https://opentelemetry.io/docs/specs/semconv/general/naming/: no unit and no total in a
// name. Attributes are names that the program and its operator choose and words of weir:
// never a key, a path or the text of an error. All are in [stats.Snapshot.Metrics], which
// stats/weirprom shows too; otelhttp already counts responses by status and route.
package weirotel
