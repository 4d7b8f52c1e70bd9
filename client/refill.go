package client

import (
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

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

// short reports whether all resets of a limit are too close to tell a renewal from a refill, though
// half of it is used. Then following what is renewed is right in both cases. The reserve is too
// large a part of small limits for that.
func (t *told) short() bool {
	return t.rolling.period < resetError && t.left <= t.limit/2 && t.limit >= 20
}

// observe learns from an answer. grown units were renewed since the one before.
func (f *refill) observe(now instant, q quota.Rest, grown int64, t *told) {
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

// next returns when the next request starts, if requests are spread.
func (f *refill) next(b *bucket, o *Options, now instant) instant {
	last := b.flight.last
	switch {
	case b.told.empty():
		return 0
	case !b.spreads(o, now):
		if now < f.releaseUntil {
			return last + f.releaseGap
		}
		return 0
	case f.shareAgain > last:
		return f.shareAgain
	case f.promise.at > 0:
		return min(last+f.gap, f.promise.at)
	}
	return last + f.gap
}

// spreads reports whether requests start a gap apart.
func (b *bucket) spreads(o *Options, now instant) bool {
	t := &b.told
	return now < b.refill.spreadUntil ||
		t.known && (o.Pace == Evenly || t.crowded(b.queue.Size) ||
			t.left <= t.low() && !t.alone(now) && b.trustsReset(o.MaxWait))
}

// spread computes the gap. r requests that have to last for t start t/(r+1) apart:
//
//	2 left for 30 s: after 10 s and after 20 s; at 30 s the limit renews
//
// In a likely window the time ends earlier by its rounding: what is left at its end is lost. If a
// refill was seen, requests follow it. They use up what exceeds a reserve of a fiftieth of the
// limit, 3 at least, within a thirty-second of the time. They are slower than the refill below the
// reserve.
func (b *bucket) spread(now instant) {
	t, f := &b.told, &b.refill
	until := max(t.renew-now, 0)
	if now >= t.sharedUntil && t.renewal.likely(t.limit) {
		until = max(until-t.renewal.late, 0)
	}
	f.gap, f.shareAgain = until/time.Duration(max(t.left, 0)+1), 0
	if t.rolling.on {
		f.gap = min(f.gap, t.rolling.every(t.limit)*21/20)
		return
	}
	if t.crowded(b.queue.Size) {
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
func (b *bucket) release(now instant) {
	t, f := &b.told, &b.refill
	if !t.alone(now) {
		f.spreadUntil = now + t.window
		return
	}
	over := min(t.window/32, time.Second)
	gap := over / time.Duration(2*min(int64(b.queue.Size), max(t.left, 0))+2)
	f.releaseUntil, f.releaseGap = now+over, gap+rand.N(gap+1)
}

// promise is what a told reset promises: at that instant all of the limit is left, minus what was
// sent after the answer. Later answers tell later resets, of what was sent later.
type promise struct {
	at       instant // 0: no promise
	answered uint64  // of the ticket
}

// observe keeps the promise of an answer until its instant.
func (p *promise) observe(now instant, tk ticket, q quota.Rest, t *told) {
	if p.at <= now && q.Whole && q.Limit > 0 && t.left <= t.low() {
		*p = promise{now + t.window, tk.answered}
	}
}

// advance adds what a promise has renewed by now.
func (b *bucket) advance(now instant) {
	p := &b.refill.promise
	if p.at == 0 || now < p.at {
		return
	}
	left := b.told.limit - b.flight.overlapping(ticket{answered: p.answered})
	if p.at = 0; b.told.known && b.told.left > 0 && left > b.told.left {
		b.told.left = left
		b.spread(now)
	}
}
