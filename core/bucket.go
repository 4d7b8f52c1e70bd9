package core

import "time"

// settleBucket drains s up to s.held.
func (t *terms) settleBucket(s *settled) {
	s.a -= s.held - s.at
	if s.a < 0 {
		s.a, s.b = 0, 0
	}
	s.at = s.held
}

func (t *terms) bucketFits(s *settled, n int64) bool {
	d := t.plus(span{s.a, int64(s.b)}, t.drain(n))
	return d.us < t.full.us || d.us == t.full.us && d.frac <= t.full.frac
}

func (t *terms) bucketRemaining(s *settled) int64 {
	room := t.minus(t.full, span{s.a, int64(s.b)})
	if room.us < 0 {
		return 0
	}
	if t.q == 1 {
		return room.us / t.p
	}
	return muldivPlus(room.us, t.q, room.frac, t.p)
}

// queued returns how long units taken now wait for those already in a leaky
// queue to leave it; 0 for other algorithms.
func (t *terms) queued(s *settled, now int64) time.Duration {
	if t.algorithm != AlgorithmLeakyQueue || s.a == 0 && s.b == 0 {
		return 0
	}
	return wait(s.held - now + span{s.a, int64(s.b)}.ceil())
}
