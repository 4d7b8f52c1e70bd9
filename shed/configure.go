package shed

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/shed/internal/adaptive"
)

// limits are the options of the limiter.
type limits struct {
	algorithm  shedlimit.Algorithm // of this repository's tests; nil: the next field decides
	fixed      int                 // 0: the limit is adaptive
	slo        time.Duration
	maxLimit   int
	maxWaiting int
	fair       bool // among tenants
	open       bool
}

// configure puts options into force, and returns the classes.
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
		l.window.begin(now, l.inFlight) // the algorithm before saw the old one
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

// adoptLocked puts the classes of these names into force. It writes to a new slice, since requests
// under way read the old one.
func (l *limiter) adoptLocked(names []Class) {
	before := slices.Concat(l.classes, l.retired) // a copy, even if nothing is retired
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
			c.openAt = 0 // no class is above it
		}
		l.classes[i] = c
	}
	for _, c := range before {
		if c != nil {
			l.retireLocked(c)
		}
	}
}

// maxRetired classes keep their counters for a Replace that names them again.
const maxRetired = 64

// retireLocked retires c. Its waiters move to the least important class. Its requests in flight
// count for no class.
func (l *limiter) retireLocked(c *class) {
	c.rank = retiredRank
	last := l.classes[len(l.classes)-1]
	for n := c.waiting.First; n != nil; n = n.Next {
		n.Of.class = last
	}
	last.waiting.join(&c.waiting)
	if len(l.retired) < maxRetired {
		l.retired = append(l.retired, c)
	}
}

// changeLocked puts the algorithm of options into force, and reports whether it changed.
func (l *limiter) changeLocked(options *limits) bool {
	next := options.algorithm
	switch {
	case next != nil:
		if l.algorithm != nil {
			return false // it stays
		}
	case options.fixed > 0:
		if next = fixed(options.fixed); l.algorithm == next {
			return false
		}
	default:
		if _, same := l.algorithm.(*adaptive.Algorithm); same {
			return false
		}
		next = adaptive.New()
	}
	l.algorithm = next
	return true
}

// fixed is the algorithm of Options.Limit.
type fixed int

func (f fixed) Update(shedlimit.Sample) int { return int(f) }
