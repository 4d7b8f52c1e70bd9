package memory

import (
	"time"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// Token bucket, leaky bucket and leaky queue keep the time until the bucket is empty,
// as of the last taking. Units that fit add the time in which they drain. A token
// bucket is a leaky bucket seen from the other side, and a leaky queue is one that
// also tells each request when its turn is.

// bucketCompile computes the fields of l that only buckets have.
func (l *compiledLimit) bucketCompile() {
	l.full = l.drain(l.max)
}

// bucketAdvance drains s up to the instant asOf.
func (l *compiledLimit) bucketAdvance(s *state, asOf int64) {
	s.a -= asOf - s.at
	if s.a < 0 {
		s.a, s.b = 0, 0
	}
	s.at = asOf
}

func (l *compiledLimit) bucketFits(s *state, n int64) bool {
	d := l.plus(span{s.a, int64(s.b)}, l.drain(n))
	return d.us < l.full.us || d.us == l.full.us && d.frac <= l.full.frac
}

func (l *compiledLimit) bucketTake(s *view, n int64) {
	d := l.plus(span{s.a, int64(s.b)}, l.drain(n))
	s.a, s.b = d.us, uint32(d.frac)
	s.at = s.asOf
}

func (l *compiledLimit) bucketRemaining(s *state) int64 {
	room := l.minus(l.full, span{s.a, int64(s.b)})
	if room.us < 0 {
		return 0
	}
	if l.q == 1 {
		return room.us / l.p
	}
	return arith.MuldivPlus(room.us, l.q, room.frac, l.p)
}

func (l *compiledLimit) bucketUntilFits(s *state, n int64) int64 {
	d := l.plus(span{s.a, int64(s.b)}, l.drain(n))
	return l.minus(d, l.full).ceil()
}

// queued returns how long units taken now wait until the units that are already in a
// leaky queue have left it. It returns 0 for other algorithms.
func (l *compiledLimit) queued(s *view, now int64) time.Duration {
	if l.algorithm != limits.AlgorithmLeakyQueue || s.a == 0 && s.b == 0 {
		return 0
	}
	return arith.Wait(s.asOf - now + span{s.a, int64(s.b)}.ceil())
}

// bucketUnits returns how many units, rounded up, drain in a time of at most twice l.full.
func (l *compiledLimit) bucketUnits(d span) int64 {
	room := l.minus(l.full, d)
	if room.us < 0 {
		over := l.minus(d, l.full)
		return l.max + arith.MuldivPlus(over.us, l.q, over.frac+l.p-1, l.p)
	}
	return l.max - arith.MuldivPlus(room.us, l.q, room.frac, l.p)
}

// takeFromBucketLocked is takeLocked in one pass, for a bucket that s is stored for
// under l, n ≤ max, and a clock that is behind s by at most maxAhead. It changes s
// only if units are taken, and unlocks sh before it computes the rest of d. Most
// decisions are made here: with its numbers in registers they take a third less time.
func (sh *shard) takeFromBucketLocked(l *compiledLimit, s *state, n, now int64, d *limits.Decision) {
	asOf := max(now, s.at)
	us, frac := s.a-(asOf-s.at), int64(s.b)
	if us < 0 {
		us, frac = 0, 0
	}
	cost := l.unit
	if n != 1 {
		cost = l.drain(n)
	}
	after := l.plus(span{us, frac}, cost)
	allowed := n == 0 || after.us < l.full.us || after.us == l.full.us && after.frac <= l.full.frac
	d.Delay = 0
	d.Ticket = 0
	if allowed && n > 0 {
		if l.algorithm == limits.AlgorithmLeakyQueue {
			if us > 0 || frac > 0 {
				d.Delay = arith.Wait(asOf - now + span{us, frac}.ceil())
			}
			s.serial = 0 // what was the latest taking is so no more
			sh.numberLocked(s)
		}
		d.Ticket = ticketOf(asOf, s.serial)
		us, frac = after.us, after.frac
		s.at, s.a, s.b = asOf, us, uint32(frac)
	}
	sh.mu.Unlock()

	lag := asOf - now
	room := l.minus(l.full, span{us, frac})
	d.Allowed = allowed
	d.Source, d.Transient = limits.SourcePrimary, false
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(lag + span{us, frac}.ceil())
	d.At = now
	if room.us < 0 {
		room = span{}
	}
	if l.q == 1 {
		d.Remaining = room.us / l.p
		d.EffectiveWindow = arith.Wait(d.Remaining * l.p)
	} else {
		d.Remaining = arith.MuldivPlus(room.us, l.q, room.frac, l.p)
		d.EffectiveWindow = arith.Wait(l.drain(d.Remaining).ceil())
	}
	if !allowed {
		d.RetryAfter = arith.Wait(lag + l.minus(after, l.full).ceil())
		d.EffectiveWindow = d.RetryAfter
	} else if d.Remaining == 0 {
		one := l.plus(span{us, frac}, l.unit)
		d.EffectiveWindow = arith.Wait(lag + l.minus(one, l.full).ceil())
	}
}
