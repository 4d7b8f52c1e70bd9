package memory

// The switches that floors need: see memory_floor.go.

// flatten returns s as a state that needs no list of takings and stands for every key
// that was displaced.
func (l *compiledLimit) flatten(s *view) state {
	switch l.family {
	case familyBucket, familyWindow:
		return s.state
	case familyAnchoredWindow:
		return l.anchoredFlatten(s.state)
	case familyLog:
		return l.logFlatten(s)
	case familyBan:
		return l.banFlatten(s.state)
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// larger returns a flat state that has, at every instant from the later of a and b
// on, at least as much in use as either of them.
func (l *compiledLimit) larger(a, b state) state {
	if a.at > b.at {
		a, b = b, a
	}
	switch l.family {
	case familyBucket:
		return l.bucketLarger(a, b)
	case familyWindow:
		return l.windowLarger(a, b)
	case familyAnchoredWindow:
		return l.anchoredLarger(a, b)
	case familyLog:
		return l.logLarger(a, b)
	case familyBan:
		return l.banLarger(a, b)
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// fullState returns the largest flat state that a key can have at the instant now.
func (l *compiledLimit) fullState(now int64) state {
	switch l.family {
	case familyBucket:
		return state{at: now, a: l.full.us, b: uint32(l.full.frac)}
	case familyWindow:
		return l.windowFullState(now)
	case familyAnchoredWindow:
		return l.anchoredFlatten(state{at: now, a: l.max})
	case familyLog:
		return state{at: now, b: packLog(l.max, l.max)}
	case familyBan:
		return l.banFlatten(state{at: now, b: uint32(l.max)})
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// stepFloorBack makes f a floor at the instant now, at which the clock has stepped
// back behind it. A floor does not know at which instants time stands still for the
// keys that it stands for. So a bucket has not drained during the step, and a window
// is full for all of it. If f carries over to the limit that decides, a bucket's f.at
// becomes now: time does not stand still for it.
func (l *compiledLimit) stepFloorBack(f *state, now int64, carries bool) {
	switch l.family {
	case familyBucket:
		l.bucketStepFloorBack(f, now, carries)
	case familyWindow, familyAnchoredWindow:
		f.a = max(f.a, l.max)
	case familyBan:
	case familyLog: // counts in full until a period after f.at
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// unitsIn returns the units in a state, rounded up.
func (l *compiledLimit) unitsIn(s *state) int64 {
	switch l.family {
	case familyBucket:
		return l.bucketUnits(span{s.a, int64(s.b)})
	case familyWindow, familyAnchoredWindow, familyLog, familyBan:
		return l.counted(s)
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// lasts returns the longest time until a state is fresh.
func (l *compiledLimit) lasts() int64 {
	switch l.family {
	case familyBucket:
		return l.full.ceil()
	case familyWindow:
		return l.windowLasts()
	case familyAnchoredWindow, familyLog:
		return l.period
	case familyBan:
		return max(l.period, l.banned)
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}
