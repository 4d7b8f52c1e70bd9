package core

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// DenialCacheOptions are the options of [NewDenialCache]. The zero value is
// ready to use.
type DenialCacheOptions struct {
	// MaxEntries is how many denials are remembered; a new one then replaces
	// the one that ends soonest among the few whose place it may take. Each
	// costs 130 bytes: 2 at once, the rest as denials come, four at a time.
	// 0: 16,384, of 32 KiB at first and 2 MiB at most.
	MaxEntries int

	// MaxAge is how long a denial is believed at most while the inner backend
	// answers, so that a reset or a changed limit elsewhere is soon seen. While
	// it fails, a denial is believed for all of its RetryAfter. 0: 10s.
	MaxAge time.Duration
}

// DenialCache is a [Backend] in front of another that answers a charge it has
// seen denied without asking again, until the denial's RetryAfter has passed:
// what a client that hammers on costs is then a look at local memory. It pays
// off where the inner backend is far away, such as Redis.
//
// A denial is good for the very scope, key, limit and cost it was about, and
// from the moment the question was sent. Charges with a cost of 0, and shadow
// charges, always go through. Waits count down. When the cache answers one
// charge of a request, the others are marked [SourceNotAsked].
//
// A denial that is [Decision].Transient is not remembered: it may end at any
// moment. When the inner backend returns an error, and the context has not ended,
// a denial older than MaxAge answers instead of the error.
type DenialCache struct {
	inner  Backend
	maxAge int64 // microseconds
	base   time.Time
	sets   []atomic.Pointer[denialSet] // nil: nothing was denied or reset yet

	scopeSeed, keySeed maphash.Seed
}

const denialWays = 4

type denialSet struct {
	mu      sync.Mutex
	resetAt int64 // when a key of this set was last reset; what was asked before is not remembered
	denials [denialWays]denial
}

// denial is a remembered decision. Instants are microseconds since base.
type denial struct {
	hash  uint64 // of scope and key; 0: empty
	limit Limit
	cost  int64
	sent  int64
	until int64
	Decision
}

// NewDenialCache returns a cache in front of inner. It panics if inner is nil, or
// a nil pointer, or an option is negative.
func NewDenialCache(inner Backend, options DenialCacheOptions) *DenialCache {
	if isNil(inner) {
		panic("core: NewDenialCache: the inner backend is nil")
	}
	if options.MaxEntries < 0 || options.MaxAge < 0 {
		panic(fmt.Sprintf("core: NewDenialCache: options must not be negative (got %+v)", options))
	}
	if options.MaxEntries == 0 {
		options.MaxEntries = 1 << 14
	}
	if options.MaxAge == 0 {
		options.MaxAge = 10 * time.Second
	}
	return &DenialCache{
		inner:  inner,
		maxAge: options.MaxAge.Microseconds(),
		base:   time.Now(),
		sets:   make([]atomic.Pointer[denialSet], (options.MaxEntries+denialWays-1)/denialWays),

		scopeSeed: maphash.MakeSeed(),
		keySeed:   maphash.MakeSeed(),
	}
}

// Take implements [Backend].
func (c *DenialCache) Take(ctx context.Context, charges []Charge, out []Decision) error {
	if len(charges) != len(out) {
		return errCacheLengths
	}
	sent := c.now()
	answered, aged := c.recallAny(charges, out, sent, c.maxAge)
	if answered {
		return nil
	}
	if err := c.inner.Take(ctx, charges, out); err != nil {
		if aged && ctx.Err() == nil {
			if answered, _ := c.recallAny(charges, out, c.now(), math.MaxInt64); answered {
				return nil
			}
		}
		return err
	}
	for i := range out {
		if aged && cacheable(charges, i) {
			c.forget(&charges[i], sent) // replaced, or not true any more
		}
		if !out[i].Allowed && !out[i].Transient && cacheable(charges, i) {
			c.remember(&charges[i], &out[i], sent)
		}
	}
	return nil
}

// recallAny answers charges if one of them is known to be denied, by a denial
// that is no older than maxAge. Otherwise it reports whether an older one would
// have answered.
func (c *DenialCache) recallAny(charges []Charge, out []Decision, now, maxAge int64) (answered, aged bool) {
	for i := range charges {
		out[i] = uncounted(SourceNotAsked)
		if !cacheable(charges, i) {
			continue
		}
		switch c.recall(&charges[i], &out[i], now, maxAge) {
		case recalled:
			answered = true
		case tooOld:
			aged = true
		}
	}
	return answered, aged
}

