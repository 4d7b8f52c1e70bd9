package remote

import (
	"context"
	"slices"
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

	// repeatTicks is how often in half of MaxAge some of them are announced.
	repeatTicks = 32

	// maxRepeatedKey is the longest scope and key that are kept, in bytes.
	maxRepeatedKey = 4 << 10

	// leastRepeatedAge is the least MaxAge with which denials are announced again: with a
	// shorter one the others believe nothing for long.
	leastRepeatedAge = 100 * time.Millisecond
)

// repeats are the denials that are announced again, each between three and seven eighths of MaxAge
// after the last time. A bunch of them is spread over half of MaxAge.
type repeats struct {
	tick    time.Duration
	perTick int
	after   time.Duration

	mu    sync.Mutex
	known map[announced]struct{} // at most repeatTicks·perTick
	queue []repeated             // by their time
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
	most := int(min(maxRepeated, (maxAge/2).Seconds()*repeatedPerSecond))
	return &repeats{tick: maxAge / 2 / repeatTicks, perTick: max(1, most/repeatTicks), after: maxAge * 3 / 8}
}

// repeatLater has the denial of what announced again.
func (c *DenialCache) repeatLater(what announced) {
	r := c.announcing.repeats
	if len(what.scope)+len(what.key) > maxRepeatedKey {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.known[what]; known || len(r.known) >= repeatTicks*r.perTick {
		return
	}
	if r.known == nil {
		r.known = make(map[announced]struct{})
		time.AfterFunc(r.tick, c.announceAgain)
	}
	what.scope, what.key = strings.Clone(what.scope), strings.Clone(what.key) // they may be parts of larger ones
	r.known[what] = struct{}{}
	r.queue = append(r.queue, repeated{what, time.Now()})
}

// takeDue takes a tick's worth of what is to be announced out of the queue.
func (r *repeats) takeDue() []repeated {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < min(r.perTick, len(r.queue)) && time.Since(r.queue[n].last) >= r.after {
		n++
	}
	due := slices.Clone(r.queue[:n])
	r.queue = r.queue[n:]
	return due
}

// announceAgain announces a tick's worth of what is still denied, at every tick until nothing is.
func (c *DenialCache) announceAgain() {
	due := c.announcing.repeats.takeDue()
	over := make([]bool, len(due))
	defer c.announceLater(due, over) // even if the backend or the announcer ends the goroutine
	for i := range due {
		over[i] = true // unless it returns
		asked, still := c.stillDenied(&due[i].announced)
		due[i].last, over[i] = asked, !still
	}
}

// announceLater puts back what was due and is not over.
func (c *DenialCache) announceLater(due []repeated, over []bool) {
	r := c.announcing.repeats
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range due {
		if over[i] {
			delete(r.known, due[i].announced)
		} else {
			r.queue = append(r.queue, due[i])
		}
	}
	if len(r.known) == 0 {
		r.known, r.queue = nil, nil
		return
	}
	time.AfterFunc(r.tick, c.announceAgain)
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
