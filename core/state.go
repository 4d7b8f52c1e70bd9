package core

// state is what a key has used, in the form that its limit's algorithm reads:
//
//	            at                      a                          b
//	buckets     instant of last taking  D, whole µs                D, fraction
//	windows     start of the window     units in it                units in the one before
//	 anchored   start of the window     units in it                1 if each taking moves the start
//	sliding log instant of last taking  list of earlier takings    sum and last cost
//
// D is the time until the bucket is empty. Instants are microseconds since the
// Unix epoch. A state without units is fresh, whatever else it says.
type state struct {
	at    int64
	a     int64
	b     uint32
	class uint16 // which scope and limit it was written under
}

// settled is a state brought forward to an instant and ready to decide. It is
// a value: nothing is written until units are taken.
type settled struct {
	state
	held int64 // the instant, not before what the state holds it at
	log  logView

	// former is the limit that wrote the state, and old what it wrote, while a
	// conversion to another limit has not been written back.
	former *terms
	old    *state

	// summary is the shard whose floors the state is put together from, for a key
	// that was not found, until something is taken. nil: the state says when it changes.
	// Of a sliding window, log.sum is then how much is in use.
	summary *shard
}

// settle makes s what old, which t's limit wrote, comes to at the instant now.
// A clock that stepped back is held at old.at, however far: the caller rebases a
// state that is too far ahead.
func (t *terms) settle(s *settled, old *state, now int64, nodes *logNodes) {
	s.state = *old
	s.held = max(now, old.at)
	s.former, s.summary = nil, nil
	switch t.algorithm {
	case AlgorithmFixedWindow, AlgorithmSlidingWindow, AlgorithmAnchoredWindow:
		t.turnTo(s.held, &s.state)
	case AlgorithmSlidingLog:
		t.settleLog(s, nodes)
	case AlgorithmTokenBucket, AlgorithmLeakyBucket, AlgorithmLeakyQueue:
		t.settleBucket(s)
	default:
		panic(unknownAlgorithm)
	}
}

// rebased returns old, which t's limit wrote, as it stands once the clock has
// stepped back to now, and whether it is rebased: it is if it is ahead of now by
// more than t.hold. No time is credited: a bucket keeps the level of its last
// taking, and the units that a window or log held then count as taken now.
func (t *terms) rebased(old state, now int64) (state, bool) {
	if old.at-now <= t.hold {
		return old, false
	}
	switch t.algorithm {
	case AlgorithmFixedWindow, AlgorithmSlidingWindow:
		old.a, old.b = min(old.a+int64(old.b), t.max), 0
		old.at = now - now%t.period
		return old, true
	case AlgorithmAnchoredWindow:
		old.a = min(old.a, t.max)
	case AlgorithmSlidingLog:
		sum := old.logSum()
		old.a, old.b = 0, packLog(sum, sum)
	case AlgorithmTokenBucket, AlgorithmLeakyBucket, AlgorithmLeakyQueue:
	default:
		panic(unknownAlgorithm)
	}
	old.at = now
	return old, true
}

// fresh makes s the state, at the instant now, of a key that has used nothing.
func (t *terms) fresh(s *settled, now int64) {
	*s = settled{state: state{at: now}, held: now}
	if t.aligned {
		s.at -= now % t.period
	}
}

// used returns the units in use: the maximum less what remains.
func (t *terms) used(s *settled) int64 { return t.max - t.remaining(s) }

// settleFrom is settle for a state that was written under the limit of from.
// What the two limits count alike carries over, even if it is more than t's
// maximum: a change of limit never lowers what is in use. Otherwise the units in
// use now count as taken now: until something is taken, and that is written back,
// this is so at every later instant too.
func (t *terms) settleFrom(from *terms, s *settled, old *state, now int64, nodes *logNodes) {
	if t.carries(from) {
		t.settle(s, old, now, nodes)
		return
	}
	from.settle(s, old, now, nodes)
	if t.convert(s, from) {
		s.former, s.old = from, old
	}
}

// carries reports whether a state of from's limit means the same under t's.
func (t *terms) carries(from *terms) bool {
	if t.algorithm != from.algorithm {
		return false
	}
	if t.bucket {
		return t.p == from.p && t.q == from.q
	}
	return t.period == from.period
}

// convert turns s, settled under the limit of from, into the units in use,
// taken now under t's limit, and reports whether there are any.
func (t *terms) convert(s *settled, from *terms) bool {
	moves := s.b
	used := min(from.used(s), t.max)
	t.fresh(s, s.held)
	if used == 0 {
		return false
	}
	t.take(s, used)
	if t.algorithm == AlgorithmAnchoredWindow && from.algorithm == AlgorithmAnchoredWindow {
		s.b = moves
	}
	return true
}

// fits reports whether n units, 0 ≤ n, fit now.
func (t *terms) fits(s *settled, n int64) bool {
	if n == 0 {
		return true
	}
	if n > t.max {
		return false
	}
	if t.bucket {
		return t.bucketFits(s, n)
	}
	return t.inUse(s)+n <= t.max
}

