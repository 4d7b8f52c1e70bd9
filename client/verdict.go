package client

import (
	"math"
	"math/rand/v2"
	"time"
)

// deny holds the bucket back after a denial, for wait or, if that is not positive, for a
// backoff. It returns the wait and what asked for it.
func (b *bucket) deny(tk ticket, now instant, wait time.Duration, source string) (time.Duration, string) {
	if wait <= 0 {
		// Requests that were sent together and are denied together are one strike.
		if tk.at > b.denied || b.strikes == 0 {
			b.strikes++
		}
		wait, source = time.Second<<min(b.strikes-1, 12), sourceBackoff
		wait += rand.N(wait / 2)
	} else {
		wait += rand.N(min(wait/16, time.Second) + 1)
	}
	if until := now + wait; until > b.block {
		b.block, b.blockSource, b.lastWait = until, source, wait
	}
	b.denied, b.known, b.probing, b.rampUntil = now, true, false, 0
	b.doubt.denied()
	b.limited, b.left, b.source = true, 0, source
	b.renew, b.epoch = b.block, b.sent+1
	return b.block - now, b.blockSource
}

// allow notes an answer that is no denial and says nothing of what is left.
func (b *bucket) allow(tk ticket, now instant) {
	b.known = true
	if tk.seq >= b.epoch {
		b.strikes = 0
	}
	b.least = math.MinInt64
	if !b.limited || now < b.renew || tk.seq < b.epoch {
		return
	}
	b.limited = false
	if b.learned.every > 0 {
		return
	}
	if tk.opened && b.queue.Size > 0 && b.lastWait > 0 {
		// Nothing says how fast the others may follow. They are spread over as long a
		// time as they have waited.
		over := min(max(b.lastWait, time.Second), time.Minute)
		b.gap, b.spreadUntil = over/time.Duration(b.queue.Size+1), now+over
	}
}

// believe notes what an answer that is no denial says is left. Other buckets have strays
// under way that may count against this one.
func (b *bucket) believe(tk ticket, now instant, q quota, strays int) {
	b.known = true
	if q.date != 0 {
		q.window -= b.elapsed(q.date, now)
	}
	if tk.seq < b.epoch {
		return
	}
	b.strikes, b.rampUntil = 0, 0
	if !b.counted {
		b.counted, b.learned = true, learned{}
	}
	b.least = min(b.least, q.left)
	if tk.seq < b.newest && q.left == 0 && b.limited && b.left <= 0 {
		// It was decided last, though sent earlier: answers to later requests still had something left.
		b.renew, b.exact = max(b.renew, now+q.window), true
	}
	if tk.seq < b.newest && b.sent != b.answered {
		return
	}
	others := int64(b.sent-tk.answered-1) + int64(strays) // that may have been decided after this one
	lowest := q.left - others
	if b.sent == b.answered && strays == 0 {
		lowest = max(lowest, b.least) // the last one that was decided is among these
	}
	if b.limited && q.left < b.left && strays == 0 {
		b.sharedUntil = now + max(2*q.window, time.Minute)
	}
	grown := int64(0)
	if b.limited {
		grown = lowest - b.left
	}
	held := b.limited && b.left <= 0 && b.renew > now
	if b.limited {
		b.watchRefill(now, q, lowest)
		lowest = max(lowest, min(b.left, q.left))
	}
	if tk.seq < b.newest {
		b.left = max(b.left, lowest)
		b.setGap(now)
		return
	}
	b.newest, b.left, b.limited, b.toldAt = tk.seq, lowest, true, now
	b.window, b.source, b.reset = max(q.window, 0), q.source, q.reset
	if q.limit > 0 {
		b.limit = q.limit
	} else {
		b.limit = max(b.limit, q.left)
	}
	// An answer that has nothing left says exactly when there is more. Of those that have
	// something left for requests under way, the earliest says when.
	exact := q.left == 0
	if renew := now + b.window; !held || b.left > 0 || exact || !b.exact && renew < b.renew {
		b.renew, b.exact = renew, exact
	}
	b.watchRenewal(now, q, grown)
	if b.alone(now) || q.left == 0 && b.renewal.likely(b.limit) {
		b.renew = b.renewal.ends
	}
	b.watchReset(tk, now, q)
	b.watchEnding(now, q, grown)
	b.setGap(now)
	if tk.opened && b.queue.Size > 0 {
		b.open(now)
	}
}
