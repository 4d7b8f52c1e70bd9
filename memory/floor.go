package memory

import "github.com/weir-go/weir/limits"

// floor is the largest state that a shard has displaced under one limit, kept until it
// is fresh. A key that is not found may have used as much. It starts from the floor,
// so that being displaced never gives a key a fresh budget. The floors of a shard are
// its summary.
type floor struct {
	limit *scopedLimit
	state state
}

// maxFloors is how many floors a shard keeps, which bounds the work of a decision on a
// new key. When more limits are displaced, a coarseFloor stands for floors of the
// scope that has most of them.
const maxFloors = 32

// raiseFloorLocked adds s, which is displaced, to the floor of its limit. It drops the
// floors that are fresh.
func (sh *shard) raiseFloorLocked(s *state, now int64) {
	limit := sh.limits.get(s.limitID)
	raised := *s
	if limit.family == familyLog {
		raised = raised.logWithoutList()
	}
	if sh.floors == nil {
		sh.floors = make([]floor, 0, maxFloors)
	}
	kept := sh.floors[:0]
	for _, f := range sh.floors {
		switch {
		case f.limit == limit:
			raised = limit.larger(f.state, raised)
		case f.limit.freshAt(&f.state) > now:
			kept = append(kept, f)
		default:
			sh.noteClearLocked(now)
		}
	}
	clear(sh.floors[len(kept):])
	if len(kept) == maxFloors {
		sh.floors = kept
		sh.foldLocked(floor{limit, raised}, now)
		return
	}
	sh.floors = append(kept, floor{limit, raised})
}

// floorLocked sets s to the view under limit of a key that is not found: the largest
// of the floors of its scope.
func (sh *shard) floorLocked(s *view, limit *scopedLimit, now int64) {
	var largest state
	var most int64
	found, asStored := 0, true // asStored: the floor is a state under limit, and not ahead of now
	raise := func() {
		if limit.algorithm == limits.AlgorithmSlidingWindow {
			most = max(most, limit.inUse(s))
		}
		if found++; found > 1 {
			largest = limit.larger(largest, limit.flatten(s))
		} else {
			largest = limit.flatten(s)
		}
	}
	for i := range sh.floors {
		f := &sh.floors[i]
		if f.limit.scope != limit.scope || f.limit.freshAt(&f.state) <= now {
			continue
		}
		if f.limit.family != limit.family && (f.limit.family == familyBan || limit.family == familyBan) {
			continue // what counts for a ban is not what counts for a rate
		}
		limit.advanceFloor(&f.limit.compiledLimit, s, f.state, now)
		asStored = asStored && now >= f.state.at && limit.carries(&f.limit.compiledLimit) && limit.freshAt(&f.state) <= f.limit.freshAt(&f.state)
		raise()
	}
	if c := sh.coarseLocked(limit); c != nil && c.until > now {
		limit.fresh(s, now)
		limit.take(s, c.used(&limit.compiledLimit, now))
		asStored = false
		raise()
	}
	if found == 0 {
		limit.fresh(s, now)
		return
	}
	limit.advanceFloor(&limit.compiledLimit, s, largest, now)
	if limit.family == familyBan {
		limit.banInherit(&s.state)
	}
	if found > 1 || !asStored {
		if s.limitID, s.summary = limit.id, sh; limit.algorithm == limits.AlgorithmSlidingWindow {
			s.log.sum = most
		}
	}
}

// floorWaitsLocked returns two waits, from now, for the view that floorLocked makes
// under the limit with this id: until n units fit, which do not fit now, and until the
// view is fresh. If the clock stepped back behind several floors, the waits may be
// longer than needed.
func (sh *shard) floorWaitsLocked(id uint16, n, now int64) (fits, fresh int64) {
	limit := sh.limits.get(id)
	for i := range sh.floors {
		f := &sh.floors[i]
		if f.limit.scope != limit.scope || f.limit.freshAt(&f.state) <= now {
			continue
		}
		untilFits, untilFresh := limit.floorWaits(&f.limit.compiledLimit, f.state, n, now)
		fits, fresh = max(fits, untilFits), max(fresh, untilFresh)
	}
	if c := sh.coarseLocked(limit); c != nil && c.until > now {
		fresh = max(fresh, c.until-now)
		switch {
		case c.units+n > limit.max:
			fits = max(fits, c.until-now)
		case now < c.at:
			fits = max(fits, c.at-now)
		}
	}
	return fits, fresh
}

// floorWaits is floorWaitsLocked for the floor f, a state under from.
func (l *compiledLimit) floorWaits(from *compiledLimit, f state, n, now int64) (fits, fresh int64) {
	carries, lag := l.carries(from), int64(0)
	if !carries && (l.family == familyBan || from.family == familyBan) {
		return 0, 0
	}
	if now < f.at && !(carries && l.family == familyBucket) {
		lag = f.at - now
	}
	var s view
	if lag > 0 {
		fresh = lag
		if l.advanceFloor(from, &s, f, now); l.family != familyLog || !l.fits(&s, n) {
			fits = lag // until then the view of all floors has more in use than this one
		}
	}
	if carries {
		l.advanceFloor(from, &s, f, now+lag)
		if !l.fits(&s, n) {
			fits = lag + l.untilFits(&s, n, nil)
		}
		gone := from.freshAt(&f) - now // no key of the floor has anything in use then
		return min(fits, gone), min(max(fresh, l.freshAt(&s.state)-now), gone)
	}
	from.advance(&s, &f, now+lag, nil)
	used := min(from.used(&s), l.max)
	if used+n > l.max {
		fits = lag + from.untilFits(&s, from.max-(l.max-n), nil)
	}
	if used > 0 {
		fresh = lag + from.untilFits(&s, from.max, nil)
	}
	return fits, fresh
}

// rebaseFloorsLocked rebases the floors that are too far ahead of the clock, which has
// stepped back to now. The keys that a floor stands for may have been rebased at any
// instant, or not at all. So the floor becomes the largest state that any of them can
// have: all units in use, at the latest instant that is not rebased.
func (sh *shard) rebaseFloorsLocked(now int64) {
	for i := range sh.floors {
		f := &sh.floors[i]
		limit := f.limit
		if f.state.at-now <= limit.maxStepBack {
			continue
		}
		f.state = limit.fullState(now + limit.maxStepBack)
		f.state.limitID = limit.id
	}
	if sh.coarse == nil {
		return
	}
	for i := range sh.coarse {
		if c := &sh.coarse[i]; c.at-now > c.maxStepBack {
			c.at = now + c.maxStepBack
			c.until = c.at + c.lasts
		}
	}
}

// advanceFloor advances f, a floor under from, to now and sets s to the view under l.
// At every later instant the view has at least as much in use as any key that the
// floor stands for.
func (l *compiledLimit) advanceFloor(from *compiledLimit, s *view, f state, now int64) {
	carries := l.carries(from)
	if now < f.at {
		from.stepFloorBack(&f, now, carries)
	}
	if carries {
		l.advance(s, &f, now, nil)
		return
	}
	from.advance(s, &f, now, nil)
	l.convert(s, from)
}
