package shed

import (
	"slices"
	"time"
)

// Class is a group of requests of one importance.
type Class struct {
	// Name names the class in [Event] and [State]. Required, and unique.
	Name string

	// Share is the part of the limit, in percent, that this class and the more important ones may
	// fill together: 1 to 100, at most that of the class before. A request enters if fewer than
	// Share percent of the limit are in flight, of any class. The rest of the limit is for the more
	// important classes. Shares are rounded up, but the last place is for the first class, if its
	// share is larger. So the limit is at least 2 if shares differ: one place for all classes, and
	// one for the first.
	//
	// A small share costs no throughput, since the limit rises until the service is busy. With a
	// fixed [Options].Limit it does: a class that is alone does not go beyond its share. 0: by
	// position 100, 50, 30, 20, and 20 for all that follow; at most that of the class before.
	Share int
}

// maxClasses is the number of classes that a Shedder may have.
const maxClasses = 16

var defaultShares = [...]int{100, 50, 30, 20}

// share returns the share of c at position i, after a class with the share before.
func (c Class) share(i, before int) int {
	if c.Share != 0 {
		return c.Share
	}
	return min(before, defaultShares[min(i, len(defaultShares)-1)])
}

// class is a Class and its counts. The limiter's lock guards its fields.
type class struct {
	name  string
	share int // percent
	rank  int // position, or retiredRank
	full  int // requests in flight below which a request of the class enters
	low   int // the same for the last lot

	inFlight int
	waiting  queue
	openAt   instant // all its places are open from then on: see close

	admitted, shed, shadowed, left int64
	ahead                          int64 // of shed and shadowed
	comeback                       comeback
}

// shedOne counts a request of c that is shed.
func (c *class) shedOne(now instant) {
	c.shed++
	c.comeback.note(c.admitted, c.shed, now)
}

// retiredRank is the rank of a class that a Replace left out.
const retiredRank = maxClasses

// reopenTime is how long a class takes to reopen after close.
const reopenTime = time.Second

// close leaves one place of c open. The others open again evenly over reopenTime: otherwise all
// requests that clients repeat would begin at once.
func (c *class) close(now instant) { c.openAt = now + reopenTime }

// hasOpenPlace reports whether c has fewer requests in flight than open places.
func (c *class) hasOpenPlace(now instant) bool {
	left := c.openAt - now
	if left <= 0 {
		return true
	}
	open := 1 + int64(c.full)*int64(reopenTime-left)/int64(reopenTime)
	return int64(c.inFlight) < open
}

// fullFor returns the number of requests in flight below which a request of c with lot enters.
func (c *class) fullFor(lot uint32) int {
	above := int64(max(0, c.full-c.low)) * int64(lot) / lots
	return max(1, c.full-int(above))
}

// classes are those in force, and those that a Replace left out. The limiter's lock guards them.
type classes struct {
	list    []*class // the most important first
	retired []*class
}

// adopt puts the classes of these names into force. It writes to a new slice, since requests
// under way read the old one.
func (k *classes) adopt(names []Class) {
	before := slices.Concat(k.list, k.retired) // a copy, even if nothing is retired
	k.retired = nil
	k.list = make([]*class, len(names))
	share := 100
	for i, n := range names {
		share = n.share(i, share)
		var c *class
		for j, old := range before {
			if old != nil && old.name == n.Name {
				c, before[j] = old, nil
			}
		}
		if c == nil {
			c = &class{name: n.Name}
		}
		c.share, c.rank = share, i
		if i == 0 {
			c.openAt = 0 // no class is above it
		}
		k.list[i] = c
	}
	for _, c := range before {
		if c != nil {
			k.retire(c)
		}
	}
}

// maxRetired classes keep their counters for a Replace that names them again.
const maxRetired = 64

// retire retires c. Its waiters move to the least important class. Its requests in flight
// count for no class.
func (k *classes) retire(c *class) {
	c.rank = retiredRank
	last := k.last()
	for n := c.waiting.First; n != nil; n = n.Next {
		n.Of.class = last
	}
	last.waiting.join(&c.waiting)
	if len(k.retired) < maxRetired {
		k.retired = append(k.retired, c)
	}
}

// least returns the least limit: 2 if shares differ, so that all classes have a place and the
// first has one more.
func (k *classes) least() int {
	if last := k.last(); last.share < k.list[0].share {
		return 2
	}
	return 1
}

// refuse notes that a request of c did not get in. If more important classes fill the share
// of c, it closes c and all less important classes, even those without requests: they would take
// the places that c leaves free. All reopen together.
func (k *classes) refuse(c *class, now instant) {
	above := 0
	for _, other := range k.list[:c.rank] {
		above += other.inFlight
	}
	if above < c.full {
		return
	}
	for _, other := range k.list[c.rank:] {
		other.close(now)
	}
}

// inForce returns c. If a Replace has left c out since the request read its options, it
// returns the last class.
func (k *classes) inForce(c *class) *class {
	if c.rank == retiredRank {
		return k.last()
	}
	return c
}

// last returns the least important class.
func (k *classes) last() *class { return k.list[len(k.list)-1] }

// divide says how many requests of each class may be in flight, of limit. Any class may fill the
// common places of it, and shares are parts of the rest. A class with a smaller share than the
// first always has a place, and leaves the first one a place, however shares are rounded.
func (k *classes) divide(limit, common int) {
	common = min(common, limit-1)
	first := k.list[0]
	for _, c := range k.list {
		c.full = common + (c.share*(limit-common)+99)/100
		if c.share == first.share {
			c.full = max(c.full, k.least())
		} else {
			c.full = min(c.full, first.full-1)
		}
	}
	// Requests with the last lot may fill as much as the next class. In the last class they may fill
	// the common places and lastLot percent of the others.
	for i := 1; i < len(k.list); i++ {
		k.list[i-1].low = k.list[i].full
	}
	last := k.last()
	last.low = common + (last.full-common)*lastLot/100
}
