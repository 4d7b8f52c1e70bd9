package client

import (
	"math/rand/v2"
	"time"
)

// told is what answers say is left of a limit.
//
// left is a lower bound of what the server has left, as long as no other client uses the limit:
// an answer says what was left when it was decided, and every other request that may have
// been decided since is subtracted from that.
type told struct {
	known       bool // the fields below are believed
	left, limit int64
	source      string
	window      time.Duration
	reset       bool          // renew is when everything is renewed
	renew       instant       // when more may be sent though nothing is left
	exact       bool          // renew is that of an answer that had nothing left
	at          instant       // when the fields above were told
	newest      uint64        // the latest request whose answer was believed
	least       int64         // left at least, by the answers since the bucket was last idle
	counted     bool          // an answer has said what is left
	sharedUntil instant       // others use the limit, it seems
	lead        time.Duration // of the server's clock, as Unix time, over ours; at least
	doubt       doubt
	ending      ending
	renewal     renewal
	others      others
	rolling     rolling
}

// rolling is what has been seen of a limit that tells when all of it is renewed, and renews a part
// all the time, as a sliding window does that tells the end of its period. To believe it would
// leave every other period unused.
type rolling struct {
	period time.Duration // the longest that was told
	on     bool
	never  bool // a request that went by it was denied
}

// observe notes an answer, of which own requests of this process have used something since the end
// that answers have told last: w has not seen this one. If that end is later by a period, and most
// is used all the same, it was not the end of all.
func (r *rolling) observe(now instant, q quota, own, limit int64, w *renewal, shared bool) {
	passed := w.likely(limit) && now+q.window > w.ends+r.period*3/4
	if passed && q.reset && !r.never && !shared && q.left < limit/2 && own <= limit/8 {
		r.on = true
	}
	r.period = max(r.period, q.window)
}

// every returns the time in which one unit is renewed.
func (r *rolling) every(limit int64) time.Duration { return r.period / time.Duration(max(limit, 1)) }

// others is what has been seen of other processes that use up a limit which renews all at once.
// While they do, each process takes its share of what is left.
type others struct {
	suspected bool    // a request was denied though something was left, or before any was not
	seen      bool    // less was left than this process has left
	calm      int     // answers in a row that have shown none
	own       int64   // requests of this process in the window
	rivals    float64 // processes that would use as much as this one, it included
	before    float64 // in the window before, less a fifth
	window    time.Duration
}

// denied notes a denial: whether something was left, and whether no request was ever allowed.
func (o *others) denied(left, never bool, limit, flying int64) {
	o.suspected = o.suspected || left || never
	o.seen = o.seen || left
	o.calm = 0
	o.rivals = float64(limit) / float64(max(o.own+flying, 1))
}

// use notes that less is left than this process has left.
func (o *others) use() { o.seen, o.calm = o.suspected, 0 }

// rest notes that this process alone has used the limit.
func (o *others) rest() {
	if o.calm++; o.calm >= 3 {
		*o = others{own: o.own}
	}
}

// count notes an answer by which a part of a limit is left. anew says that it is the first of its
// window. Those that come first see none of the others, so what was seen in earlier windows counts,
// too.
func (o *others) count(q quota, anew bool) {
	if anew {
		o.own, o.before, o.window = 0, o.rivals*0.8, q.window
	}
	o.own++
	o.rivals = max(o.before, float64(q.limit-q.left)/float64(o.own))
}

// crowd reports whether others leave less than a few requests of a limit to this process.
func (o *others) crowd(limit int64) bool { return o.seen && o.rivals*few > float64(limit) }

// few is how many requests in a window are so few that each of them counts.
const few = 4

// spread returns the gap between two requests of this process in a crowd, if so much is left of a
// limit for a time. If its share is used, later is how long after the renewal the next one goes.
// Those that were denied go before it.
func (o *others) spread(until time.Duration, left int64) (gap, later time.Duration) {
	share := float64(left) / max(o.rivals, 1)
	if share < 1 {
		later = min(o.window/32, time.Second)
		later += rand.N(later+1) + 1
	}
	return time.Duration(float64(until) / (share + 1)), later
}

// empty reports whether nothing is left.
func (t *told) empty() bool { return t.known && t.left <= 0 }

// low is how much is left when WhenLow begins. Two are the least: a reset that is
// rounded up by seconds would leave a small token bucket full, and its refill lost.
func (t *told) low() int64 { return max(t.limit/10, 2) }

// deny notes that a denial holds requests back until an instant. Unless empty is set, requests go
// on after that as if nothing had been told.
func (t *told) deny(until instant, source string, empty bool) {
	t.doubt.denied()
	t.rolling.never, t.rolling.on = t.rolling.on, false
	if t.known = empty; empty {
		t.left, t.source, t.renew = 0, source, until
	}
}

// next returns when more is left; 0: something is.
func (t *told) next() instant {
	if t.empty() {
		return t.renew
	}
	return 0
}

