package remote

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// The table of a denial cache: sets of four denials, each with a lock of its own.

const denialWays = 4

type denialSet struct {
	mu      sync.Mutex
	resetAt int64 // when a key of this set was last reset; answers to earlier questions are not remembered
	denials [denialWays]denial
}

// denial is a remembered decision. Instants are microseconds since base.
type denial struct {
	hash  uint64 // of scope and key; 0: empty
	limit limits.Limit
	cost  int64
	sent  int64
	heard bool // of another process: this one has not asked itself
	limits.Decision
}

// until returns when d ends. Never is later than any instant.
func (d *denial) until() int64 { return d.sent + d.RetryAfter.Microseconds() }

// recollection is the result of recall.
type recollection uint8

const (
	nothing recollection = iota
	recalled
	tooOld
)

// recall sets out to the denial of ch, as of now, if the cache has one that may be
// believed.
func (c *DenialCache) recall(ch *limits.Charge, out *limits.Decision, now int64, failing bool) recollection {
	hash := c.hasher.hash(ch.Scope, ch.Key)
	set := c.slot(hash).Load()
	if set == nil {
		return nothing
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	d := set.findLocked(hash, ch)
	if d == nil || now >= d.until() {
		return nothing
	}
	age := max(0, now-d.sent) // another caller may have asked after this one looked at the clock
	if !failing && age >= c.maxAgeOf(&d.limit) {
		return tooOld
	}
	*out = d.after(age)
	return recalled
}

// findLocked returns the denial of ch, nil if there is none.
func (set *denialSet) findLocked(hash uint64, ch *limits.Charge) *denial {
	for i := range set.denials {
		d := &set.denials[i]
		if d.hash == hash && d.cost == ch.Cost && d.limit == ch.Limit {
			return d
		}
	}
	return nil
}

// after returns the decision as it is us microseconds later.
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

// remember keeps the denial of ch, asked for at the instant sent.
func (c *DenialCache) remember(ch *limits.Charge, d *limits.Decision, sent int64) {
	c.keep(ch, denial{limit: ch.Limit, cost: ch.Cost, sent: sent, Decision: *d})
}

// rememberHeard is remember for a denial that another process has announced. Anybody may
// have announced it who reaches the announcer. So it makes no denial shorter, and takes no
// place of one that this process has asked for and believes.
func (c *DenialCache) rememberHeard(ch *limits.Charge, d *limits.Decision, sent int64) {
	c.keep(ch, denial{limit: ch.Limit, cost: ch.Cost, sent: sent, heard: true, Decision: *d})
}

func (c *DenialCache) keep(ch *limits.Charge, d denial) {
	d.hash = c.hasher.hash(ch.Scope, ch.Key)
	set := c.set(d.hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	if d.sent <= set.resetAt {
		return
	}
	slot := set.findLocked(d.hash, ch)
	if slot != nil && slot.sent > d.sent { // an earlier question, answered later
		return
	}
	if slot != nil && d.heard && !c.supersedes(&d, slot) {
		return
	}
	if slot == nil {
		slot = c.victimLocked(set, d.heard)
	}
	if slot != nil {
		*slot = d
	}
}

// supersedes reports whether d, which was heard, takes the place of old, a denial of the
// same charge. If d ends a little sooner, it says the same by another clock: supersedes
// then has it end when old does. If d ends much sooner, old is kept, and not believed any
// longer for it: there may have been a reset elsewhere.
func (c *DenialCache) supersedes(d, old *denial) bool {
	d.heard = old.heard
	sooner := old.until() - d.until()
	if sooner <= 0 || old.until() <= c.now() {
		return true
	}
	if sooner > c.maxAge {
		return false
	}
	d.Decision = old.after(d.sent - old.sent)
	return true
}

// victimLocked returns the slot of set whose denial is believed least long. Those that this
// process has asked for, and believes, yield last, and never to one that was heard: for that
// it may return nil.
func (c *DenialCache) victimLocked(set *denialSet, heard bool) *denial {
	now := c.now()
	var slot *denial
	var slotOwn bool
	for i := range set.denials {
		old := &set.denials[i]
		own := !old.heard && c.believedUntil(old) > now
		if slot == nil || own == slotOwn && c.believedUntil(old) < c.believedUntil(slot) || slotOwn && !own {
			slot, slotOwn = old, own
		}
	}
	if heard && slotOwn {
		return nil
	}
	return slot
}

// believedUntil returns how long d answers while the inner backend does.
func (c *DenialCache) believedUntil(d *denial) int64 {
	return min(d.until(), d.sent+c.maxAgeOf(&d.limit))
}

// maxAgeOf returns how long denials by a limit are believed while the inner backend
// answers. What other processes hold of it counts as used, and returns within a lease.
func (c *DenialCache) maxAgeOf(limit *limits.Limit) int64 {
	if c.leases == nil {
		return c.maxAge
	}
	if lease := c.leases.terms.of(limit, c.leases.term).lease; lease > 0 {
		return min(c.maxAge, lease)
	}
	return c.maxAge
}

// forget drops the denial of ch if it was asked for before the instant sent.
func (c *DenialCache) forget(ch *limits.Charge, sent int64) {
	hash := c.hasher.hash(ch.Scope, ch.Key)
	set := c.slot(hash).Load()
	if set == nil {
		return
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if d := set.findLocked(hash, ch); d != nil && d.sent < sent {
		*d = denial{}
	}
}

// forgetKey drops all denials of a key, and those that were asked for before now.
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

// set returns the set for a hash, and makes it if there is none.
func (c *DenialCache) set(hash uint64) *denialSet {
	slot := c.slot(hash)
	if set := slot.Load(); set != nil {
		return set
	}
	slot.CompareAndSwap(nil, &denialSet{resetAt: math.MinInt64})
	return slot.Load()
}
