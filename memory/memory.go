package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// MaxKeys is how many keys may have live state before one displaces
	// another. A full store takes 39 bytes for each (64 below 8,192), an empty one
	// some 32 KB, or a byte for ten keys of MaxKeys where those are millions.
	// A key in a bucket of a rule with a FinalCost takes 200 bytes more, and a key whose
	// limit has changed 150, until the former limit would have given all units back.
	// 0: 262,144 keys, 10 MiB when full.
	MaxKeys int

	// MaxLogEntries is how many takings the sliding logs of all keys may
	// remember beyond the latest of each key, which is part of the key. Each
	// costs 16 bytes, allocated as needed. They are divided evenly over the parts
	// of the Memory, of up to 16,384 keys each, at least 256 for a part. When a part
	// has used up its own, neighbouring takings of the longest logs are remembered
	// together, as of the later, until there is room again.
	// 0: 1,048,576 entries, 16 MiB at most; with the default MaxKeys, 32,768 for
	// a part.
	MaxLogEntries int

	// Clock tells the time, for replaying the past; while it goes back, time stands still.
	// Tests do not need it: in a testing/synctest bubble the default follows the bubble's clock.
	// Instants before 1970 count as 1970, those after 2255 as 2255.
	// nil: the wall clock, looked at every 100ms and kept by the monotonic
	// clock in between.
	Clock func() time.Time
}

const (
	defaultMaxKeys       = 1 << 18
	defaultMaxLogEntries = 1 << 20
	maxMaxKeys           = 1 << 30
)

// Memory is a [backends.Backend] that keeps state in this process, in bounded memory. It is
// safe for concurrent use, and needs no closing.
//
// A Memory starts small and grows with its live keys: some 100 bytes a key at most.
// Growing costs a decision now and then some 100 µs, and is the only time at which a
// decision allocates, sliding logs aside. A Memory does not shrink: as many keys as were
// live once may be live again. It has no goroutine.
//
// Up to MaxKeys live keys, nothing is displaced. Beyond that a new key displaces
// one of some 32 whose slot it may take: of the scope that has most of them, the
// one whose state is fresh soonest. What was displaced is remembered in a summary:
// a key that is not found starts from the largest state displaced in its scope
// and part of the table. So a flood of new keys may have new keys of its own scope
// denied early, the more the longer it lasts, and never buys anyone a unit too
// many, but for a ban. A key that was displaced while it was banned may charge once.
// Once the period is over in which it was banned, it may charge until it is banned anew. A scope that
// has no more than its share of MaxKeys loses next to nothing to another.
//
// The summary takes at most 4 KiB for every 8,192 keys of MaxKeys. It remembers 50
// scopes apart in each part of the table, each as some numbers of units and until when they
// may be in use, so the RetryAfter of a key that is not found may be later than necessary.
//
// Time never goes back. After the wall clock has stepped back, units go on draining, and windows
// by the calendar turn over early, by the step, until the process restarts or the wall clock has
// caught up: nothing is admitted twice, and no key is locked out. [limits.Decision].At is by the
// wall clock all the same.
//
// Keys are told apart by a 64-bit hash with a secret seed.
type Memory struct {
	limits scopedLimits
	shards []shard
	shift  uint       // of a hash, to the index of its shard
	tables []tableRef // of the shards
	size   int        // how many buckets a shard grows to
	clock  clock

	groups sync.Pool // of *group
	sweep  struct {
		sync.Mutex
		notBefore int64
	}
	maxKeys int
}