// believe notes what an answer that is no denial says is left. Other buckets have strays
// under way that may count against this one.
func (b *bucket) believe(tk ticket, now instant, q quota, strays int) {
	t, f := &b.told, &b.flight
	b.opening.answered = true
	if q.date != 0 {
		q.window -= t.elapsed(q.date, now)
	}
	if tk.seq < f.epoch {
		return
	}
	if !t.counted {
		t.counted, b.learned = true, learned{}
	}
	b.backoff.strikes, b.opening.ramp = 0, 0
	t.least = min(t.least, q.left)
	if tk.seq < t.newest && q.left == 0 && t.empty() {
		// It was decided last, though sent earlier: answers to later requests still had something
		// left.
		t.renew, t.exact = max(t.renew, now+q.window), true
	}
	if tk.seq < t.newest && f.sent != f.answered {
		return
	}
	lowest := q.left - f.others(tk) - int64(strays)
	if f.sent == f.answered && strays == 0 {
		lowest = max(lowest, t.least) // the last one that was decided is among these
	}
	if t.known && q.left < t.left && strays == 0 {
		t.sharedUntil = now + max(2*q.window, time.Minute)
		t.others.use()
	} else if t.known && t.left > 0 {
		t.others.rest()
	}
	grown := int64(0)
	held := t.empty() && t.renew > now
	if t.known {
		grown = lowest - t.left
		b.refill.observe(now, q, grown, t)
		lowest = max(lowest, min(t.left, q.left))
	}
	if tk.seq < t.newest {
		t.left = max(t.left, lowest)
		b.spread(now)
		return
	}
	// An answer that has nothing left says exactly when there is more. Of those that have
	// something left for requests under way, the earliest says when.
	exact, renew := q.left == 0, now+max(q.window, 0)
	if !held || lowest > 0 || exact || !t.exact && renew < t.renew {
		t.renew, t.exact = renew, exact
	}
	t.newest, t.left, t.known, t.at = tk.seq, lowest, true, now
	t.window, t.source, t.reset = max(q.window, 0), q.source, q.reset
	if t.limit = max(t.limit, q.left); q.limit > 0 {
		t.limit = q.limit
	}
	t.rolling.observe(now, q, f.others(tk)+1, t.limit, &t.renewal, now < t.sharedUntil || t.others.suspected)
	t.others.count(q, t.renewal.observe(now, q, grown, t.limit))
	switch {
	case t.rolling.on && exact:
		t.renew = min(t.renew, now+2*t.rolling.every(t.limit))
	case t.alone(now) || exact && t.renewal.likely(t.limit):
		t.renew = t.renewal.ends
	}
	b.refill.promise.observe(now, tk, q, t)
	t.ending.observe(now, q, grown)
	b.spread(now)
	if tk.opened && b.queue.Size > 0 {
		b.release(now)
	}
}

// elapsed returns how much of its second had passed, at least, when a server wrote date.
// Other answers have shown by how much its clock leads at least.
func (t *told) elapsed(date int64, now instant) time.Duration {
	const most = 1 << 33 // in the year 2242
	lead := time.Duration(min(max(date, -most), most))*time.Second - now
	if lead > t.lead || lead < t.lead-2*time.Second { // the clock has been set
		t.lead = lead
	}
	return min(t.lead-lead, time.Second)
}

// renewal is what has been seen of a limit that renews all at once. All answers of such a window
// tell the same reset, as far as whole seconds can. Where a reset moves, or a part is
// renewed before, the limit is another one.
type renewal struct {
	proven bool    // the window before this one was one
	moved  bool    // this window is not one
	ends   instant // the earliest that was told
	most   int64   // left at most
	least  int64
	late   time.Duration // of ends, at most; 0 if it is an instant: those that are spread find the renewal sooner
}

// A told reset may be late by so much: whole seconds, and the time that an answer takes. If it is
// an instant, Date is of whole seconds, too.
const (
	looseReset   = 1250 * time.Millisecond
	loosestReset = 2250 * time.Millisecond
)

// observe notes a new answer, by which grown units were renewed. It reports whether that is the
// first of a window.
func (w *renewal) observe(now instant, q quota, grown, limit int64) (anew bool) {
	loose, late := looseReset, looseReset
	if q.date != 0 {
		loose, late = loosestReset, 0
	}
	told := now + q.window
	switch {
	case now >= w.ends:
		proven := w.likely(limit)
		*w = renewal{proven: proven, moved: q.window < 2*loose, ends: told, most: q.left, least: q.left, late: late}
		return true
	case grown > 0, told > w.ends+loose, told < w.ends-loose:
		w.proven, w.moved, w.ends = false, true, max(w.ends, told)
	default:
		w.ends, w.most, w.least = min(w.ends, told), max(w.most, q.left), min(w.least, q.left)
	}
	return false
}

// likely reports whether half of the limit was used while the reset did not move.
func (w *renewal) likely(limit int64) bool {
	return w.ends > 0 && !w.moved && w.most-w.least >= max(limit/2, 2)
}

// crowded reports whether many other processes use up a limit that renews all at once, while few
// requests of this one wait: a process with many has to claim more.
func (t *told) crowded(waiting int) bool {
	return !t.renewal.moved && t.others.crowd(t.limit) && waiting < few
}

// alone reports whether the limit renews all at once and no other client uses it. Then nothing is
// gained by sending later what is left.
func (t *told) alone(now instant) bool { return t.renewal.proven && now >= t.sharedUntil }
