package core

// floor is the largest state that a shard ever displaced in one class, until
// that is fresh: what a key that is not found may have used. A key starts from
// it, so that being displaced never buys a fresh budget.
type floor struct {
	class *class
	state state
}

// maxFloors is how many floors a shard keeps, so that a decision on a new key looks
// at no more. Where more limits are displaced, those of the scope that has most
// are remembered together: see coarseFloor.
const maxFloors = 32

// raiseFloorLocked makes the floor of the class of s at least s.
func (sh *shard) raiseFloorLocked(s *state, now int64) {
	k := sh.classes.get(s.class)
	raised := *s
	if k.algorithm == AlgorithmSlidingLog {
		raised.a, raised.b = 0, packLog(s.logSum(), s.logSum())
	}
	if sh.floors == nil {
		sh.floors = make([]floor, 0, maxFloors)
	}
	kept := sh.floors[:0]
	for _, f := range sh.floors {
		switch {
		case f.class == k:
			raised = k.larger(f.state, raised)
		case f.class.freshAt(&f.state) > now:
			kept = append(kept, f)
		default:
			sh.noteClearLocked(now)
		}
	}
	clear(sh.floors[len(kept):])
	if len(kept) == maxFloors {
		sh.floors = kept
		sh.foldLocked(floor{k, raised}, now)
		return
	}
	sh.floors = append(kept, floor{k, raised})
}

// counted returns the units that a window or log holds, for telling apart states
// that are fresh at one instant; 0 for buckets, which do not need telling apart.
func (t *terms) counted(s *state) int64 {
	switch t.algorithm {
	case AlgorithmFixedWindow, AlgorithmSlidingWindow:
		return s.a + int64(s.b)
	case AlgorithmAnchoredWindow:
		return s.a
	case AlgorithmSlidingLog:
		return s.logSum()
	case AlgorithmTokenBucket, AlgorithmLeakyBucket, AlgorithmLeakyQueue:
		return 0
	default:
		panic(unknownAlgorithm)
	}
}

// larger returns a state that, at every instant from now on, has at least as
// much in use as either of a and b. An anchored window has if flatten makes it one
// that moves.
func (t *terms) larger(a, b state) state {
	switch t.algorithm {
	case AlgorithmFixedWindow, AlgorithmSlidingWindow, AlgorithmAnchoredWindow:
		if a.at > b.at {
			a, b = b, a
		}
		a = t.at(a, b.at)
		b.a, b.b = max(a.a, b.a), max(a.b, b.b)
		return b
	case AlgorithmSlidingLog:
		sum := max(a.logSum(), b.logSum())
		b.at, b.b = max(a.at, b.at), packLog(sum, sum)
		return b
	case AlgorithmTokenBucket, AlgorithmLeakyBucket, AlgorithmLeakyQueue: // the later end, seen from the later taking
		if a.at > b.at {
			a, b = b, a
		}
		a = t.at(a, b.at)
		if a.a > b.a || a.a == b.a && a.b > b.b {
			b.a, b.b = a.a, a.b
		}
		return b
	default:
		panic(unknownAlgorithm)
	}
}

// at returns the state that a bucket's or window's comes to at the instant now.
func (t *terms) at(old state, now int64) state {
	var s settled
	t.settle(&s, &old, now, nil)
	return s.state
}

// floorLocked makes s the state to assume, under the limit of k, for a key that
// is not found: the largest of what was displaced in its scope.
func (sh *shard) floorLocked(s *settled, k *class, now int64) {
	var largest state
	var most int64
	found, plain := 0, true
	raise := func() {
		if k.algorithm == AlgorithmSlidingWindow {
			most = max(most, k.inUse(s))
		}
		if found++; found > 1 {
			largest = k.larger(largest, k.flatten(s))
		} else {
			largest = k.flatten(s)
		}
	}
	for i := range sh.floors {
		f := &sh.floors[i]
		if f.class.scope != k.scope || f.class.freshAt(&f.state) <= now {
			continue
		}
		k.settleFloor(&f.class.terms, s, f.state, now)
		plain = plain && now >= f.state.at && k.carries(&f.class.terms)
		raise()
	}
	if c := sh.coarseLocked(k); c != nil && c.until > now {
		k.fresh(s, now)
		k.take(s, c.used(&k.terms, now))
		plain = false
		raise()
	}
	if found == 0 {
		k.fresh(s, now)
		return
	}
	k.settleFloor(&k.terms, s, largest, now)
	if found > 1 || !plain {
		if s.class, s.summary = k.id, sh; k.algorithm == AlgorithmSlidingWindow {
			s.log.sum = most
		}
	}
}

