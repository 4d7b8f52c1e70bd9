// Package weirotel exports the counters of a [stats.Stats] to OpenTelemetry, and records on spans
// why a request was denied. It is a module of its own, so that a program without OpenTelemetry does
// not require it.
//
//	counters := stats.New(stats.Options{})
//	producer := metric.WithProducer(weirotel.NewProducer(counters))
//	reader := metric.NewPeriodicReader(exporter, producer)
//	provider := metric.NewMeterProvider(metric.WithReader(reader))
//
// A producer takes one snapshot for each collection, so all numbers of one export are of one
// moment, and decisions cost nothing more. It exports histograms, which observable instruments
// cannot.
//
// Names begin with weir and follow https://opentelemetry.io/docs/specs/semconv/general/naming/:
// they have no unit and no "total". Attribute values are names that the program and its operator
// choose and words of weir: never a key, a path or the text of an error. All metrics are in
// [stats.Snapshot.Metrics], which stats/weirprom exports too. Responses by status and route are not
// among them: otelhttp counts those.
package weirotel
