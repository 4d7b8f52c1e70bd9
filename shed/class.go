package shed

import "time"

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
