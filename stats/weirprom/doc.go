// Package weirprom exports the counters of a [stats.Stats] to Prometheus. It is a module of its
// own, so that a program without Prometheus does not require its client.
//
//	counters := stats.New(stats.Options{})
//	prometheus.MustRegister(weirprom.NewCollector(counters))
//
// The collector exports [stats.Snapshot.Metrics] when it is scraped; decisions cost nothing more.
// Label values are names that the program and its operator choose and words of weir: never a key, a
// path or the text of an error.
//
// Names follow https://prometheus.io/docs/practices/naming/: the prefix weir, base units, _total
// for counters. The example of Metrics lists them, and docs/operations.md says which to watch.
package weirprom
