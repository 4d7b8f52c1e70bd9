package core

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// class is a scope with one of its limits, as one memory backend knows it.
// States name theirs by a 16-bit id.
type class struct {
	terms
	scope   string
	id      uint16
	share   uint8       // of the scope in what is short: places, and nodes of logs
	mix     uint64      // hash of the scope
	retired atomic.Bool // set under the locks of all shards: the id is no longer ours
}

// classes interns classes. Reading one in recent takes no lock.
type classes struct {
	recent [256]atomic.Pointer[class]     // by classSlot
	byID   [256]atomic.Pointer[classPage] // by the high byte of the id; ids start at 1

	mu     sync.Mutex // guards known, issued, free, scopes and shares
	known  map[classKey]*class
	issued int // the highest id ever given out
	free   []uint16
	scopes map[string]uint8 // the share of each scope in known
	shares uint8            // the last share given out

	scopeSeed, keySeed maphash.Seed
}

type classPage [256]atomic.Pointer[class]

type classKey struct {
	scope string
	limit Limit
}

const maxClasses = 1<<16 - 1

var errTooManyClasses = fmt.Errorf(
	"core: memory: more than %d limits have live state at once: let LimitFor choose among fewer limits", maxClasses)

func (c *classes) init() {
	c.known, c.scopes = make(map[classKey]*class), make(map[string]uint8)
	c.scopeSeed, c.keySeed = maphash.MakeSeed(), maphash.MakeSeed()
}

// classSlot picks the place of a class in recent, from little more than what is
// at hand. Two classes that are charged in turn and share a place take the lock.
func classSlot(scope string, l *Limit) uint8 {
	h := uint64(l.rate.Units)*0x9e3779b97f4a7c15 + uint64(l.rate.Period)*0xc2b2ae3d27d4eb4f +
		uint64(l.burst)*0x165667b19e3779f9 + uint64(len(scope))<<57 + uint64(l.algorithm)<<60
	if scope != "" {
		h += (uint64(scope[0]) + uint64(scope[len(scope)-1])<<3) * 0x9e3779b97f4a7c15
	}
	return uint8(h >> 56)
}

// of returns the class of ch. errClassesFull asks the caller to sweep.
func (c *classes) of(ch *Charge) (*class, error) {
	slot := &c.recent[classSlot(ch.Scope, &ch.Limit)]
	if k := slot.Load(); k != nil && k.limit == ch.Limit && k.scope == ch.Scope {
		return k, nil
	}
	return c.intern(ch, slot)
}

var errClassesFull = errors.New("core: memory: all class ids are in use")

func (c *classes) intern(ch *Charge, slot *atomic.Pointer[class]) (*class, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := classKey{ch.Scope, ch.Limit}
	k := c.known[key]
	if k == nil {
		if err := ch.Limit.Validate(); err != nil {
			return nil, fmt.Errorf("core: memory: limit of scope %q: %w", ch.Scope, err)
		}
		id, err := c.nextIDLocked()
		if err != nil {
			return nil, err
		}
		k = &class{terms: termsOf(ch.Limit), scope: ch.Scope, id: id, share: c.shareLocked(ch.Scope), mix: c.mix(ch.Scope)}
		page := c.byID[id>>8].Load()
		if page == nil {
			page = new(classPage)
			c.byID[id>>8].Store(page)
		}
		page[id&0xff].Store(k)
		c.known[key] = k
	}
	slot.Store(k)
	return k, nil
}

func (c *classes) nextIDLocked() (uint16, error) {
	if n := len(c.free); n > 0 {
		id := c.free[n-1]
		c.free = c.free[:n-1]
		return id, nil
	}
	if c.issued < maxClasses {
		c.issued++
		return uint16(c.issued), nil
	}
	return 0, errClassesFull
}

// shareLocked returns the share of a scope: the next one if it has none yet. There
// are 256; where scopes are more, some have one together.
func (c *classes) shareLocked(scope string) uint8 {
	share, known := c.scopes[scope]
	if !known {
		c.shares++
		share = c.shares
		c.scopes[scope] = share
	}
	return share
}

// mix returns the hash of a scope.
func (c *classes) mix(scope string) uint64 { return maphash.String(c.scopeSeed, scope) }

// hash identifies a key under a scope whose mix is given: 64 bits by secret
// seeds, so that nobody can choose keys that collide. It is never that of an
// empty place.
func (c *classes) hash(mix uint64, key string) uint64 {
	h := maphash.String(c.keySeed, key) ^ mix
	if h <= vacated {
		return h + vacated + 1
	}
	return h
}

// get returns the class of an id that a state names.
func (c *classes) get(id uint16) *class { return c.byID[id>>8].Load()[id&0xff].Load() }

// retire gives back every id that is not in use. The caller holds the locks of
// all shards, so that nobody is about to write one.
func (c *classes) retire(inUse []bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, k := range c.known {
		if !inUse[k.id] {
			k.retired.Store(true)
			c.free = append(c.free, k.id)
			delete(c.known, key)
		}
	}
	clear(c.scopes)
	for key, k := range c.known {
		c.scopes[key.scope] = k.share
	}
	for i := range c.recent {
		c.recent[i].Store(nil)
	}
}
