package client

import (
	"math/rand/v2"
	"time"
)

// refill is how requests are spread over what is left, and what has been seen of how a limit
// refills before the reset that was told. A reset says when everything is renewed. Windows renew
// nothing before; buckets and sliding windows renew a part all the time, and to spread what is left
// over the time until the reset would leave most of that unused. Requests may be faster then, as
// what is left never sinks: what is sent is left in any case.
type refill struct {
	at    instant       // of the last answer
	every time.Duration // for one unit; 0: nothing has been seen
	grown int64         // units since every was found
	over  time.Duration

	turn         instant       // nothing goes before: the share of this process in a window is used
	gap          time.Duration // between two requests that are spread
	followUntil  instant       // requests follow a refill
	spreadUntil  instant       // those that have waited for a limit are spread, as long as some wait
	promise      promise
	releaseUntil instant // those that have waited for a renewal go one after the other
	releaseGap   time.Duration
}

// resetError is by how much a told reset may be later than the real one: an instant of whole
// seconds, against a Date of whole seconds, and the second that is added.
const resetError = 3 * time.Second

// short reports whether all resets of a limit are too close to tell a renewal from a refill, though half of
// it is used. Then to follow what is renewed is right in any case. Of small limits the reserve is too
// large a part for that.
func (t *told) short() bool {
	return t.rolling.period < resetError && t.left <= t.limit/2 && t.limit >= 20
}

// observe notes what an answer says is left, by which grown units were renewed since the last.
func (f *refill) observe(now instant, q quota, grown int64, t *told) {
	elapsed := now - f.at
	f.at = now
	if !q.reset || t.renew-now < resetError && !t.short() {
		f.grown, f.over = 0, 0
		return
	}
	f.over += elapsed
	if grown <= 0 {
		return
	}
	if t.left <= t.low() {
		f.followUntil = now + q.window
	}
	if f.grown += grown; f.grown >= 4 {
		f.every, f.grown, f.over = max(f.over/time.Duration(f.grown), 1), 0, 0
	}
}

// next returns when the next request goes, if requests are spread over what is left.
func (f *refill) next(b *bucket, p *pacer, now instant) instant {
	last := b.flight.last
	switch {
	case b.told.empty():
		return 0
	case !b.spreads(p, now):
		if now < f.releaseUntil {
			return last + f.releaseGap
		}
		return 0
	case f.turn > last:
		return f.turn
	case f.promise.at > 0:
		return min(last+f.gap, f.promise.at)
	}
	return last + f.gap
}

// spreads reports whether requests start at least a gap apart.
func (b *bucket) spreads(p *pacer, now instant) bool {
	t := &b.told
	return now < b.refill.spreadUntil || now < b.refill.followUntil ||
		t.known && (p.pace == Evenly || t.crowded(b.queue.Size) ||
			t.left <= t.low() && !t.alone(now) && b.paces(p.maxWait))
}

// spread sets the gap, so that what is left lasts until it is renewed: t/(r+1). In what is likely a
// window that time ends earlier: nothing is left of it at its end. If a refill has
// been seen, requests follow it. They use up what is above a reserve within a thirty-second
// of that time, and are slower than the refill if less than the reserve is left.
func (b *bucket) spread(now instant) {
	t, f := &b.told, &b.refill
	until := max(t.renew-now, 0)
	if now >= t.sharedUntil && t.renewal.likely(t.limit) {
		until = max(until-t.renewal.late, 0)
	}
	f.gap, f.turn = until/time.Duration(max(t.left, 0)+1), 0
	if t.rolling.on {
		f.gap = min(f.gap, t.rolling.every(t.limit)*21/20)
		return
	}
	if t.crowded(b.queue.Size) {
		f.gap, f.turn = t.others.spread(until, t.left)
		if f.turn > 0 {
			f.turn += t.renew
		}
		return
	}
	if !t.reset || f.every == 0 || t.left < 2 {
		return
	}
	reserve := max(t.limit/50, 3)
	every := max(f.every, f.over/time.Duration(f.grown+1))
	if surplus := t.left - reserve; surplus >= 0 {
		drain := max(until/32/time.Duration(surplus+1), 1)
		f.gap = min(f.gap, time.Duration(float64(every)*float64(drain)/float64(every+drain)))
		return
	}
	slow := float64(every) * float64(reserve+1) / float64(t.left+1) // beyond an int64 where the limit is huge
	f.gap = time.Duration(min(float64(f.gap), slow))
}

// release lets those go that have waited for a limit to renew: all that fit, with a little
// jitter, or spread if others may use the limit or it does not renew all at once.
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

// promise is what a told reset says about the future: at that instant all of the limit is
// left but what was sent after the answer that told it. Later answers tell later resets, of
// what was sent later.
type promise struct {
	at       instant // 0: none
	answered uint64  // of the ticket
}

// observe keeps the promise of an answer, until it is fulfilled.
func (p *promise) observe(now instant, tk ticket, q quota, t *told) {
	if p.at <= now && q.reset && q.limit > 0 && t.left <= t.low() {
		*p = promise{now + t.window, tk.answered}
	}
}

// advance counts what a reset has renewed by now.
func (b *bucket) advance(now instant) {
	p := &b.refill.promise
	if p.at == 0 || now < p.at {
		return
	}
	left := b.told.limit - b.flight.others(ticket{answered: p.answered})
	if p.at = 0; b.told.known && b.told.left > 0 && left > b.told.left {
		b.told.left = left
		b.spread(now)
	}
}
