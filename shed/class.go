package shed

// Class is a group of requests of one importance.
type Class struct {
	// Name says which class it is, in [Event] and [State]. Required, and different from
	// those of the other classes.
	Name string

	// Share is how much of the limit this class and all that are more important may fill,
	// in percent: 1 to 100, at most that of the class before. A request enters if fewer
	// than Share percent of the limit are in flight, of whichever class they are. What is
	// left of the limit is for the more important classes. Shares are rounded up, but the last place is always left to
	// the first class, if its share is larger. So the limit is at least 2 if shares differ: one place for
	// all classes, and one for the first.
	//
	// With the adaptive algorithm a small share costs no throughput, since the limit rises
	// until the service is busy, whatever class keeps it so. With [Options].Limit it does: a
	// class that is alone does not go beyond its share. 0: by position 100, 50, 30, 20, and 20 for
	// all that follow; that of the class before, if that is less.
	Share int
}

// maxClasses is the number of classes that a Shedder may have.
const maxClasses = 16

var defaultShares = [...]int{100, 50, 30, 20}

// class is a Class with what it counts. Its fields belong to the limiter's lock.
type class struct {
	name  string
	share int // percent
	rank  int // position, or retired
	full  int // requests in flight below which a request of the class enters
	low   int // the same of the last lot

	inFlight int
	waiting  queue

	reopening bool // see admitsLocked
	closedAt  instant

	admitted, shed, shadowed, left int64
	ahead                          int64 // of shed and shadowed
}

// retired is the rank of a class that a Replace has left out.
const retired = maxClasses
