// Package stats counts what limiters do, for metrics, logs and the operator's page. It
// counts once, in this process, and everything else reads one [Snapshot].
//
//	counts := stats.New(stats.Options{})
//	api := counts.Limiter("api")
//	limiter := nethttp.MustNew(nethttp.Config{
//		Rules:      rules,
//		Observer:   api,
//	})
//
// It works with the limiters of all frameworks. A rule is counted, from zero, as soon as the limiter
// is made. [Snapshot.Metrics] is one table of all numbers for exporters.
//
// [Stats.WatchShedder] shows the shedders of package shed as well, which count for
// themselves.
//
// A decision on a request with one rule costs two atomic additions at most, no lock and no
// allocation. Denials cost more, and less than a microsecond: they are entered into the
// list of the keys denied most, and into the last denials. Both lists are bounded. If
// another goroutine is using them they are left alone: [LimiterSnapshot].Skipped says
// how often.
//
// The counters of a rule take 8 KiB, the lists of a limiter that denies 128 KiB.
//
// Counters are of names alone: of limiters, rules and backends. Keys are in
// [TopKey], [Denial] and nowhere else. They may identify people, so these fields are not
// part of the JSON of a Snapshot; whoever shows them masks them.
package stats
