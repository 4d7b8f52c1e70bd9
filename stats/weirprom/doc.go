// Package weirprom exports the counters of a [stats.Stats] to Prometheus. It is a module of
// its own, so that a program without Prometheus does not require its client.
//
//	counters := stats.New(stats.Options{})
//	prometheus.MustRegister(weirprom.NewCollector(counters))
//
// The collector shows [stats.Snapshot.Metrics] when it is scraped, with names, labels and
// which series there are; decisions do not know of it. Labels are names that the program and
// its operator choose and words of weir: never a key, a path or the text of an error.
//
// Names follow https://prometheus.io/docs/practices/naming/: the prefix weir, base units,
// _total for counters. The example of Metrics lists them, and docs/operations.md says what to
// look at.
package weirprom
