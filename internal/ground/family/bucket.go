package family

import (
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
)

// bucket is the token bucket, the leaky bucket and the leaky queue. Its state is the level: the
// time until the bucket is empty, as of the last taking. A taking adds the time in which its units
// drain. A token bucket is a leaky bucket whose free room is its tokens. A leaky queue also tells
// each request its turn.
//
// An example: 2 units a second, burst 4, so a unit drains in 500 ms and the bucket is full at 2 s.
//
//	at 0 ms     take 3: the level is 1,500 ms; room for 500 ms, so 1 unit remains
//	at 200 ms   the level is 1,300 ms; 2 units need 1,000 ms: denied, 300 ms over
//	at 500 ms   the level is 1,000 ms; 2 units fit, and the level is 2,000 ms
type bucket struct {
	Numbers
	full span // the level of a full bucket: the time in which Max units drain
}

func newBucket(l Numbers) Compiled {
	l.scale = [2]int64{l.p, l.q}
	return &bucket{l, l.drain(l.Max)}
}

// Scripted returns the rate in lowest terms.
func (l *bucket) Scripted() []int64 { return []int64{l.p, l.q} }

// levelOf returns the level in s.
func levelOf(s Used) span { return span{s.A, s.B} }

func (l *bucket) Decide(s Used, n, now int64, _ uint64, _ Entries) (Used, Told, bool) {
	level := span{s.A - (now - s.At), s.B}
	if level.us < 0 {
		level = span{}
	}
	cost := l.unit
	if n != 1 {
		cost = l.drain(n)
	}
	after := l.plus(level, cost)
	room := l.minus(l.full, after)
	fits := n == 0 || n <= l.Max && room.us >= 0
	wait := int64(0)
	if fits {
		level = after
	} else {
		wait = l.minus(after, l.full).ceil()
		room = l.minus(l.full, level)
	}
	inUse := int64(0)
	if room.us >= 0 {
		inUse = l.Max - l.unitsDrained(room)
	} else { // the key owes units
		over := l.minus(level, l.full)
		inUse = l.Max + arith.MuldivPlus(over.us, l.q, over.frac+l.p-1, l.p)
	}
	if fits && inUse >= l.Max {
		wait = l.minus(l.plus(level, l.unit), l.full).ceil()
	}
	return Used{now, level.us, level.frac, s.Serial}, Told{inUse, level.ceil(), wait}, fits
}

func (*bucket) FreshAt(s Used) int64 { return s.At + levelOf(s).ceil() }

// Charge raises the level to at most twice the full one, and at most 100 years.
func (l *bucket) Charge(s Used, n, _, _ int64) (Used, int64) {
	most := l.plus(l.full, l.full)
	if most.us >= bounds.BucketFill {
		most = span{bounds.BucketFill, 0}
	}
	room := l.minus(most, levelOf(s))
	if room.us < 0 {
		return s, 0
	}
	n = min(n, l.unitsDrained(room))
	after := l.plus(levelOf(s), l.drain(n))
	s.A, s.B = after.us, after.frac
	return s, n
}

// Refund returns all units of the last taking. Units of an earlier one have drained in part. The
// ring knows how much; without a ring, all the time since counts as drained. A leaky queue returns
// units of the last taking only: the requests behind an earlier one have been told their turn.
func (l *bucket) Refund(s Used, r Refund, _ Entries) Used {
	cost := l.drain(min(r.Taken-r.Final, l.Max))
	whole := l.drain(min(r.Taken, l.Max)).us
	worth := cost
	switch {
	case r.At == s.At:
	case l.Queues || r.At > s.At:
		return s
	case r.Ring != nil:
		worth = minSpan(cost, span{r.Ring.worth(r.At, whole, cost.ceil(), s.At), 0})
	case cost.us < s.At-r.At:
		return s
	default:
		worth.us -= s.At - r.At
	}
	worth = minSpan(worth, levelOf(s))
	if r.Ring != nil && r.At != s.At && worth != (span{}) {
		r.Ring.lower(r.At, whole, worth.ceil(), s.At)
	}
	left := l.minus(levelOf(s), worth)
	s.A, s.B = left.us, left.frac
	return s
}
