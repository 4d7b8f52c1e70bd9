package remote

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/keyhash"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// denialTable is the denials that a denial cache remembers, in sets of four.
type denialTable struct {
	base   time.Time
	maxAge int64                       // microseconds
	leased *leaseTermsCache            // of the leases within the inner backend; nil: none
	sets   []atomic.Pointer[denialSet] // nil until a key of the set is denied or reset
	hasher keyhash.Hasher
}

const denialWays = 4

// denialSet is the denials that share one place of the table.
type denialSet struct {
	mu      sync.Mutex
	resetAt int64 // latest reset of a key; answers to earlier questions are not remembered
	denials [denialWays]denial
}

// denial is a remembered denial. Instants are microseconds since denialTable.base.
type denial struct {
	hash  uint64 // of scope and key; 0: empty
	limit limits.Limit
	cost  int64
	sent  int64 // when the question was sent
	heard bool  // another process asked, and announced the answer
	limits.Decision
}

func newDenialTable(maxEntries int, maxAge time.Duration) denialTable {
	return denialTable{
		base:   time.Now(),
		maxAge: maxAge.Microseconds(),
		sets:   make([]atomic.Pointer[denialSet], (maxEntries+denialWays-1)/denialWays),
		hasher: keyhash.New(),
	}
}

func (t *denialTable) now() int64 { return time.Since(t.base).Microseconds() }

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
func (t *denialTable) recall(
	ch *backends.Charge, out *limits.Decision, now int64, failing bool,
) (found recollection) {
	hash := t.hasher.Of(ch.Scope, ch.Key)
	set := t.slot(hash).Load()
	if set == nil {
		return nothing
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	var longest *denial
	for i := range set.denials {
		d := &set.denials[i]
		switch {
		case !d.answers(hash, ch) || now >= t.standsUntil(d):
		case !failing && now >= t.believedUntil(d):
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
func (t *denialTable) remember(ch *backends.Charge, d *limits.Decision, sent int64) {
	t.keep(ch, denial{limit: ch.Limit, cost: ch.Cost, sent: sent, Decision: *d})
}

// rememberHeard is remember for a denial that another process has announced. Any process that
// reaches the announcer may have forged it. So it is kept beside the denial that this process has
// asked for, and shortens none that is believed.
func (t *denialTable) rememberHeard(ch *backends.Charge, d *limits.Decision, sent int64) {
	t.keep(ch, denial{limit: ch.Limit, cost: ch.Cost, sent: sent, heard: true, Decision: *d})
}

func (t *denialTable) keep(ch *backends.Charge, d denial) {
	d.hash = t.hasher.Of(ch.Scope, ch.Key)
	set := t.set(d.hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	if d.sent <= set.resetAt || d.heard && !t.outlastsLocked(&d, set, ch) {
		return
	}
	slot := set.findLocked(&d, ch)
	if slot != nil && slot.sent > d.sent { // an earlier question, answered later
		return
	}
	if slot == nil {
		slot = t.victimLocked(set, d.heard)
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
func (t *denialTable) outlastsLocked(d *denial, set *denialSet, ch *backends.Charge) bool {
	now := t.now()
	for i := range set.denials {
		old := &set.denials[i]
		if !old.answers(d.hash, ch) || now >= t.standsUntil(old) {
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
func (t *denialTable) victimLocked(set *denialSet, heard bool) *denial {
	now := t.now()
	var slot *denial
	var slotOwn bool
	for i := range set.denials {
		old := &set.denials[i]
		own := !old.heard && t.believedUntil(old) > now
		if slot == nil || slotOwn && !own ||
			own == slotOwn && t.believedUntil(old) < t.believedUntil(slot) {
			slot, slotOwn = old, own
		}
	}
	if heard && slotOwn {
		return nil
	}
	return slot
}

// believedUntil returns until when d answers while the inner backend works.
func (t *denialTable) believedUntil(d *denial) int64 {
	return min(d.until(), d.sent+t.maxAgeOf(&d.limit))
}

// standsUntil returns until when d answers while the inner backend fails.
func (t *denialTable) standsUntil(d *denial) int64 {
	if d.heard {
		return t.believedUntil(d)
	}
	return d.until()
}

// maxAgeOf returns how long denials by a limit are believed while the inner backend works. Units
// that other processes lease count as used, and return within a lease.
func (t *denialTable) maxAgeOf(limit *limits.Limit) int64 {
	if t.leased == nil {
		return t.maxAge
	}
	if lease := t.leased.get(limit).lease; lease > 0 {
		return min(t.maxAge, lease)
	}
	return t.maxAge
}

// forget drops the denial of ch if its question was sent before the instant sent.
func (t *denialTable) forget(ch *backends.Charge, sent int64) {
	hash := t.hasher.Of(ch.Scope, ch.Key)
	set := t.slot(hash).Load()
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
func (t *denialTable) forgetKey(scope, key string) {
	hash := t.hasher.Of(scope, key)
	set := t.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	set.resetAt = t.now()
	for i := range set.denials {
		if set.denials[i].hash == hash {
			set.denials[i] = denial{}
		}
	}
}

// slot returns the slot of the set for a hash.
func (t *denialTable) slot(hash uint64) *atomic.Pointer[denialSet] {
	return &t.sets[hash%uint64(len(t.sets))]
}

// set returns the set for a hash. It makes the set if necessary.
func (t *denialTable) set(hash uint64) *denialSet {
	slot := t.slot(hash)
	if set := slot.Load(); set != nil {
		return set
	}
	slot.CompareAndSwap(nil, &denialSet{resetAt: math.MinInt64})
	return slot.Load()
}