// take adds n units, which fit, to s.
func (t *terms) take(s *settled, n int64) {
	summed := s.summary != nil
	s.former, s.summary = nil, nil
	switch t.algorithm {
	case AlgorithmFixedWindow, AlgorithmSlidingWindow:
		if s.a += n; summed { // no floor has so much that n does not fit
			s.a = min(s.a, t.max)
		}
	case AlgorithmAnchoredWindow:
		t.takeAnchored(&s.state, s.held, n)
	case AlgorithmSlidingLog:
		s.log.taken += n
		s.at = s.held
	case AlgorithmTokenBucket, AlgorithmLeakyBucket, AlgorithmLeakyQueue:
		d := t.plus(span{s.a, int64(s.b)}, t.drain(n))
		s.a, s.b = d.us, uint32(d.frac)
		s.at = s.held
	default:
		panic(unknownAlgorithm)
	}
}

// remaining returns the largest cost that fits now.
func (t *terms) remaining(s *settled) int64 {
	if t.bucket {
		return t.bucketRemaining(s)
	}
	return max(0, t.max-t.inUse(s))
}

// inUse returns the units that a window or log counts now.
func (t *terms) inUse(s *settled) int64 {
	switch t.algorithm {
	case AlgorithmFixedWindow, AlgorithmAnchoredWindow:
		return s.a
	case AlgorithmSlidingWindow:
		if s.summary != nil {
			return s.log.sum
		}
		return t.weight(s.held, &s.state) + s.a
	case AlgorithmSlidingLog:
		return s.log.sum + s.log.taken
	default:
		panic(unknownAlgorithm)
	}
}

// waitFor returns the least wait, from now, until n units fit, for n from 1 to max
// that do not fit now.
func (t *terms) waitFor(s *settled, n, now int64, nodes *logNodes) int64 {
	if s.summary != nil {
		if fits, _ := s.summary.floorWaitsLocked(s.class, n, now); fits > 0 {
			return fits
		}
	}
	return s.held - now + t.untilFits(s, n, nodes)
}

// untilFits is waitFor from s.held, for a state that is not a summary's.
func (t *terms) untilFits(s *settled, n int64, nodes *logNodes) int64 {
	if from := s.former; from != nil { // until no more than max − n of its units are in use
		var was settled
		from.settle(&was, s.old, s.held, nodes)
		return from.untilFits(&was, from.max-(t.max-n), nodes)
	}
	switch t.algorithm {
	case AlgorithmFixedWindow, AlgorithmSlidingWindow, AlgorithmAnchoredWindow:
		return t.windowUntilFits(s.held, &s.state, n)
	case AlgorithmSlidingLog:
		return t.logUntilFits(s, n, nodes)
	case AlgorithmTokenBucket, AlgorithmLeakyBucket, AlgorithmLeakyQueue:
		d := t.plus(span{s.a, int64(s.b)}, t.drain(n))
		return t.minus(d, t.full).ceil()
	default:
		panic(unknownAlgorithm)
	}
}

// freshAt returns the instant at which s equals a state that used nothing.
func (t *terms) freshAt(s *state) int64 {
	switch t.algorithm {
	case AlgorithmFixedWindow, AlgorithmAnchoredWindow:
		if s.a > 0 {
			return s.at + t.period
		}
		return s.at
	case AlgorithmSlidingWindow:
		switch {
		case s.a > 0:
			return s.at + 2*t.period
		case s.b > 0:
			return s.at + t.period
		}
		return s.at
	case AlgorithmSlidingLog:
		return s.at + t.period
	case AlgorithmTokenBucket, AlgorithmLeakyBucket, AlgorithmLeakyQueue:
		return s.at + span{s.a, int64(s.b)}.ceil()
	default:
		panic(unknownAlgorithm)
	}
}

// describe sets d to the decision on a charge of n units that left s behind,
// allowed or not, its Delay aside. Waits count from now, which is before s.held while a clock
// that stepped back is held.
func (t *terms) describe(d *Decision, s *settled, n int64, allowed bool, now int64, nodes *logNodes) {
	lag := s.held - now
	remaining := t.remaining(s)
	d.Allowed = allowed
	d.Source, d.Transient = SourcePrimary, false
	d.Remaining = remaining
	d.RetryAfter = 0
	d.At = now
	d.ResetAfter = wait(t.untilFresh(s, now, nodes))
	switch {
	case !allowed && n > t.max:
		d.RetryAfter = Never
		d.EffectiveWindow = Never
	case !allowed:
		d.RetryAfter = wait(t.waitFor(s, n, now, nodes))
		d.EffectiveWindow = d.RetryAfter
	case t.algorithm == AlgorithmFixedWindow || t.algorithm == AlgorithmAnchoredWindow:
		d.EffectiveWindow = wait(lag + s.at + t.period - s.held)
	case remaining == 0:
		d.EffectiveWindow = wait(t.waitFor(s, 1, now, nodes))
	default:
		d.EffectiveWindow = wait(t.spread(remaining))
	}
}

// untilFresh returns the wait, from now, until s equals a state that used
// nothing.
func (t *terms) untilFresh(s *settled, now int64, nodes *logNodes) int64 {
	switch {
	case s.former != nil:
		return s.held - now + t.untilFits(s, t.max, nodes)
	case s.summary != nil:
		_, fresh := s.summary.floorWaitsLocked(s.class, t.max, now)
		return fresh
	case t.algorithm == AlgorithmSlidingLog && t.inUse(s) == 0:
		return 0
	}
	return max(0, t.freshAt(&s.state)-now)
}
