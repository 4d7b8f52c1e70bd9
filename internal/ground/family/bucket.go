package family

import (
	"time"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
)

// bucket is token bucket, leaky bucket and leaky queue. Its state is the level: the time until the
// bucket is empty, as of the last taking. Units that fit add the time in which they drain. A token
// bucket is a leaky bucket seen from the other side. A leaky queue is one that also tells each
// request when its turn is.
type bucket struct {
	Numbers
	full span // the time in which Max units drain
}

func newBucket(l Numbers) Compiled {
	l.form = [2]int64{l.p, l.q}
	return &bucket{l, l.drain(l.Max)}
}

func (s Used) level() span { return span{s.A, s.B} }

func (l *bucket) Decide(s Used, n, now int64, _ Entries) (Used, Told, bool) {
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
	} else { // it owes
		over := l.minus(level, l.full)
		inUse = l.Max + arith.MuldivPlus(over.us, l.q, over.frac+l.p-1, l.p)
	}
	if fits && inUse >= l.Max {
		wait = l.minus(l.plus(level, l.unit), l.full).ceil()
	}
	return Used{now, level.us, level.frac, s.Serial}, Told{inUse, level.ceil(), wait}, fits
}

func (*bucket) FreshAt(s Used) int64 { return s.At + s.level().ceil() }

// Charge leaves a level of at most twice the full one, and of at most 100 years.
func (l *bucket) Charge(s Used, n, _, _ int64) (Used, int64) {
	most := l.plus(l.full, l.full)
	if most.us >= bounds.BucketFill {
		most = span{bounds.BucketFill, 0}
	}
	room := l.minus(most, s.level())
	if room.us < 0 {
		return s, 0
	}
	n = min(n, l.unitsDrained(room))
	after := l.plus(s.level(), l.drain(n))
	s.A, s.B = after.us, after.frac
	return s, n
}

// Refund returns all units of the last taking. Units of an earlier one have drained in part, as the
// ring knows; without a ring, the time since counts as drained. A leaky queue returns only those of
// the last taking: the requests behind an earlier one have been told when their turn is.
func (l *bucket) Refund(s Used, of Refund, _ Entries) Used {
	cost := l.drain(min(of.Taken-of.Final, l.Max))
	whole := l.drain(min(of.Taken, l.Max)).us
	worth := cost
	switch {
	case of.At == s.At:
	case l.Queues || of.At > s.At:
		return s
	case of.Ring != nil:
		worth = minSpan(cost, span{of.Ring.worth(of.At, whole, cost.ceil(), s.At), 0})
	case cost.us < s.At-of.At:
		return s
	default:
		worth.us -= s.At - of.At
	}
	worth = minSpan(worth, s.level())
	if of.Ring != nil && of.At != s.At && worth != (span{}) {
		of.Ring.lower(of.At, whole, worth.ceil(), s.At)
	}
	left := l.minus(s.level(), worth)
	s.A, s.B = left.us, left.frac
	return s
}

// Queued returns how long n units, which have left s behind, wait until those before them have left a
// leaky queue. It returns 0 for other algorithms.
func (l *Numbers) Queued(s Used, n int64) time.Duration {
	if !l.Queues {
		return 0
	}
	return arith.Wait(l.minus(s.level(), l.drain(n)).ceil())
}
