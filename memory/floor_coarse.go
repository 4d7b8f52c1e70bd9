package memory

import "math"

// coarseFloor stands for the floors of any number of limits of a scope, in less
// detail: how many units are in use at most, and until when. Until then as many units
// count as taken now.
type coarseFloor struct {
	scope       uint64 // scopedLimit.scopeHash; 0: several scopes
	at          int64  // before this instant all units count as in use
	until       int64
	units       int64
	maxStepBack int64 // the longest of any of the limits
	lasts       int64 // the longest of any of the limits
}

// coarseFloors are the coarse floors of a shard: 3 KiB, allocated when the first is
// needed. The hash of a scope picks its slot. Scopes with the same slot share one
// coarse floor.
type coarseFloors [64]coarseFloor

func (c *coarseFloors) of(limit *scopedLimit) *coarseFloor { return &c[limit.scopeHash%uint64(len(c))] }

// coarseLocked returns the coarse floor of limit's scope, nil if there is none.
func (sh *shard) coarseLocked(limit *scopedLimit) *coarseFloor {
	if sh.coarse == nil {
		return nil
	}
	if c := sh.coarse.of(limit); c.until > 0 && (c.scope == limit.scopeHash || c.scope == 0) {
		return c
	}
	return nil
}

// foldLocked adds a floor to a shard that has maxFloors of them. To make room it moves
// one floor into a coarse floor: the one that is fresh soonest, of the scope that has
// most floors.
func (sh *shard) foldLocked(added floor, now int64) {
	var counts [shares]uint8
	most := added.limit.share
	counts[most] = 1
	for i := range sh.floors {
		share := sh.floors[i].limit.share
		if counts[share]++; counts[share] > counts[most] {
			most = share
		}
	}
	soonest, until := &added, int64(math.MaxInt64)
	if added.limit.share == most {
		until = added.limit.freshAt(&added.state)
	}
	for i := range sh.floors {
		f := &sh.floors[i]
		if f.limit.share != most {
			continue
		}
		if at := f.limit.freshAt(&f.state); at < until {
			soonest, until = f, at
		}
	}
	if sh.coarse == nil {
		sh.coarse = new(coarseFloors)
	}
	c := sh.coarse.of(soonest.limit)
	if c.until > 0 && c.until <= now {
		*c = coarseFloor{}
		sh.noteClearLocked(now)
	}
	c.raise(soonest.limit, &soonest.state, until)
	*soonest = added
}

// raise adds s, a state under limit that is fresh at freshAt, to c.
func (c *coarseFloor) raise(limit *scopedLimit, s *state, freshAt int64) {
	switch {
	case c.until == 0:
		c.scope = limit.scopeHash
	case c.scope != limit.scopeHash:
		c.scope = 0
	}
	c.at, c.until = max(c.at, s.at), max(c.until, freshAt)
	c.units, c.maxStepBack, c.lasts = max(c.units, limit.unitsIn(s)), max(c.maxStepBack, limit.maxStepBack), max(c.lasts, limit.lasts())
}

// used returns how many units count as taken now for a key under l.
func (c *coarseFloor) used(l *compiledLimit, now int64) int64 {
	if now < c.at {
		return l.max
	}
	return min(c.units, l.max)
}
