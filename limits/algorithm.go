package limits

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/calendar"
)

// Algorithm names the way in which a [Limit] counts.
type Algorithm uint8

// The algorithms, each made by the constructor of the same name, with a text that [Parse] reads.
const (
	AlgorithmTokenBucket    Algorithm = iota + 1 // token-bucket 100/1m burst 20
	AlgorithmLeakyBucket                         // leaky-bucket 10/s burst 20
	AlgorithmLeakyQueue                          // leaky-queue 10/s burst 50
	AlgorithmFixedWindow                         // fixed-window 1000/day
	AlgorithmSlidingWindow                       // sliding-window 100/minute
	AlgorithmSlidingLog                          // sliding-log 5/5m
	AlgorithmAnchoredWindow                      // anchored-window 60/hour
	AlgorithmConcurrent                          // concurrent 20
	AlgorithmBan                                 // ban 10/10m for 1h
	AlgorithmCalendar                            // calendar 10000/month from 15 in Europe/Berlin
	AlgorithmDistinct                            // distinct 5/10m
	AlgorithmGrowingBan                          // ban 5/10m for 1h growing to 1d
)

// defaultAlgorithm is the algorithm of a text that names none.
const defaultAlgorithm = AlgorithmSlidingWindow

// grownAlgorithm is the algorithm of a ban that [Limit.Growing] returns.
const grownAlgorithm = AlgorithmGrowingBan

// Algorithms returns all algorithms in the order of their constants.
func Algorithms() []Algorithm {
	var all []Algorithm
	for a := Algorithm(1); int(a) < algorithm.End; a++ {
		all = append(all, a)
	}
	return all
}

