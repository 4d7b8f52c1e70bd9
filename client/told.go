package client

import (
	"math"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// told is the rest of a limit, as answers tell it.
//
// left is a lower bound, as long as no other client uses the limit. An answer tells what was left
// when the server decided it. Every other request that the server may have decided since then is
// subtracted:
//
//	an answer tells that 60 are left; 5 other requests were in flight meanwhile: left is 55
type told struct {
	known       bool // the fields below are valid
	left, limit int64
	source      string
	window      time.Duration
	whole       bool          // all of the limit is renewed at renew
	renew       instant       // when more may be sent though nothing is left
	exact       bool          // renew was told by an answer that had nothing left
	at          instant       // when the fields above were told
	newest      uint64        // the latest request whose answer counts
	least       int64         // the least that answers told since the bucket was last idle
	counted     bool          // an answer has told what is left
	sharedUntil instant       // until then other clients seem to use the limit
	lead        time.Duration // at least, of the server's clock, as Unix time, over ours
	doubt       doubt
	ending      ending
	renewal     renewal
	others      others
	rolling     rolling
}

// empty reports whether nothing is left.
func (t *told) empty() bool { return t.known && t.left <= 0 }

// low is how much is left when WhenLow begins to spread: a tenth, and two at least. With less, a
// reset that is rounded up by seconds would leave a small token bucket full, and its refill lost.
func (t *told) low() int64 { return max(t.limit/10, 2) }

// forgetLeast begins least anew: the bucket was idle.
func (t *told) forgetLeast() { t.least = math.MaxInt64 }

// spoilLeast makes least useless until the bucket is idle again: an answer that tells no number may
// have been decided last.
func (t *told) spoilLeast() { t.least = math.MinInt64 }

// deny notes that a denial holds requests back until an instant. Then one goes first, or all go on
// as if nothing had been told.
func (t *told) deny(until instant, source string, oneGoesFirst bool) {
	t.doubt.deny()
	t.rolling.never, t.rolling.on = t.rolling.on, false
	if t.known = oneGoesFirst; oneGoesFirst {
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

// believe learns from what an allowed answer tells. strays is how many requests in other buckets
// may count against this one.
func (b *bucket) believe(tk ticket, now instant, q quota.Rest, strays int) {
	t, f := &b.told, &b.flight
	b.opening.answered = true
	if q.Date != 0 {
		q.Window -= t.elapsed(q.Date, now)
	}
	if f.outdated(tk.seq) {
		return
	}
	if !t.counted {
		t.counted, b.learned = true, learned{}
	}
	b.backoff.strikes, b.opening.ramp = 0, 0
	t.least = min(t.least, q.Left)
	if tk.seq < t.newest && q.Left == 0 && t.empty() {
		// The server decided it last, though it was sent earlier: answers to later requests had
		// something left.
		t.renew, t.exact = max(t.renew, now+q.Window), true
	}
	if tk.seq < t.newest && f.flying() > 0 {
		return
	}
	lowest := q.Left - f.overlapping(tk) - int64(strays)
	if f.flying() == 0 && strays == 0 {
		lowest = max(lowest, t.least) // one of these answers was decided last
	}
	if t.known && q.Left < t.left && strays == 0 {
		t.sharedUntil = now + max(2*q.Window, time.Minute)
		t.others.see()
	} else if t.known && t.left > 0 {
		t.others.miss()
	}
	grown := int64(0)
	held := t.empty() && t.renew > now
	if t.known {
		grown = lowest - t.left
		b.refill.observe(now, q, grown, t)
		lowest = max(lowest, min(t.left, q.Left))
	}
	if tk.seq < t.newest {
		t.left = max(t.left, lowest)
		b.spread(now)
		return
	}
	// An answer with nothing left tells exactly when there is more. Answers with something left for
	// requests in flight tell the earliest instant.
	exact, renew := q.Left == 0, now+max(q.Window, 0)
	if !held || lowest > 0 || exact || !t.exact && renew < t.renew {
		t.renew, t.exact = renew, exact
	}
	t.newest, t.left, t.known, t.at = tk.seq, lowest, true, now
	t.window, t.source, t.whole = max(q.Window, 0), q.Source, q.Whole
	if t.limit = max(t.limit, q.Left); q.Limit > 0 {
		t.limit = q.Limit
	}
	shared := now < t.sharedUntil || t.others.suspected
	t.rolling.observe(now, q, f.overlapping(tk)+1, t.limit, &t.renewal, shared)
	t.others.observe(q, t.renewal.observe(now, q, grown, t.limit))
	switch {
	case t.rolling.on && exact:
		t.renew = min(t.renew, now+2*t.rolling.every(t.limit))
	case t.alone(now) || exact && t.renewal.likely(t.limit):
		t.renew = t.renewal.ends
	}
	b.refill.promise.observe(now, tk, q, t)
	t.ending.observe(now, q, grown)
	b.spread(now)
	if tk.probes && b.queue.Size > 0 {
		b.release(now)
	}
}

// elapsed returns how much of its second had passed, at least, when a server wrote date. Other
// answers have shown by how much its clock leads, at least.
//
//	12:00:00 arrived at 5.0 s of ours, and 12:00:10 arrives at 15.7 s: 0.7 s of 12:00:10 had passed
func (t *told) elapsed(date int64, now instant) time.Duration {
	const most = 1 << 33 // the year 2242
	lead := time.Duration(min(max(date, -most), most))*time.Second - now
	if lead > t.lead || lead < t.lead-2*time.Second { // or the clock was set
		t.lead = lead
	}
	return min(t.lead-lead, time.Second)
}

// crowded reports whether many other processes use up a limit that renews all at once, while few
// requests of this one wait. A process with many waiting requests has to claim more.
func (t *told) crowded(waiting int) bool {
	return !t.renewal.moved && t.others.crowd(t.limit) && waiting < few
}

// alone reports whether the limit renews all at once and no other client uses it. Then a delay
// gains nothing.
func (t *told) alone(now instant) bool { return t.renewal.proven && now >= t.sharedUntil }
