// Package weirprom exports the counters of a [stats.Stats] to Prometheus. It is a module of
// its own, so that a program without Prometheus does not require its client.
//
//	counters := stats.New(stats.Options{})
//	prometheus.MustRegister(weirprom.NewCollector(counters))
//
// The collector reads a snapshot when it is scraped; decisions do not know of it. Every
// series of a rule, a backend, a breaker or a shedder exists from the moment when the Stats knows of
// it, at zero, so that rate and increase miss no first event. Labels are names that the
// program and its operator choose and words of weir: never a key, a path or the text of an
// error.
//
// Names follow https://prometheus.io/docs/practices/naming/: the prefix weir, base units,
// _total for counters. docs/operations.md has the list, with what each is good for.
package weirprom
