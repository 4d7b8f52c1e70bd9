package client

import (
	"math"
	"math/rand/v2"
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
	exact       bool          // renew was told by a denial, or an answer that had nothing left
	at          instant       // when the fields above were told
	newest      uint64        // the latest request whose answer counts
	least       int64         // the least that answers told since the bucket was last idle
	counted     bool          // an answer has told what is left
	sharedUntil instant       // until then other clients seem to use the limit
	lead        time.Duration // at least, of the server's clock, as Unix time, over ours
	refill      refill
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
		t.left, t.source, t.renew, t.exact = 0, source, until, true
	}
}

// next returns when a request may start, as far as answers tell, if it is the next of f's bucket and
// others wait.
func (t *told) next(f *flight, waiting int, o *Options, now instant) instant {
	r, last := &t.refill, f.last
	switch {
	case t.empty():
		return t.renew
	case !t.spreads(waiting, o, now):
		if now < r.releaseUntil {
			return last + r.releaseGap
		}
		return 0
	case r.shareAgain > last:
		return r.shareAgain
	case r.promise.at > 0:
		return min(last+r.gap, r.promise.at)
	}
	return last + r.gap
}

// spreads reports whether requests start a gap apart.
func (t *told) spreads(waiting int, o *Options, now instant) bool {
	return now < t.refill.spreadUntil ||
		t.known && (o.Pace == Evenly || t.crowded(waiting) ||
			t.left <= t.low() && !t.alone(now) && t.trustsReset(o.MaxWait))
}

// trustsReset reports whether the rest is spread until the told end. An end that moves is trusted
// only if a refill was seen, or if it is so close that it holds nothing back for long.
func (t *told) trustsReset(maxWait time.Duration) bool {
	return !t.ending.moves || t.window <= 2*maxWait || t.refill.every > 0
}

// claimed returns how long requests of f's bucket are told to wait, if that ends at an instant, and
// whether this says that nothing is left.
func (t *told) claimed(at instant, f *flight) (wait time.Duration, nothingLeft bool) {
	return at - max(f.last, t.at), t.empty()
}

// start notes that a request is sent that was not told to wait. waiting is how many others wait.
func (t *told) start(waiting int, now instant) {
	if t.left--; t.left == t.low() {
		t.spread(waiting, now)
	}
}

// observe learns what an allowed answer tells. f are the requests of the bucket, and waiting how
// many others wait. strays is how many requests in other buckets may count against this one.
func (t *told) observe(
	tk ticket, now instant, q *quota.Rest, f *flight, waiting, strays int) {
	t.counted = true
	t.least = min(t.least, q.Left)
	if tk.seq < t.newest && q.Left == 0 && t.empty() {
		// The server decided it last, though it was sent earlier: answers to later requests had
		// something left.
		t.renew, t.exact = max(t.renew, now+q.Window), true
	}
	if tk.seq < t.newest && f.flying() > 0 {
		return
	}
	others := f.overlapping(tk)
	lowest := q.Left - others - int64(strays)
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
		t.refill.observe(now, q, grown, t)
		lowest = max(lowest, min(t.left, q.Left))
	}
	if tk.seq < t.newest {
		t.left = max(t.left, lowest)
		t.spread(waiting, now)
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
	t.rolling.observe(now, q, others+1, t.limit, &t.renewal, shared)
	t.others.observe(q, t.renewal.observe(now, q, grown, t.limit))
	t.ending.observe(now, q, grown)
	switch {
	case t.rolling.on && exact:
		t.renew = min(t.renew, now+2*t.rolling.every(t.limit))
	case t.alone(now) || exact && t.renewal.likely(t.limit):
		t.renew = t.renewal.ends
	}
	t.refill.promise.observe(now, tk, q, t)
	t.spread(waiting, now)
	if tk.probes && waiting > 0 {
		t.release(waiting, now)
	}
}