// String returns the name that [Parse] reads, such as "token-bucket".
func (a Algorithm) String() string {
	if name := algorithm.Of(a).Name; name != "" {
		return name
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// Holds reports whether a request holds its units until it ends, as under [Concurrent].
func (a Algorithm) Holds() bool { return algorithm.Of(a).Held }

// Delays reports whether a request may have to wait for its turn, as under [LeakyQueue].
func (a Algorithm) Delays() bool { return algorithm.Of(a).Queues }

// HasBurst reports whether a limit has a burst or a capacity beside its rate.
func (a Algorithm) HasBurst() bool { return algorithm.Of(a).Drains }

// CountsValues reports whether a limit counts the different values of a key, as [Distinct] does.
func (a Algorithm) CountsValues() bool { return algorithm.Of(a).Values }

// firstWords returns the words with which texts begin, in the order of the constants.
func firstWords() (words []string) {
	for _, row := range algorithm.All() {
		if word := row.FirstWord(); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// withArticle returns a's name with its article.
func (a Algorithm) withArticle() string {
	name := a.String()
	if noun := algorithm.Of(a).Noun; noun != "" {
		name = noun
	}
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// TokenBucket refills at rate and holds at most burst units. So a client that has been quiet may
// take burst units at once.
func TokenBucket(rate Rate, burst int64) Limit {
	return Limit{algorithm: AlgorithmTokenBucket, rate: rate, burst: burst}
}

// LeakyBucket drains at rate and holds at most capacity units. A request that would overflow it is
// denied. It is the token bucket's dual, with the same decisions.
func LeakyBucket(rate Rate, capacity int64) Limit {
	return Limit{algorithm: AlgorithmLeakyBucket, rate: rate, burst: capacity}
}

// LeakyQueue drains at rate and holds at most capacity units. It tells every allowed request how
// long to wait for its turn ([Decision.Delay]), so requests start evenly spaced instead of in
// bursts. Capacity bounds the requests that wait under one key; core.Config.MaxWaiting bounds those
// of all keys. A request takes its slot when it is decided, and keeps it even if its client leaves
// before its turn.
func LeakyQueue(rate Rate, capacity int64) Limit {
	return Limit{algorithm: AlgorithmLeakyQueue, rate: rate, burst: capacity}
}

// FixedWindow counts in windows that start at whole multiples of the period since the Unix epoch,
// so a day is a UTC day. Around the end of a window it may allow twice its units within one period.
func FixedWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmFixedWindow, rate: rate, burst: rate.Units}
}

// SlidingWindow adds the count of this window and the part of the previous window's count that
// still overlaps the last period. Start with this one: it never allows more than its units at once,
// does not jump between windows, and takes a few bytes per key.
//
// It does not know when in a window its requests came. So a client that takes all units at the
// start of a window waits a whole period and a microsecond for the next unit. A client that takes
// all units at the end of a window gets them back evenly over the period that follows.
func SlidingWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmSlidingWindow, rate: rate, burst: rate.Units}
}

// SlidingLog remembers every allowed request of the last period. So no period of that length,
// wherever it starts, has more than its units. It takes memory in proportion to its units, of which
// there are at most 10,000.
func SlidingLog(rate Rate) Limit {
	return Limit{algorithm: AlgorithmSlidingLog, rate: rate, burst: rate.Units}
}

// AnchoredWindow counts in windows that each key opens for itself. A window opens with the first
// request allowed while none is open, and closes after a period. Later requests do not move it. A
// client that has nothing left waits until its window closes, at most a period.
//
// It counts like ulule/limiter, like INCR with EXPIRE in Redis, and like GitHub's hourly limit. It
// is often called a fixed window, as [FixedWindow] is, whose windows follow the clock. Like that,
// it may allow twice its units within one period: a client can keep all but one unit until the end
// of its window, and use up the next window right after.
func AnchoredWindow(rate Rate) Limit {
	return Limit{algorithm: AlgorithmAnchoredWindow, rate: rate, burst: rate.Units}
}

// Concurrent allows n units to be held at once, 1 to 100,000, and has no period. A request holds
// its units from its decision to its end (core.Outcome.End). A cost is at most 64. The RetryAfter
// of a denial is a guess, one second, since the end of a request is not known.
func Concurrent(n int64) Limit {
	return Limit{algorithm: AlgorithmConcurrent, burst: n}
}

// Ban counts the units of admitted requests in periods that each begin with a key's first unit, as
// those of [AnchoredWindow] do. The charge that reaches or exceeds the number is allowed and bans
// the key: every later charge is denied until the ban ends, even one of cost 0. Then the key is
// fresh. Denied requests are not counted, so they do not prolong a ban. Remaining is the number of
// units until the ban; a charge of more is allowed, and bans.
//
// To ban on failures, set a FinalCost that charges only failures, such as core.OnStatus returns. To
// ban clients that go on after another limiter's denials, put the ban in a limiter around that one.
// lasting is 1ms to 366 days, rounded to a microsecond.
//
// A ban counts up to 4,294,967,295 units. From that number an ending returns nothing.
func Ban(rate Rate, lasting time.Duration) Limit {
	l := Limit{algorithm: AlgorithmBan, rate: rate, burst: rate.Units}
	return l.with(extra{lasting: lasting.Round(time.Microsecond)})
}

// Calendar counts in periods of the calendar: a plan's 10,000 requests a month are Calendar(10_000,
// Month). A period begins at midnight in its time zone, so days last 23 or 25 hours where clocks
// change. Like [FixedWindow], it may allow twice its units within a short time around the end of a
// period.
//
// If a request costs more than it took, its period may pass units on to the next period, but no
// further.
func Calendar(units int64, period Period) Limit {
	p := Period(calendar.Text(calendar.Split(string(period))))
	rate := Rate{units, calendar.Length(string(p))}
	return Limit{algorithm: AlgorithmCalendar, rate: rate, burst: units}.with(extra{period: p})
}

// Distinct counts the different values of a key within a period: the user names that an address
// tries, or the addresses that use an API key. A request with a value that the key has had within
// the period is allowed and costs nothing. A new value takes a unit if one is left.
//
// A value leaves one period after the last allowed request that had it. So no interval of that
// length has more different values than the limit has units, and a client that keeps using two
// values keeps both. A denied request changes nothing: its value stays new, and no value stays
// longer. A backend stores at most 1,000 values of a key.
//
// core.Rule.Value, or Charge.Value of package backends as a number, is the value of a request. A
// cost above 1 counts as 1.
func Distinct(rate Rate) Limit {
	return Limit{algorithm: AlgorithmDistinct, rate: rate, burst: rate.Units}
}
