package client

import (
	"math/rand/v2"
	"time"
)

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

// watchRenewal notes a new answer, by which grown units were renewed.
func (b *bucket) watchRenewal(now instant, q quota, grown int64) {
	w := &b.renewal
	loose, late := looseReset, looseReset
	if q.date != 0 {
		loose, late = loosestReset, 0
	}
	told := now + q.window
	switch {
	case now >= w.ends:
		proven := w.likely(b.limit)
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

// alone reports whether the limit renews all at once and nobody else uses it. Then nothing is
// gained by sending later what is left.
func (b *bucket) alone(now instant) bool { return b.renewal.proven && now >= b.sharedUntil }

// release is how requests go that have waited for a limit to renew.
type release struct {
	until instant
	gap   time.Duration
}

// open lets those go that have waited for a limit to renew: all that fit, with a little
// jitter, or spread if others may use the limit or it does not renew all at once.
func (b *bucket) open(now instant) {
	if !b.alone(now) {
		b.spreadUntil = now + b.window
		return
	}
	over := min(b.window/32, time.Second)
	gap := over / time.Duration(2*min(int64(b.queue.Size), max(b.left, 0))+2)
	b.release = release{now + over, gap + rand.N(gap+1)}
}
