package remote

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/call"
	"github.com/weir-go/weir/limits"
)

const (
	// maxRepeated is how many denials of a backend in this process are announced again and
	// again. Denials above that are announced when they are decided.
	maxRepeated = 4_096

	// repeatedPerSecond is how many of them are announced in a second at most, so that an
	// announcer with its own bound has room for those that are new.
	repeatedPerSecond = 820

	// repeatTicks is in how many steps all of them are announced once.
	repeatTicks = 32

	// maxRepeatedKey is the longest scope and key that are kept, in bytes.
	maxRepeatedKey = 4 << 10

	// leastRepeatedAge is the least MaxAge with which denials are announced again: with a
	// shorter one the others believe nothing for long.
	leastRepeatedAge = 100 * time.Millisecond
)

// repeats are the denials that are announced again every half of MaxAge. A bunch of them is
// spread over that time.
type repeats struct {
	every time.Duration // half of MaxAge
	most  int           // of queue

	mu    sync.Mutex
	known map[announced]struct{}
	queue []repeated // by their time
}

// announced is a charge whose denial is announced again.
type announced struct {
	scope, key string
	limit      limits.Limit
	cost       int64
}

type repeated struct {
	announced
	last time.Time // when it was announced
}

// newRepeats returns nil if maxAge is too short to repeat anything.
func newRepeats(maxAge time.Duration) *repeats {
	if maxAge < leastRepeatedAge {
		return nil
	}
	every := maxAge / 2
	return &repeats{every: every, most: int(min(maxRepeated, every.Seconds()*repeatedPerSecond))}
}

// repeatLater has the denial of what announced again.
func (c *DenialCache) repeatLater(what announced) {
	r := c.announcing.repeats
	if len(what.scope)+len(what.key) > maxRepeatedKey {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.known[what]; known || len(r.known) >= r.most {
		return
	}
	if r.known == nil {
		r.known = make(map[announced]struct{})
	}
	what.scope, what.key = strings.Clone(what.scope), strings.Clone(what.key) // they may be parts of larger ones
	r.known[what] = struct{}{}
	r.queue = append(r.queue, repeated{what, time.Now()})
	if len(r.known) == 1 {
		c.repeatSoonLocked()
	}
}

// repeatSoonLocked waits for the time of the first in the queue, and looks at it now and then
// meanwhile: a bunch that comes behind it makes that earlier.
func (c *DenialCache) repeatSoonLocked() {
	r := c.announcing.repeats
	wait := max(r.every/repeatTicks, time.Until(r.dueLocked()))
	time.AfterFunc(min(wait, r.every/8), c.announceAgain)
}

// dueLocked returns when the first in the queue is to be announced, so early that the others
// follow in time even if all are as old.
func (r *repeats) dueLocked() time.Time {
	if len(r.queue) == 0 {
		return time.Now()
	}
	return r.queue[0].last.Add(r.every - time.Duration(len(r.queue)/r.perTick())*(r.every/repeatTicks))
}

func (r *repeats) perTick() int { return (r.most + repeatTicks - 1) / repeatTicks }

// announceAgain announces a tick's worth of what is still denied.
func (c *DenialCache) announceAgain() {
	r := c.announcing.repeats
	r.mu.Lock()
	n := 0
	if !r.dueLocked().After(time.Now()) {
		n = min(len(r.queue), r.perTick())
	}
	some := append([]repeated(nil), r.queue[:n]...)
	r.queue = r.queue[n:]
	r.mu.Unlock()
	kept := some[:0]
	over := make([]announced, 0, n)
	for _, what := range some {
		if asked, still := c.stillDenied(&what.announced); still {
			kept = append(kept, repeated{what.announced, asked})
		} else {
			over = append(over, what.announced)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, what := range over {
		delete(r.known, what)
	}
	r.queue = append(r.queue, kept...)
	if len(r.known) == 0 {
		r.known, r.queue = nil, nil
		return
	}
	c.repeatSoonLocked()
}

// stillDenied announces what again if the inner backend still denies it. It returns when it
// asked. A panic of the backend or the announcer ends the repetition, not the program.
func (c *DenialCache) stillDenied(what *announced) (asked time.Time, still bool) {
	defer func() {
		if recover() != nil {
			still = false
		}
	}()
	charges := []limits.Charge{{Scope: what.scope, Key: what.key, Limit: what.limit, Cost: what.cost}}
	var d [1]limits.Decision
	asked = time.Now()
	if err := call.Peek(context.Background(), c.inner, charges, d[:]); err != nil || d[0].Allowed || d[0].RetryAfter < leastAnnounced {
		return asked, false
	}
	c.announcing.to.Announce(limits.Announcement{Scope: what.scope, Key: what.key, Limit: what.limit, Cost: what.cost, Asked: asked, Decision: d[0]})
	return asked, true
}