// floorWaitsLocked returns the waits, from now, until n units fit that do not fit what
// floorLocked makes of the floors for the class of an id, and until that is fresh. Of
// floors that a clock stepped back behind, they may be longer than they need be.
func (sh *shard) floorWaitsLocked(id uint16, n, now int64) (fits, fresh int64) {
	k := sh.classes.get(id)
	for i := range sh.floors {
		f := &sh.floors[i]
		if f.class.scope != k.scope || f.class.freshAt(&f.state) <= now {
			continue
		}
		untilFits, untilFresh := k.floorWaits(&f.class.terms, f.state, n, now)
		fits, fresh = max(fits, untilFits), max(fresh, untilFresh)
	}
	if c := sh.coarseLocked(k); c != nil && c.until > now {
		fresh = max(fresh, c.until-now)
		switch {
		case c.units+n > k.max:
			fits = max(fits, c.until-now)
		case now < c.at:
			fits = max(fits, c.at-now)
		}
	}
	return fits, fresh
}

// floorWaits is floorWaitsLocked for one floor, of from's limit.
func (t *terms) floorWaits(from *terms, f state, n, now int64) (fits, fresh int64) {
	carries, lag := t.carries(from), int64(0)
	if now < f.at && !(carries && t.bucket) {
		lag = f.at - now
	}
	var s settled
	if lag > 0 {
		fresh = lag
		if t.settleFloor(from, &s, f, now); t.algorithm != AlgorithmSlidingLog || !t.fits(&s, n) {
			fits = lag // until then, what is put together has more in use than this floor
		}
	}
	if carries {
		t.settleFloor(from, &s, f, now+lag)
		if !t.fits(&s, n) {
			fits = lag + t.untilFits(&s, n, nil)
		}
		return fits, max(fresh, t.freshAt(&s.state)-now)
	}
	from.settle(&s, &f, now+lag, nil)
	used := min(from.used(&s), t.max)
	if used+n > t.max {
		fits = lag + from.untilFits(&s, from.max-(t.max-n), nil)
	}
	if used > 0 {
		fresh = lag + from.untilFits(&s, from.max, nil)
	}
	return fits, fresh
}

// flatten returns s as a state that needs no nodes, to start a key from that was
// not found.
//
// When the anchored window of such a key opened, nobody knows: at s.at at the
// latest. If it closed before, what the key takes from now on is in a window that
// opens with it, and closes later than at s.at + period. So each taking moves the
// start of the window: once it has closed, any window is closed that may have been
// open.
func (t *terms) flatten(s *settled) state {
	if t.algorithm == AlgorithmAnchoredWindow && s.a > 0 {
		moving := s.state
		moving.b = 1
		return moving
	}
	if t.algorithm != AlgorithmSlidingLog {
		return s.state
	}
	if s.log.taken > 0 {
		return state{at: s.held, b: packLog(s.log.taken, s.log.taken)}
	}
	return state{at: s.log.latestAt, b: packLog(s.log.sum, s.log.sum)}
}

// rebaseFloorsLocked brings back the floors that are too far ahead of a clock that
// has stepped back to now. A floor does not know at which instants the keys that
// it stands for are rebased or held. So it becomes as large as any of them can be:
// all units in use, at the latest instant that is held.
func (sh *shard) rebaseFloorsLocked(now int64) {
	for i := range sh.floors {
		f := &sh.floors[i]
		k := f.class
		if f.state.at-now <= k.hold {
			continue
		}
		full := settled{state: state{class: k.id}}
		k.fresh(&full, now+k.hold)
		k.take(&full, k.max)
		f.state = k.flatten(&full)
		f.state.class = k.id
		if k.algorithm == AlgorithmSlidingWindow {
			f.state.b = uint32(k.max)
		}
	}
	if sh.coarse == nil {
		return
	}
	for i := range sh.coarse {
		if c := &sh.coarse[i]; c.at-now > c.hold {
			c.at = now + c.hold
			c.until = c.at + c.lasts
		}
	}
}

// settleFloor makes s what a floor of from's limit comes to at now under t's:
// whatever happens from now on, at least what any key that it stands for comes
// to. Unlike a key, a floor does not know at which instants the clock is held.
// So where the clock stepped back behind it, a bucket has not drained during the
// step, and a window is full for all of it.
func (t *terms) settleFloor(from *terms, s *settled, f state, now int64) {
	carries := t.carries(from)
	switch {
	case now >= f.at:
	case from.bucket:
		f.a += f.at - now
		if carries { // now it has as much to drain, and is not held
			f.at = now
		}
	case from.algorithm != AlgorithmSlidingLog:
		f.a = max(f.a, from.max)
	}
	if carries {
		t.settle(s, &f, now, nil)
		return
	}
	from.settle(s, &f, now, nil)
	t.convert(s, from)
}