// cacheable reports whether the decision on charges[i] alone stands in the way
// of the others and is about that charge only.
func cacheable(charges []Charge, i int) bool {
	ch := &charges[i]
	if ch.Cost <= 0 || ch.Shadow {
		return false
	}
	for j := range charges {
		if j != i && charges[j].Key == ch.Key && charges[j].Scope == ch.Scope {
			return false
		}
	}
	return true
}

// What recall finds.
type recollection uint8

const (
	nothing recollection = iota
	recalled
	tooOld
)

// recall sets out to the denial remembered for ch, as it stands now, if that is
// no older than maxAge.
func (c *DenialCache) recall(ch *Charge, out *Decision, now, maxAge int64) recollection {
	hash := c.hash(ch.Scope, ch.Key)
	set := c.place(hash).Load()
	if set == nil {
		return nothing
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	d := set.findLocked(hash, ch)
	switch {
	case d == nil || now >= d.until:
		return nothing
	case now-d.sent >= maxAge:
		return tooOld
	}
	*out = d.after(now - d.sent)
	return recalled
}

// findLocked returns the denial of ch, nil if there is none.
func (set *denialSet) findLocked(hash uint64, ch *Charge) *denial {
	for i := range set.denials {
		d := &set.denials[i]
		if d.hash == hash && d.cost == ch.Cost && d.limit == ch.Limit {
			return d
		}
	}
	return nil
}

// after returns the decision as it stands us microseconds later.
func (d *denial) after(us int64) Decision {
	later := d.Decision
	later.Source = SourceDenialCache
	later.At += us
	later.ResetAfter = max(0, later.ResetAfter-wait(us))
	if later.RetryAfter != Never {
		later.RetryAfter -= wait(us)
		later.EffectiveWindow = later.RetryAfter
	}
	return later
}

// remember keeps the denial of ch, asked for at the instant sent.
func (c *DenialCache) remember(ch *Charge, d *Decision, sent int64) {
	hash := c.hash(ch.Scope, ch.Key)
	until := sent + d.RetryAfter.Microseconds() // Never does not end
	set := c.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	if sent <= set.resetAt {
		return
	}
	place := set.findLocked(hash, ch)
	if place == nil {
		place = &set.denials[0]
		for i := range set.denials {
			if old := &set.denials[i]; old.believedUntil(c.maxAge) < place.believedUntil(c.maxAge) {
				place = old
			}
		}
	}
	*place = denial{hash, ch.Limit, ch.Cost, sent, until, *d}
}

// believedUntil returns when d ceases to answer while the inner backend does.
func (d *denial) believedUntil(maxAge int64) int64 { return min(d.until, d.sent+maxAge) }

// forget drops the denial of ch if it was asked for before the instant sent.
func (c *DenialCache) forget(ch *Charge, sent int64) {
	hash := c.hash(ch.Scope, ch.Key)
	set := c.place(hash).Load()
	if set == nil {
		return
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if d := set.findLocked(hash, ch); d != nil && d.sent < sent {
		*d = denial{}
	}
}

// Unwrap returns the inner backend.
func (c *DenialCache) Unwrap() Backend { return c.inner }

// Peek implements [Peeker] if the inner backend does.
func (c *DenialCache) Peek(ctx context.Context, charges []Charge, out []Decision) error {
	return Peek(ctx, c.inner, charges, out)
}

// Reset implements [Resetter] if the inner backend does.
func (c *DenialCache) Reset(ctx context.Context, scope, key string) error {
	hash := c.hash(scope, key)
	defer func() { // last, so that a denial that came in meanwhile is forgotten too
		set := c.set(hash)
		set.mu.Lock()
		defer set.mu.Unlock()
		set.resetAt = c.now()
		for i := range set.denials {
			if set.denials[i].hash == hash {
				set.denials[i] = denial{}
			}
		}
	}()
	return Reset(ctx, c.inner, scope, key)
}

// Count implements [Counter] if the inner backend does.
func (c *DenialCache) Count(ctx context.Context) (int, error) { return Count(ctx, c.inner) }

func (c *DenialCache) now() int64 { return time.Since(c.base).Microseconds() }

func (c *DenialCache) hash(scope, key string) uint64 {
	return max(1, maphash.String(c.scopeSeed, scope)^maphash.String(c.keySeed, key))
}

// place returns where the set of a hash is.
func (c *DenialCache) place(hash uint64) *atomic.Pointer[denialSet] {
	return &c.sets[hash%uint64(len(c.sets))]
}

// set returns the set of a hash, and makes it if there is none yet.
func (c *DenialCache) set(hash uint64) *denialSet {
	place := c.place(hash)
	if set := place.Load(); set != nil {
		return set
	}
	place.CompareAndSwap(nil, &denialSet{resetAt: -1})
	return place.Load()
}

var errCacheLengths = errors.New("core: denial cache: charges and decisions differ in length")
