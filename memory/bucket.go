package memory

import (
	"time"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/internal/bounds"
	"github.com/weir-go/weir/limits"
)

// bucket is token bucket, leaky bucket and leaky queue. They keep the time until the bucket is
// empty, as of the last taking. Units that fit add the time in which they drain. A token
// bucket is a leaky bucket seen from the other side, and a leaky queue is one that
// also tells each request when its turn is.
type bucket struct{ sharedByFamilies }

func (*bucket) compile(l *compiledLimit) {
	l.form = [2]int64{l.p, l.q}
	l.full = l.drain(l.max)
	l.drains, l.queues = true, l.algorithm == limits.AlgorithmLeakyQueue
}

func (s *state) level() span { return span{s.a, int64(s.b)} }

func (*bucket) advance(_ *compiledLimit, s *view, _ *shard) {
	s.a -= s.asOf - s.at
	if s.a < 0 {
		s.a, s.b = 0, 0
	}
	s.at = s.asOf
}

func (*bucket) inUse(l *compiledLimit, s *view) int64 {
	room := l.minus(l.full, s.level())
	if room.us < 0 {
		over := l.minus(s.level(), l.full)
		return l.max + arith.MuldivPlus(over.us, l.q, over.frac+l.p-1, l.p)
	}
	return l.max - l.unitsDrained(room)
}

func (*bucket) fits(l *compiledLimit, s *view, n int64) bool {
	if n == 0 || n > l.max {
		return n == 0
	}
	d := l.plus(s.level(), l.drain(n))
	return d.us < l.full.us || d.us == l.full.us && d.frac <= l.full.frac
}

func (*bucket) take(l *compiledLimit, s *view, n int64) {
	d := l.plus(s.level(), l.drain(n))
	s.a, s.b = d.us, uint32(d.frac)
}

func (*bucket) untilFits(l *compiledLimit, s *view, n int64, _ *shard) int64 {
	return l.minus(l.plus(s.level(), l.drain(n)), l.full).ceil()
}

func (*bucket) freshAt(_ *compiledLimit, s *state) int64 { return s.at + s.level().ceil() }

func (*bucket) units(s *state) int64 { return s.level().ceil() }

// charge leaves a level of at most twice the full one, and of at most 100 years.
func (*bucket) charge(l *compiledLimit, s *view, n int64) int64 {
	most := l.plus(l.full, l.full)
	if most.us >= bounds.BucketFill {
		most = span{bounds.BucketFill, 0}
	}
	room := l.minus(most, s.level())
	if room.us < 0 {
		return 0
	}
	if n = min(n, l.unitsDrained(room)); n > 0 {
		l.take(s, n)
	}
	return n
}

// unitsDrained returns how many whole units drain in the time d.
func (l *compiledLimit) unitsDrained(d span) int64 {
	if l.q == 1 {
		return d.us / l.p
	}
	return arith.MuldivPlus(d.us, l.q, d.frac, l.p)
}

// queued returns how long units taken now wait until the units that are already in a
// leaky queue have left it. It returns 0 for other algorithms.
func (l *compiledLimit) queued(s *view) time.Duration {
	if !l.queues {
		return 0
	}
	return arith.Wait(s.level().ceil())
}

func (bucket) takeNowLocked(sh *shard, l *compiledLimit, s *state, n, now int64, d *limits.Decision) bool {
	if sh.rings != nil {
		return false
	}
	us, frac := s.a-(now-s.at), int64(s.b)
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
		if l.queues {
			if us > 0 || frac > 0 {
				d.Delay = arith.Wait(span{us, frac}.ceil())
			}
			s.serial = 0 // what was the latest taking is so no more
			sh.numberLocked(s)
		}
		d.Ticket = ticketOf(now, s.serial)
		us, frac = after.us, after.frac
		s.at, s.a, s.b = now, us, uint32(frac)
	}
	sh.mu.Unlock()

	room := l.minus(l.full, span{us, frac})
	d.Allowed = allowed
	d.Source, d.Transient = limits.SourcePrimary, false
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(span{us, frac}.ceil())
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
		d.RetryAfter = arith.Wait(l.minus(after, l.full).ceil())
		d.EffectiveWindow = d.RetryAfter
	} else if d.Remaining == 0 {
		one := l.plus(span{us, frac}, l.unit)
		d.EffectiveWindow = arith.Wait(l.minus(one, l.full).ceil())
	}
	return true
}
