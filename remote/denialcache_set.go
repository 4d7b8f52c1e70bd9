package remote

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// The table of a denial cache has sets of four denials, each with a lock of its own.

const denialWays = 4

type denialSet struct {
	mu      sync.Mutex
	resetAt int64 // latest reset of a key; answers to earlier questions are not remembered
	denials [denialWays]denial
}

// denial is a remembered denial. Instants are microseconds since DenialCache.base.
type denial struct {
	hash  uint64 // of scope and key; 0: empty
	limit limits.Limit
	cost  int64
	sent  int64 // when the question was sent
	heard bool  // another process asked, and announced the answer
	limits.Decision
}

// until returns when d ends. If that is never, it is later than any instant.
func (d *denial) until() int64 { return d.sent + d.RetryAfter.Microseconds() }

// recollection is the result of recall.
type recollection uint8

const (
	nothing recollection = iota
	recalled
	tooOld
)

// recall sets out to the denial of ch, as of now, if the cache has one that it may believe. Of
// several it takes the one that lasts longest.
func (c *DenialCache) recall(
	ch *backends.Charge, out *limits.Decision, now int64, failing bool,
) (found recollection) {
	hash := c.hasher.hash(ch.Scope, ch.Key)
	set := c.slot(hash).Load()
	if set == nil {
		return nothing
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	var longest *denial
	for i := range set.denials {
		d := &set.denials[i]
		switch {
		case !d.answers(hash, ch) || now >= c.standsUntil(d):
		case !failing && now >= c.believedUntil(d):
			found = tooOld
		case longest == nil || d.until() > longest.until():
			longest = d
		}
	}
	if longest == nil {
		return found
	}
	*out = longest.after(max(0, now-longest.sent)) // another caller may have sent it after now
	return recalled
}

// answers reports whether d answers ch, whose scope and key have the hash.
func (d *denial) answers(hash uint64, ch *backends.Charge) bool {
	return d.hash == hash && d.cost == ch.Cost && d.limit == ch.Limit
}

// after returns the decision of d some microseconds after its question was sent.
func (d *denial) after(us int64) limits.Decision {
	later := d.Decision
	later.Source = limits.SourceDenialCache
	later.At += us
	later.ResetAfter = max(0, later.ResetAfter-arith.Wait(us))
	if later.RetryAfter != limits.Never {
		later.RetryAfter -= arith.Wait(us)
		later.EffectiveWindow = later.RetryAfter
	}
	return later
}

// remember keeps the denial of ch, whose question was sent at the instant sent.
func (c *DenialCache) remember(ch *backends.Charge, d *limits.Decision, sent int64) {
	c.keep(ch, denial{limit: ch.Limit, cost: ch.Cost, sent: sent, Decision: *d})
}

// rememberHeard is remember for a denial that another process has announced. Any process that
// reaches the announcer may have forged it. So it is kept beside the denial that this process has
// asked for, and shortens none that is believed.
func (c *DenialCache) rememberHeard(ch *backends.Charge, d *limits.Decision, sent int64) {
	c.keep(ch, denial{limit: ch.Limit, cost: ch.Cost, sent: sent, heard: true, Decision: *d})
}

func (c *DenialCache) keep(ch *backends.Charge, d denial) {
	d.hash = c.hasher.hash(ch.Scope, ch.Key)
	set := c.set(d.hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	if d.sent <= set.resetAt || d.heard && !c.outlastsLocked(&d, set, ch) {
		return
	}
	slot := set.findLocked(&d, ch)
	if slot != nil && slot.sent > d.sent { // an earlier question, answered later
		return
	}
	if slot == nil {
		slot = c.victimLocked(set, d.heard)
	}
	if slot != nil {
		*slot = d
	}
}

// sameEnd is how far apart the ends of two announced denials may be that are really one: messages
// differ in how long they travel.
const sameEnd = time.Second

// outlastsLocked reports whether d, which was announced, shortens no other denial of ch. If d is
// the same as another one it gets the same end. A d that ends much sooner is refused: it may be
// forged. If it comes from after a reset, the other denials are soon too old anyhow.
func (c *DenialCache) outlastsLocked(d *denial, set *denialSet, ch *backends.Charge) bool {
	now := c.now()
	for i := range set.denials {
		old := &set.denials[i]
		if !old.answers(d.hash, ch) || now >= c.standsUntil(old) {
			continue
		}
		sooner := arith.Wait(old.until() - d.until())
		if sooner > sameEnd {
			return false
		}
		d.RetryAfter += max(0, sooner)
	}
	return true
}

// findLocked returns the denial that d replaces, or nil.
func (s *denialSet) findLocked(d *denial, ch *backends.Charge) *denial {
	for i := range s.denials {
		if old := &s.denials[i]; old.heard == d.heard && old.answers(d.hash, ch) {
			return old
		}
	}
	return nil
}

// victimLocked returns the slot of set that a new denial takes: the one whose denial is believed
// for the shortest time. Denials that this process has asked for, and still believes, go last, and
// never for an announced one: then it returns nil.
func (c *DenialCache) victimLocked(set *denialSet, heard bool) *denial {
	now := c.now()
	var slot *denial
	var slotOwn bool
	for i := range set.denials {
		old := &set.denials[i]
		own := !old.heard && c.believedUntil(old) > now
		if slot == nil || slotOwn && !own ||
			own == slotOwn && c.believedUntil(old) < c.believedUntil(slot) {
			slot, slotOwn = old, own
		}
	}
	if heard && slotOwn {
		return nil
	}
	return slot
}

// believedUntil returns until when d answers while the inner backend works.
func (c *DenialCache) believedUntil(d *denial) int64 {
	return min(d.until(), d.sent+c.maxAgeOf(&d.limit))
}

// standsUntil returns until when d answers while the inner backend fails.
func (c *DenialCache) standsUntil(d *denial) int64 {
	if d.heard {
		return c.believedUntil(d)
	}
	return d.until()
}

// maxAgeOf returns how long denials by a limit are believed while the inner backend works. Units
// that other processes lease count as used, and return within a lease.
func (c *DenialCache) maxAgeOf(limit *limits.Limit) int64 {
	if c.leases == nil {
		return c.maxAge
	}
	if lease := c.leases.terms.get(limit, c.leases.term).lease; lease > 0 {
		return min(c.maxAge, lease)
	}
	return c.maxAge
}

// forget drops the denial of ch if its question was sent before the instant sent.
func (c *DenialCache) forget(ch *backends.Charge, sent int64) {
	hash := c.hasher.hash(ch.Scope, ch.Key)
	set := c.slot(hash).Load()
	if set == nil {
		return
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.denials {
		if d := &set.denials[i]; d.answers(hash, ch) && d.sent < sent {
			*d = denial{}
		}
	}
}

// forgetKey drops all denials of a key. Answers to questions that were sent before now will not be
// remembered.
func (c *DenialCache) forgetKey(scope, key string) {
	hash := c.hasher.hash(scope, key)
	set := c.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	set.resetAt = c.now()
	for i := range set.denials {
		if set.denials[i].hash == hash {
			set.denials[i] = denial{}
		}
	}
}

// slot returns the slot of the set for a hash.
func (c *DenialCache) slot(hash uint64) *atomic.Pointer[denialSet] {
	return &c.sets[hash%uint64(len(c.sets))]
}

// set returns the set for a hash. It makes the set if necessary.
func (c *DenialCache) set(hash uint64) *denialSet {
	slot := c.slot(hash)
	if set := slot.Load(); set != nil {
		return set
	}
	slot.CompareAndSwap(nil, &denialSet{resetAt: math.MinInt64})
	return slot.Load()
}
