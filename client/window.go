package client

import (
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// renewal recognizes a limit that renews all at once. All answers in one window tell the same
// reset, up to rounding. If the reset moves, or a part is renewed early, the limit is not a window.
//
//	limit 100; answers tell 80 left until 12:00:10, then 30 left until 12:00:10
//	more than half was used, and the reset did not move: a window is likely
//	at 12:00:10 the next window begins: proven
type renewal struct {
	proven bool    // the window before was one
	moved  bool    // the present window is not one
	ends   instant // the earliest reset that was told
	most   int64   // the most and the least that was left
	least  int64
	late   time.Duration // ends may be later by that much than the renewal; 0 for an instant
}

// A told reset is rounded to seconds, and its answer takes time: it may be late by looseReset. An
// instant is compared with a Date that is rounded, too: by loosestReset.
const (
	looseReset   = 1250 * time.Millisecond
	loosestReset = 2250 * time.Millisecond
)

// observe learns from an answer. grown units were renewed since the one before. It reports whether
// the answer is the first of a window.
func (w *renewal) observe(now instant, q *quota.Rest, grown, limit int64) (anew bool) {
	loose, late := looseReset, looseReset
	if q.Date != 0 {
		loose, late = loosestReset, 0
	}
	ends := now + q.Window
	switch {
	case now >= w.ends:
		*w = renewal{
			proven: w.likely(limit), moved: q.Window < 2*loose, ends: ends,
			most: q.Left, least: q.Left, late: late,
		}
		return true
	case grown > 0, ends > w.ends+loose, ends < w.ends-loose:
		w.proven, w.moved, w.ends = false, true, max(w.ends, ends)
	default:
		w.ends, w.most, w.least = min(w.ends, ends), max(w.most, q.Left), min(w.least, q.Left)
	}
	return false
}

// likely reports whether half of the limit was used while the reset did not move.
func (w *renewal) likely(limit int64) bool {
	return w.ends > 0 && !w.moved && w.most-w.least >= max(limit/2, 2)
}

// rolling recognizes a sliding window that tells the end of its period. A part of such a limit is
// renewed all the time. Waiting for the end would waste every other period.
type rolling struct {
	period time.Duration // the longest window that was told
	on     bool
	never  bool // a request that relied on it was denied
}

// observe learns from an answer before w does. own requests of this process, at most, have used the
// limit since the end that w knows. If the new end is a period later, and most of the limit is used
// all the same, the end of w did not renew everything.
func (r *rolling) observe(now instant, q *quota.Rest, own, limit int64, w *renewal, shared bool) {
	passed := w.likely(limit) && now+q.Window > w.ends+r.period*3/4
	if passed && q.Whole && !r.never && !shared && q.Left < limit/2 && own <= limit/8 {
		r.on = true
	}
	r.period = max(r.period, q.Window)
}

// every returns the time in which one unit is renewed.
func (r *rolling) every(limit int64) time.Duration {
	return r.period / time.Duration(max(limit, 1))
}

// ending watches the end of a limit that renews as a whole. An end that moves with each answer,
// though less is left, may be the length of a period, or in another unit. The end of a bucket
// moves, too, but by the time that refills what was used.
//
//	3,600 s to go, 100 left; 10 s later 3,600 s to go, 90 left: it moves
//	bucket of a unit a second: 3,600 s to go, 100 left; then 3,610 s to go, 90 left: it does not
type ending struct {
	at     instant // of the first answer since something was renewed
	window time.Duration
	left   int64
	moves  bool
}

// observe learns from an answer. grown units were renewed since the one before.
func (e *ending) observe(now instant, q *quota.Rest, grown int64) {
	moved := now + q.Window - e.at - e.window
	switch {
	case grown > 0, now >= e.at+e.window:
		*e = ending{now, q.Window, q.Left, e.moves}
	case !q.Whole || now-e.at < resetError:
	case moved <= loosestReset && moved >= -loosestReset:
		e.moves = false
	case q.Left < e.left && q.Window <= e.window+looseReset:
		e.moves = true
	}
}

// others estimates how many processes use up a limit that renews all at once. While there are many,
// each takes its share of what is left.
//
//	limit 80; this process has sent 2 requests in the window, and 60 are used: 30 rivals
//	each can send 80/30 = 2.7 requests in a window, less than few: a crowd
type others struct {
	suspected bool    // a denial came though something was left, or before any other answer
	seen      bool    // less was left than this process has left
	calm      int     // answers in a row without a sign of others
	own       int64   // requests of this process in the window
	rivals    float64 // processes that would use as much as this one, itself included
	before    float64 // rivals in the window before, minus a fifth
	window    time.Duration
}

// few is how many requests in a window are so few that each of them counts.
const few = 4

// deny learns from a denial: whether something was left, and whether it is the first answer.
func (o *others) deny(left, first bool, limit, flying int64) {
	o.suspected = o.suspected || left || first
	o.seen = o.seen || left
	o.calm = 0
	o.rivals = float64(limit) / float64(max(o.own+flying, 1))
}

// see notes that less is left than this process has left.
func (o *others) see() { o.seen, o.calm = o.suspected, 0 }

// miss notes that only this process has used the limit.
func (o *others) miss() {
	if o.calm++; o.calm >= 3 {
		*o = others{own: o.own}
	}
}

// observe learns from an allowed answer. anew says that it is the first of its window. The first
// requests of a window see no others, so earlier windows count, too.
func (o *others) observe(q *quota.Rest, anew bool) {
	if anew {
		o.own, o.before, o.window = 0, o.rivals*0.8, q.Window
	}
	o.own++
	o.rivals = max(o.before, float64(q.Limit-q.Left)/float64(o.own))
}

// crowd reports whether others leave this process less than a few requests.
func (o *others) crowd(limit int64) bool { return o.seen && o.rivals*few > float64(limit) }

// share returns the gap between two requests of this process in a crowd, if left units have to last
// for a time. If its share is used up, later is how long after the renewal its next request starts.
// Requests that were denied go before it.
func (o *others) share(until time.Duration, left int64) (gap, later time.Duration) {
	share := float64(left) / max(o.rivals, 1)
	if share < 1 {
		later = min(o.window/32, time.Second)
		later += rand.N(later+1) + 1
	}
	return time.Duration(float64(until) / (share + 1)), later
}
