package core

import "math"

// coarseFloor stands for the floors of any number of classes of a scope, of which it
// knows less than they do: how many units were in use at most, and until when. Until
// then, as many count as taken now.
type coarseFloor struct {
	scope uint64 // class.mix; 0: of several scopes
	at    int64  // before this instant everything was in use, for all that is known
	until int64
	units int64
	hold  int64 // the longest of the classes
	lasts int64 // how long it takes until the slowest of the classes is fresh
}

// coarseFloors are the coarse floors of a shard, each in the place that the hash of
// its scope picks: 3 KiB, once there are any. Scopes that meet in one place have
// one coarse floor together.
type coarseFloors [64]coarseFloor

func (c *coarseFloors) of(k *class) *coarseFloor { return &c[k.mix%uint64(len(c))] }

// coarseLocked returns the coarse floor of the scope of k, nil if it has none.
func (sh *shard) coarseLocked(k *class) *coarseFloor {
	if sh.coarse == nil {
		return nil
	}
	if c := sh.coarse.of(k); c.until > 0 && (c.scope == k.mix || c.scope == 0) {
		return c
	}
	return nil
}

// foldLocked adds a floor to a shard that has maxFloors of them. Of the scope that
// has most, the one that is soonest fresh becomes part of a coarse floor instead.
func (sh *shard) foldLocked(added floor, now int64) {
	var counts [shares]uint8
	most := added.class.share
	counts[most] = 1
	for i := range sh.floors {
		share := sh.floors[i].class.share
		if counts[share]++; counts[share] > counts[most] {
			most = share
		}
	}
	soonest, until := &added, int64(math.MaxInt64)
	if added.class.share == most {
		until = added.class.freshAt(&added.state)
	}
	for i := range sh.floors {
		f := &sh.floors[i]
		if f.class.share != most {
			continue
		}
		if at := f.class.freshAt(&f.state); at < until {
			soonest, until = f, at
		}
	}
	if sh.coarse == nil {
		sh.coarse = new(coarseFloors)
	}
	c := sh.coarse.of(soonest.class)
	if c.until > 0 && c.until <= now {
		*c = coarseFloor{}
		sh.noteClearLocked(now)
	}
	c.raise(soonest.class, &soonest.state, until)
	*soonest = added
}

// raise makes c at least the state s of k, which is fresh at an instant.
func (c *coarseFloor) raise(k *class, s *state, freshAt int64) {
	switch {
	case c.until == 0:
		c.scope = k.mix
	case c.scope != k.mix:
		c.scope = 0
	}
	units, lasts := k.counted(s), k.period
	switch {
	case k.bucket:
		units, lasts = k.drained(span{s.a, int64(s.b)}), k.full.ceil()
	case k.algorithm == AlgorithmSlidingWindow:
		lasts = 2 * k.period
	}
	c.at, c.until = max(c.at, s.at), max(c.until, freshAt)
	c.units, c.hold, c.lasts = max(c.units, units), max(c.hold, k.hold), max(c.lasts, lasts)
}

// drained returns how many units, rounded up, drain from a bucket in a time that is
// at most t.full.
func (t *terms) drained(d span) int64 {
	room := t.minus(t.full, d)
	return t.max - muldivPlus(room.us, t.q, room.frac, t.p)
}

// used returns how many units of a key under the limit of t count as taken now.
func (c *coarseFloor) used(t *terms, now int64) int64 {
	if now < c.at {
		return t.max
	}
	return min(c.units, t.max)
}