// spread computes the gap. r requests that have to last for t start t/(r+1) apart:
//
//	2 left for 30 s: after 10 s and after 20 s; at 30 s the limit renews
//
// In a likely window the time ends earlier by its rounding: what is left at its end is lost. If a
// refill was seen, requests follow it. They use up what exceeds a reserve of a fiftieth of the
// limit, 3 at least, within a thirty-second of the time. They are slower than the refill below the
// reserve.
func (t *told) spread(waiting int, now instant) {
	f := &t.refill
	until := max(t.renew-now, 0)
	if now >= t.sharedUntil && t.renewal.likely(t.limit) {
		until = max(until-t.renewal.late, 0)
	}
	f.gap, f.shareAgain = until/time.Duration(max(t.left, 0)+1), 0
	if t.rolling.on {
		f.gap = min(f.gap, t.rolling.every(t.limit)*21/20)
		return
	}
	if t.crowded(waiting) {
		gap, later := t.others.share(until, t.left)
		if f.gap = gap; later > 0 {
			f.shareAgain = t.renew + later
		}
		return
	}
	if !t.whole || f.every == 0 || t.left < 2 {
		return
	}
	reserve := max(t.limit/50, 3)
	every := max(f.every, f.over/time.Duration(f.grown+1))
	if surplus := t.left - reserve; surplus >= 0 {
		drain := max(until/32/time.Duration(surplus+1), 1)
		f.gap = min(f.gap, time.Duration(float64(every)*float64(drain)/float64(every+drain)))
		return
	}
	slow := float64(every) * float64(reserve+1) / float64(t.left+1) // may exceed an int64
	f.gap = time.Duration(min(float64(f.gap), slow))
}

// release starts the requests that have waited for a limit to renew: as many as fit, with a little
// jitter. It spreads them if others may use the limit, or it does not renew all at once.
func (t *told) release(waiting int, now instant) {
	f := &t.refill
	if !t.alone(now) {
		f.spreadUntil = now + t.window
		return
	}
	over := min(t.window/32, time.Second)
	gap := over / time.Duration(2*min(int64(waiting), max(t.left, 0))+2)
	f.releaseUntil, f.releaseGap = now+over, gap+rand.N(gap+1)
}

// advance adds what a promise has renewed by now.
func (t *told) advance(f *flight, waiting int, now instant) {
	p := &t.refill.promise
	if p.at == 0 || now < p.at {
		return
	}
	left := t.limit - f.overlapping(ticket{answered: p.answered})
	if p.at = 0; t.known && t.left > 0 && left > t.left {
		t.left = left
		t.spread(waiting, now)
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

// short reports whether all resets of a limit are too close to tell a renewal from a refill, though
// half of it is used. Then following what is renewed is right in both cases. The reserve is too
// large a part of small limits for that.
func (t *told) short() bool {
	return t.rolling.period < resetError && t.left <= t.limit/2 && t.limit >= 20
}

// refill spreads requests over what is left, and measures how a limit refills before the told
// reset. A reset tells when everything is renewed. A window renews nothing before that; a bucket or
// a sliding window renews a part all the time. Spreading the rest until the reset would waste most
// of that part. So requests follow the refill, at a rate at which the rest never shrinks:
//
//	limit 60 a minute; 4 units were renewed in 4 s: a unit each second, so requests go each second
type refill struct {
	at    instant       // of the last answer
	every time.Duration // for one unit; 0: no refill was seen
	grown int64         // units since every was measured
	over  time.Duration // in which they were renewed

	gap          time.Duration // between two requests that are spread
	shareAgain   instant       // nothing starts before: the share of this process is used up
	spreadUntil  instant       // requests that waited for a limit are spread, as long as some wait
	promise      promise
	releaseUntil instant // requests that waited for a renewal start one after the other
	releaseGap   time.Duration
}

// resetError is by how much a told reset may be late: an instant in whole seconds, compared with a
// Date in whole seconds, and the second that is added.
const resetError = 3 * time.Second

// observe learns from an answer. grown units were renewed since the one before.
func (f *refill) observe(now instant, q *quota.Rest, grown int64, t *told) {
	elapsed := now - f.at
	f.at = now
	if !q.Whole || t.renew-now < resetError && !t.short() {
		f.grown, f.over = 0, 0
		return
	}
	f.over += elapsed
	if grown <= 0 {
		return
	}
	if f.grown += grown; f.grown >= 4 {
		f.every, f.grown, f.over = max(f.over/time.Duration(f.grown), 1), 0, 0
	}
}

// promise is what a told reset promises: at that instant all of the limit is left, minus what was
// sent after the answer. Later answers tell later resets, of what was sent later.
type promise struct {
	at       instant // 0: no promise
	answered uint64  // of the ticket
}

// observe keeps the promise of an answer until its instant.
func (p *promise) observe(now instant, tk ticket, q *quota.Rest, t *told) {
	if p.at <= now && q.Whole && q.Limit > 0 && t.left <= t.low() {
		*p = promise{now + t.window, tk.answered}
	}
}