// New returns an empty Memory, or an error that reports every mistake in options.
//
// A limiter of package core without a Backend makes a Memory of its own. To have several limiters
// share one, set Config.Backend of each to it. MaxKeys and MaxLogEntries then bound
// all of them together: add up the keys that each has live at once. A key of two
// rules takes two slots. If there are more live keys than MaxKeys, each scope keeps
// its share. Rules of different scopes never meet. Rules of one scope count together,
// and the scope is the rule's Name unless set: two limiters that each have a rule
// "per-client" need a Scope each, unless they are meant to share one budget.
func New(options Options) (*Memory, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	maxKeys := cmp.Or(options.MaxKeys, defaultMaxKeys)
	maxLogEntries := cmp.Or(options.MaxLogEntries, defaultMaxLogEntries)
	count, size := layout(maxKeys)
	m := &Memory{
		shards: make([]shard, count),
		shift:  uint(64 - bits.Len(uint(count-1))),
		tables: make([]tableRef, count),
		size:   size,
	}
	m.maxKeys = maxKeys
	m.limits.init()
	least := m.sizeAbove(0)
	table := make([]tableBucket, count*least)
	for i := range m.shards {
		sh := &m.shards[i]
		sh.memory, sh.ref = m, &m.tables[i]
		sh.limits = &m.limits
		sh.useLocked(subtable(table, i, least))
		sh.nodes.most = uint32(max(pieceNodes, (maxLogEntries+count-1)/count))
	}
	m.clock.start(options.Clock)
	m.groups.New = func() any { return new(group) }
	return m, nil
}

// MustNew is [New] for options that the program sets. It panics if they have a mistake; the
// zero Options have none.
func MustNew(options Options) *Memory {
	m, err := New(options)
	if err != nil {
		panic(err)
	}
	return m
}

func (o *Options) validate() error {
	var errs []error
	if o.MaxKeys < 0 || o.MaxKeys > maxMaxKeys {
		errs = append(errs, fmt.Errorf("memory: max keys: must be 1 to %d, or 0 for %d (got %d)", maxMaxKeys, defaultMaxKeys, o.MaxKeys))
	}
	if o.MaxLogEntries < 0 || o.MaxLogEntries > maxMaxKeys {
		errs = append(errs, fmt.Errorf("memory: max log entries: must be 1 to %d, or 0 for %d (got %d)", maxMaxKeys, defaultMaxLogEntries, o.MaxLogEntries))
	}
	return errors.Join(errs...)
}

// layout returns how many shards of how many buckets keep maxKeys keys. Keys
// fall on shards by chance, so a shard has room for its share, six standard
// deviations more, and the slack that a cuckoo table needs. No shard has more than
// 16,384 keys, since it grows within a decision; of the hash, 16 bits say which
// shard it is.
func layout(maxKeys int) (shards, buckets int) {
	const keysPerShard = 8192
	shards = 1
	for shards < 1<<16 && maxKeys/shards > 2*keysPerShard-1 {
		shards *= 2
	}
	share := (maxKeys + shards - 1) / shards
	slots := share * 2
	if share >= keysPerShard {
		slots = share * 119 / 100
	}
	return shards, max(2, (slots+bucketSlots-1)/bucketSlots)
}

// InProcess implements [backends.InProcess].
func (m *Memory) InProcess() backends.Backend { return m }

// shardOf returns the shard of a hash.
func (m *Memory) shardOf(hash uint64) *shard { return &m.shards[hash>>m.shift] }

// Take implements [backends.Backend].
func (m *Memory) Take(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
	if len(charges) == 1 && len(out) == 1 {
		ch := &charges[0]
		limit := m.limits.recent[recentIndex(ch.Scope, &ch.Limit)].Load()
		if limit != nil && limit.Given == ch.Limit && limit.scope == ch.Scope && ch.Cost >= 0 && ch.Lasts == 0 && m.takeOne(limit, ch.Key, ch.Cost, &out[0]) {
			return nil
		}
	}
	return m.takeAll(charges, out, true)
}

// Peek implements [backends.Peeker].
func (m *Memory) Peek(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
	return m.takeAll(charges, out, false)
}

// limitOf returns the limit of a charge and checks the charge.
func (m *Memory) limitOf(ch *backends.Charge) (*scopedLimit, error) {
	if ch.Cost < 0 {
		return nil, fmt.Errorf("memory: cost must not be negative (got %d)", ch.Cost)
	}
	limit, err := m.limits.of(ch)
	if err == errLimitsFull {
		if err = m.retireLimits(); err == nil {
			limit, err = m.limits.of(ch)
		}
		if err == errLimitsFull {
			err = errTooManyLimits
		}
	}
	return limit, err
}
