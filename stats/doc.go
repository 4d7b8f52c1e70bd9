// Package stats counts the decisions of limiters, for metrics, logs and the operator's page. It
// counts once, in this process, and all readers share one [Snapshot].
//
//	counts := stats.New(stats.Options{})
//	api := counts.Limiter("api")
//	limiter := nethttp.MustNew(nethttp.Config{
//		Rules:      rules,
//		Observer:   api,
//	})
//
// It works with the limiters of all frameworks. The counters of a rule exist, with the value 0, as
// soon as the limiter is made. [Snapshot.Metrics] returns all numbers as one table for exporters.
//
// [Stats.WatchShedder] adds a shedder of package shed to the snapshots. Shedders have counters of
// their own.
//
// A decision on a request with one rule costs at most two atomic additions, no lock and no
// allocation. A denial costs more, but less than a microsecond: it is recorded in the list of the
// keys denied most and in the list of the latest denials. Both lists are bounded. If another
// goroutine holds their lock, the denial is not recorded; [LimiterSnapshot].Skipped counts such
// denials.
//
// The counters of a rule take 8 KiB; the lists of a limiter that denies take 128 KiB.
//
// Counters are labelled by names of limiters, rules and backends, never by keys. Keys are only in
// [TopKey] and [Denial]. They may identify people, so the JSON of a Snapshot omits these fields;
// mask them before you show them.
package stats
