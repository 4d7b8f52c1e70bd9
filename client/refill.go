package client

import "time"

// refill is what has been seen of how a limit refills before the reset that was told. A reset
// says when everything is renewed. Windows renew nothing before; buckets and
// sliding windows renew a part all the time, and to spread what is left over the time until
// the reset would leave most of that unused. Requests may be faster then, as what is left never
// sinks: what is sent is left in any case.
type refill struct {
	at    instant       // of the last answer
	every time.Duration // for one unit; 0: nothing has been seen
	grown int64         // units since every was found
	over  time.Duration
}

// resetError is by how much a told reset may be later than the real one: an instant of whole
// seconds, against a Date of whole seconds, and the second that is added.
const resetError = 3 * time.Second

// watchRefill notes what is left by a new answer, lowest at least.
func (b *bucket) watchRefill(now instant, q quota, lowest int64) {
	f := &b.refill
	elapsed := now - f.at
	f.at = now
	if !q.reset || b.renew-now < resetError {
		f.grown, f.over = 0, 0
		return
	}
	grown := lowest - b.left
	f.over += elapsed
	if grown <= 0 {
		return
	}
	if b.left <= b.low() {
		b.followUntil = now + q.window
	}
	if f.grown += grown; f.grown >= 4 {
		f.every, f.grown, f.over = max(f.over/time.Duration(f.grown), 1), 0, 0
	}
}

// setGap spreads what is left over the time until it is renewed: t/(r+1). In what is likely a
// window that time ends earlier: nothing is left of it at its end. If a refill has
// been seen, requests follow it. They use up what is above a reserve within a thirty-second
// of that time, and are slower than the refill if less than the reserve is left.
func (b *bucket) setGap(now instant) {
	until := max(b.renew-now, 0)
	if now >= b.sharedUntil && b.renewal.likely(b.limit) {
		until = max(until-b.renewal.late, 0)
	}
	b.gap = until / time.Duration(max(b.left, 0)+1)
	f := &b.refill
	if !b.reset || f.every == 0 || b.left < 2 {
		return
	}
	reserve := max(b.limit/50, 3)
	every := max(f.every, f.over/time.Duration(f.grown+1))
	if surplus := b.left - reserve; surplus >= 0 {
		drain := max(until/32/time.Duration(surplus+1), 1)
		b.gap = min(b.gap, time.Duration(float64(every)*float64(drain)/float64(every+drain)))
		return
	}
	slow := float64(every) * float64(reserve+1) / float64(b.left+1) // beyond an int64 where the limit is huge
	b.gap = time.Duration(min(float64(b.gap), slow))
}

// elapsed returns how much of its second had passed, at least, when a server wrote date.
// Other answers have shown by how much its clock leads at least.
func (b *bucket) elapsed(date int64, now instant) time.Duration {
	const most = 1 << 33 // in the year 2242
	lead := time.Duration(min(max(date, -most), most))*time.Second - now
	if lead > b.lead || lead < b.lead-2*time.Second { // the clock has been set
		b.lead = lead
	}
	return min(b.lead-lead, time.Second)
}

// promise is what a told reset says about the future: at that instant all of the limit is
// left but what was sent after the answer that told it. Later answers tell later resets, of
// what was sent later.
type promise struct {
	at       instant // 0: none
	answered uint64  // of the ticket
}

// watchReset keeps the promise of an answer, until it is fulfilled.
func (b *bucket) watchReset(tk ticket, now instant, q quota) {
	if p := &b.promise; p.at <= now && q.reset && q.limit > 0 && b.left <= b.low() {
		*p = promise{now + b.window, tk.answered}
	}
}

// fulfil counts what a reset has renewed.
func (b *bucket) fulfil(now instant) {
	p := &b.promise
	if p.at == 0 || now < p.at {
		return
	}
	left := b.limit - int64(b.sent-p.answered-1)
	if p.at = 0; b.limited && b.left > 0 && left > b.left {
		b.left = left
		b.setGap(now)
	}
}
