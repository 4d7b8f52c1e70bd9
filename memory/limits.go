package memory

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/internal/ground/keyhash"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// scopedLimit is a compiled limit in a scope of one Memory. A state names its scopedLimit by a
// 16-bit id.
type scopedLimit struct {
	family.Numbers
	family    family.Compiled
	lister    family.Lister // family, if its states have lists; otherwise nil
	scope     string
	id        uint16
	share     uint8       // number of the scope; scopes share slots and nodes of lists
	scopeHash uint64      // under the mask of its kind
	retired   atomic.Bool // its id may name another limit; set under the locks of all shards
}

// asOf returns s, a state of the limit, as it is at now, and how many units are in use.
func (l *scopedLimit) asOf(s family.Used, now int64, lists *nodes) (family.Used, int64) {
	s, t, _ := l.family.Decide(s, 0, now, 0, lists)
	return s, t.InUse
}

// scopedLimits interns the scopedLimits of a Memory. Reading recent or byID takes no lock.
type scopedLimits struct {
	recent [256]atomic.Pointer[scopedLimit] // by recentIndex
	byID   [256]atomic.Pointer[limitPage]   // by the high byte of the id; ids start at 1

	mu     sync.Mutex // guards the fields below up to shares
	known  map[limitKey]*scopedLimit
	issued int // the highest id issued so far
	free   []uint16
	scopes map[string]uint8 // the share of each scope in known
	shares uint8            // the last share number given to a scope

	keys keyhash.Hasher
}

type limitPage [256]atomic.Pointer[scopedLimit]

type limitKey struct {
	scope string
	limit limits.Limit
}

const maxLimits = 1<<16 - 1

var errTooManyLimits = fmt.Errorf(
	"memory: %d limits have live state, and no more fit: let LimitFor choose among fewer", maxLimits)

func (c *scopedLimits) init() {
	c.known, c.scopes = make(map[limitKey]*scopedLimit), make(map[string]uint8)
	c.keys = keyhash.New()
}

// recentIndex returns the index of a limit in recent. It hashes only a few fields, for speed. Two
// limits with one index that are charged in turn evict each other, and each charge takes the lock.
func recentIndex(scope string, l *limits.Limit) uint8 {
	h := uint64(l.Rate().Units)*0x9e3779b97f4a7c15 + uint64(l.Rate().Period)*0xc2b2ae3d27d4eb4f +
		uint64(l.Burst())*0x165667b19e3779f9 + uint64(len(scope))<<57 + uint64(l.Algorithm())<<60
	for _, c := range []byte(l.Period()) { // "" for most limits
		h = (h ^ uint64(c)) * 0x9e3779b97f4a7c15
	}
	if scope != "" {
		h += (uint64(scope[0]) + uint64(scope[len(scope)-1])<<3) * 0x9e3779b97f4a7c15
	}
	return uint8(h >> 56)
}

// of returns the scopedLimit of ch. On errLimitsFull the caller retires limits and tries again.
func (c *scopedLimits) of(ch *backends.Charge) (*scopedLimit, error) {
	slot := &c.recent[recentIndex(ch.Scope, &ch.Limit)]
	if limit := slot.Load(); limit != nil && limit.Given == ch.Limit && limit.scope == ch.Scope {
		return limit, nil
	}
	return c.intern(ch, slot)
}

var errLimitsFull = errors.New("memory: all limit ids are in use")

func (c *scopedLimits) intern(ch *backends.Charge,
	slot *atomic.Pointer[scopedLimit]) (*scopedLimit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := limitKey{ch.Scope, ch.Limit}
	limit := c.known[key]
	if limit == nil {
		if err := ch.Limit.Validate(); err != nil {
			return nil, fmt.Errorf("memory: limit of scope %q: %w", ch.Scope, err)
		}
		id, err := c.nextIDLocked()
		if err != nil {
			return nil, err
		}
		compiled, numbers := family.Compile(ch.Limit)
		limit = &scopedLimit{Numbers: numbers, family: compiled, scope: ch.Scope, id: id,
			share: c.shareLocked(ch.Scope), scopeHash: c.hashScope(ch.Scope, numbers.Kind)}
		limit.lister, _ = compiled.(family.Lister)
		page := c.byID[id>>8].Load()
		if page == nil {
			page = new(limitPage)
			c.byID[id>>8].Store(page)
		}
		page[id&0xff].Store(limit)
		c.known[key] = limit
	}
	slot.Store(limit)
	return limit, nil
}

func (c *scopedLimits) nextIDLocked() (uint16, error) {
	if n := len(c.free); n > 0 {
		id := c.free[n-1]
		c.free = c.free[:n-1]
		return id, nil
	}
	if c.issued < maxLimits {
		c.issued++
		return uint16(c.issued), nil
	}
	return 0, errLimitsFull
}

// shareLocked returns the share number of a scope; a new scope gets the next one. There are 256
// numbers, so with more scopes several have one number.
func (c *scopedLimits) shareLocked(scope string) uint8 {
	share, known := c.scopes[scope]
	if !known {
		c.shares++
		share = c.shares
		c.scopes[scope] = share
	}
	return share
}

// maskOf returns what changes the hash of a scope for a kind of counting, so that the states of each
// kind are apart. It is 0 for rates.
func maskOf(kind algorithm.Kind) uint64 { return uint64(kind) * 0x9e3779b97f4a7c15 }

// hashScope returns the hash of a scope for limits of a kind.
func (c *scopedLimits) hashScope(scope string, kind algorithm.Kind) uint64 {
	return c.keys.Scope(scope) ^ maskOf(kind)
}

// get returns the scopedLimit with the id of a state.
func (c *scopedLimits) get(id uint16) *scopedLimit { return c.byID[id>>8].Load()[id&0xff].Load() }

// retire frees every id that is not in use. The caller holds the locks of all shards, so no other
// goroutine can write an id meanwhile.
func (c *scopedLimits) retire(inUse []bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, limit := range c.known {
		if !inUse[limit.id] {
			limit.retired.Store(true)
			c.free = append(c.free, limit.id)
			delete(c.known, key)
		}
	}
	clear(c.scopes)
	for key, limit := range c.known {
		c.scopes[key.scope] = limit.share
	}
	for i := range c.recent {
		c.recent[i].Store(nil)
	}
}
