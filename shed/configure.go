package shed

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// limits are the options that the limiter looks at.
type limits struct {
	algorithm  shedlimit.Algorithm // of this repository's tests; nil: the next field decides
	fixed      int                 // 0: the limit is adaptive
	slo        time.Duration
	maxLimit   int
	maxWaiting int
	fair       bool // among tenants
	open       bool
}

// configure puts options into force and returns the classes.
func (l *limiter) configure(names []Class, options limits) []*class {
	if len(names) == 0 {
		names = []Class{{Name: "all"}}
	}
	now := l.lock()
	defer l.mu.Unlock()
	l.slo, l.maxWaiting, l.advisory = options.slo, options.maxWaiting, options.open
	l.maxLimit, l.bounded = options.maxLimit, options.maxLimit > 0
	if !l.bounded {
		l.maxLimit = max(defaultMaxInFlight, options.fixed)
	}
	switch {
	case !options.fair:
		l.tenants = nil
	case l.tenants == nil:
		l.tenants = newTenants()
	}
	l.adoptLocked(names)
	if l.changeLocked(&options) {
		l.window.begin(now, l.inFlight) // what others have seen is not for this one
		l.updateLocked(now)
	} else {
		l.setLimitLocked(l.limit)
	}
	if l.advisory {
		l.emptyLocked(now)
	} else {
		l.dispatchLocked(now)
	}
	return l.classes
}

// adoptLocked makes the classes of these names the ones in force. It never writes the slice
// of those before, which requests under way read.
func (l *limiter) adoptLocked(names []Class) {
	before := slices.Concat(l.classes, l.retired) // a copy, also if nothing is retired
	l.retired = nil
	l.classes = make([]*class, len(names))
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
			c.reopening = false // nothing is above it any more
		}
		l.classes[i] = c
	}
	for _, c := range before {
		if c != nil {
			l.retireLocked(c)
		}
	}
}

// maxRetired is how many classes keep their counters for a Replace that names them again.
const maxRetired = 64

// retireLocked leaves c out. Its waiters become those of the least important class, and its
// requests in flight count for none.
func (l *limiter) retireLocked(c *class) {
	c.rank = retired
	last := l.classes[len(l.classes)-1]
	for n := c.waiting.First; n != nil; n = n.Next {
		n.Of.class = last
	}
	last.waiting.join(&c.waiting)
	if len(l.retired) < maxRetired {
		l.retired = append(l.retired, c)
	}
}

// changeLocked puts the algorithm of options into force, and reports whether it is another one.
func (l *limiter) changeLocked(options *limits) bool {
	next := options.algorithm
	switch {
	case next != nil:
		if l.algorithm != nil {
			return false // it serves the limiter for ever
		}
	case options.fixed > 0:
		if next = fixed(options.fixed); l.algorithm == next {
			return false
		}
	default:
		if _, same := l.algorithm.(*adaptive); same {
			return false
		}
		next = newAdaptive()
	}
	l.algorithm = next
	return true
}

// fixed is the algorithm of Options.Limit.
type fixed int

func (f fixed) Update(shedlimit.Sample) int { return int(f) }
