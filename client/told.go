package client

import "time"

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
}

// empty reports whether nothing is left.
func (t *told) empty() bool { return t.known && t.left <= 0 }

// low is how much is left when WhenLow begins. Two are the least: a reset that is
// rounded up by seconds would leave a small token bucket full, and its refill lost.
func (t *told) low() int64 { return max(t.limit/10, 2) }

// deny notes that a denial holds requests back until an instant. Unless empty is set, requests go on after that as if
// nothing had been told.
func (t *told) deny(until instant, source string, empty bool) {
	t.doubt.denied()
	if t.known = empty; empty {
		t.left, t.source, t.renew = 0, source, until
	}
}

// asTold returns when a request may go by what answers say, and what says so, if they hold it back.
func (b *bucket) asTold(p *pacer, now instant) (at instant, source string, ok bool) {
	switch t := &b.told; {
	case t.empty():
		return t.renew, t.source, true
	case b.spreads(p, now):
		return b.refill.next(b.flight.last), t.source, true
	case now < b.refill.releaseUntil:
		return b.flight.last + b.refill.releaseGap, t.source, false
	}
	return now, "", false
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
	b.backoff.strikes, b.opening.ramp = 0, 0
	if !t.counted {
		t.counted, b.learned = true, learned{}
	}
	t.least = min(t.least, q.left)
	if tk.seq < t.newest && q.left == 0 && t.empty() {
		// It was decided last, though sent earlier: answers to later requests still had something left.
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
	t.renewal.observe(now, q, grown, t.limit)
	if t.alone(now) || exact && t.renewal.likely(t.limit) {
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
// renewed before, the limit is none of these.
type renewal struct {
	proven bool    // the window before this one was one
	moved  bool    // this one is none
	ends   instant // the earliest that was told
	most   int64   // left at most
	least  int64
	late   time.Duration // of ends, at most; 0 if it is an instant: those that are spread find the renewal sooner
}

// A told reset may be late by so much: whole seconds, and the time that an answer takes. If it is an
// instant, Date is of whole seconds, too.
const (
	looseReset   = 1250 * time.Millisecond
	loosestReset = 2250 * time.Millisecond
)

// observe notes a new answer, by which grown units were renewed.
func (w *renewal) observe(now instant, q quota, grown, limit int64) {
	loose, late := looseReset, looseReset
	if q.date != 0 {
		loose, late = loosestReset, 0
	}
	told := now + q.window
	switch {
	case now >= w.ends:
		proven := w.likely(limit)
		*w = renewal{proven: proven, moved: q.window < 2*loose, ends: told, most: q.left, least: q.left, late: late}
	case grown > 0, told > w.ends+loose, told < w.ends-loose:
		w.proven, w.moved, w.ends = false, true, max(w.ends, told)
	default:
		w.ends, w.most, w.least = min(w.ends, told), max(w.most, q.left), min(w.least, q.left)
	}
}

// likely reports whether half of the limit was used while the reset did not move.
func (w *renewal) likely(limit int64) bool {
	return w.ends > 0 && !w.moved && w.most-w.least >= max(limit/2, 2)
}

// alone reports whether the limit renews all at once and no other client uses it. Then nothing is
// gained by sending later what is left.
func (t *told) alone(now instant) bool { return t.renewal.proven && now >= t.sharedUntil }
