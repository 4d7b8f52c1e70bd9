package core

import "time"

// takeLocked decides a charge of n units on hash under the limit of k, and takes
// it if it fits. e is the entry of hash, nil if it has none.
func (sh *shard) takeLocked(e *entry, hash uint64, k *class, n, now int64, d *Decision) {
	var s settled
	sh.settleLocked(&s, e, k, now)
	allowed := k.fits(&s, n)
	took := allowed && n > 0
	var delay time.Duration
	if took {
		delay = k.queued(&s, now)
		k.take(&s, n)
	}
	k.describe(d, &s, n, allowed, now, &sh.nodes)
	d.Delay = delay
	if took {
		sh.storeLocked(e, hash, k, &s, now)
	}
}

// takeFromBucketLocked is takeLocked in one pass, for a bucket stored in s under
// t's own limit and n ≤ max, behind a clock that stepped back by maxLag at most.
// It changes s only if units are taken, and unlocks sh before it works out the
// rest of d. Most decisions are this one: keeping its numbers in registers takes
// a third off them.
func (sh *shard) takeFromBucketLocked(t *terms, s *state, n, now int64, d *Decision) {
	held := max(now, s.at)
	us, frac := s.a-(held-s.at), int64(s.b)
	if us < 0 {
		us, frac = 0, 0
	}
	cost := span{t.whole, t.part}
	if n != 1 {
		cost = t.drain(n)
	}
	after := t.plus(span{us, frac}, cost)
	allowed := n == 0 || after.us < t.full.us || after.us == t.full.us && after.frac <= t.full.frac
	d.Delay = 0
	if allowed && n > 0 {
		if t.algorithm == AlgorithmLeakyQueue && (us > 0 || frac > 0) {
			d.Delay = wait(held - now + span{us, frac}.ceil())
		}
		us, frac = after.us, after.frac
		s.at, s.a, s.b = held, us, uint32(frac)
	}
	sh.mu.Unlock()

	lag := held - now
	room := t.minus(t.full, span{us, frac})
	d.Allowed = allowed
	d.Source, d.Transient = SourcePrimary, false
	d.RetryAfter = 0
	d.ResetAfter = wait(lag + span{us, frac}.ceil())
	d.At = now
	if t.q == 1 {
		d.Remaining = room.us / t.p
		d.EffectiveWindow = wait(d.Remaining * t.p)
	} else {
		d.Remaining = muldivPlus(room.us, t.q, room.frac, t.p)
		d.EffectiveWindow = wait(t.drain(d.Remaining).ceil())
	}
	if !allowed {
		d.RetryAfter = wait(lag + t.minus(after, t.full).ceil())
		d.EffectiveWindow = d.RetryAfter
	} else if d.Remaining == 0 {
		one := t.plus(span{us, frac}, span{t.whole, t.part})
		d.EffectiveWindow = wait(lag + t.minus(one, t.full).ceil())
	}
}

// takeFromWindowLocked is the same for a window.
func (sh *shard) takeFromWindowLocked(t *terms, s *state, n, now int64, d *Decision) {
	w, held := *s, max(now, s.at)
	t.turnTo(held, &w)
	used := w.a
	if t.algorithm == AlgorithmSlidingWindow {
		used += t.weight(held, &w)
	}
	allowed := n == 0 || used+n <= t.max
	if allowed && n > 0 {
		w.a += n
		used += n
		if w.b != 0 && t.algorithm == AlgorithmAnchoredWindow {
			w.at = held
		}
		*s = w
	}
	sh.mu.Unlock()

	d.Allowed = allowed
	d.Source, d.Transient = SourcePrimary, false
	d.Remaining = max(0, t.max-used)
	d.RetryAfter = 0
	d.ResetAfter = wait(max(0, t.freshAt(&w)-now))
	d.Delay = 0
	d.At = now
	switch {
	case !allowed:
		d.RetryAfter = wait(held - now + t.windowUntilFits(held, &w, n))
		d.EffectiveWindow = d.RetryAfter
	case t.algorithm != AlgorithmSlidingWindow || d.Remaining == 0:
		d.EffectiveWindow = wait(held - now + t.windowUntilFits(held, &w, 1))
	default:
		d.EffectiveWindow = wait(t.spread(d.Remaining))
	}
}
