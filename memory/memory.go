package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// MaxKeys is how many keys may have live state before one displaces another. A full store takes
	// 39 bytes a key (64 below 8,192 keys). An empty one takes about 32 KB, and 0.1 byte for each
	// key of MaxKeys if those are millions. A key in a bucket of a rule with a FinalCost takes 200
	// bytes more. A key whose limit has changed takes 150 bytes more, until the former limit would
	// have given all units back.
	// 0: 262,144 keys, 10 MiB when full.
	MaxKeys int

	// MaxLogEntries is how many takings the sliding logs of all keys may remember, without the
	// latest of each key, which is stored with the key. Each takes 16 bytes, allocated as needed.
	// The parts of a Memory, of up to 16,384 keys each, divide them evenly, at least 256 a part. A
	// part that has used up its entries merges neighbouring takings of its longest logs, as of the
	// later one, until there is room again.
	// 0: 1,048,576 entries, 16 MiB at most; with the default MaxKeys, 32,768 a part.
	MaxLogEntries int

	// Clock tells the time, for replaying the past. While it goes back, time stands still. Tests do
	// not need it: in a testing/synctest bubble the default follows the bubble's clock. Instants
	// before 1970 count as 1970, those after 2255 as 2255.
	// nil: the wall clock, read every 100 ms, with the monotonic clock in between.
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
// A Memory starts small and grows with its live keys, to about 100 bytes a key at most. Growth
// costs an occasional decision about 100 µs. Apart from growth and sliding logs, a decision
// allocates nothing. A Memory does not shrink: as many keys as were live once may be live again. It
// has no goroutine.
//
// Up to MaxKeys live keys, nothing is displaced. Beyond that, a new key displaces one of about 32
// keys whose slots it may take: of the scope with the most of them, the key that is fresh soonest.
// A summary remembers the displaced keys: a key that is not found starts from the largest state
// displaced in its scope and part of the table. So a flood of new keys may deny new keys of its own
// scope early, more so the longer it lasts. It never gives a key a unit too many, except after a
// ban: a key that was displaced while banned may charge once; after the period in which it was
// banned, it may charge until it is banned again. A scope within its share of MaxKeys loses almost
// nothing to another.
//
// The summary takes at most 4 KiB for every 8,192 keys of MaxKeys. Each part of the table remembers
// 51 scopes separately: four numbers of units a scope, and until when they may be in use. So the
// RetryAfter of a key that is not found may be late. If more scopes than that have displaced keys,
// the others share 64 summaries, which take 5 KiB more for each kind of counting. So a flood of 60
// scopes denies new keys early in one of seven other scopes.
//
// Time never goes back. After the wall clock steps back, units keep draining, and windows by the
// calendar turn over early, by the step, until the process restarts or the wall clock has caught
// up. Nothing is admitted twice, and no key is locked out. [limits.Decision].At still follows the
// wall clock.
//
// A 64-bit hash with a secret seed identifies a key.
type Memory struct {
	limits scopedLimits
	shards []shard
	shift  uint       // hash >> shift is the index of its shard
	tables []tableRef // of the shards
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
// A limiter of package core without a Backend makes its own Memory. Limiters share a Memory if
// Config.Backend of each is that Memory. MaxKeys and MaxLogEntries then bound all of them together:
// add up the keys that each has live at once. A key of two rules takes two slots. If more keys than
// MaxKeys are live, each scope keeps its share. Rules of different scopes never meet. Rules of one
// scope count together, and the scope is the rule's Name unless set. So two limiters that each have
// a rule "per-client" need a Scope each, unless they should share one budget.
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
	}
	m.maxKeys = maxKeys
	m.limits.init()
	least := sizeAbove(0, size)
	table := make([]tableBucket, count*least)
	for i := range m.shards {
		sh := &m.shards[i]
		sh.table.largest, sh.table.ref = size, &m.tables[i]
		sh.table.use(subtable(table, i, least))
		sh.states.limits, sh.states.logs.limits = &m.limits, &m.limits
		sh.states.logs.most = uint32(max(pieceNodes, (maxLogEntries+count-1)/count))
	}
	m.clock.start(options.Clock)
	m.groups.New = func() any { return &group{memory: m} }
	return m, nil
}

// MustNew is [New] for options that stand in the program. It panics on a mistake. The zero Options
// have none.
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
		errs = append(errs, fmt.Errorf("memory: max keys: must be 1 to %d, or 0 for %d (got %d)",
			maxMaxKeys, defaultMaxKeys, o.MaxKeys))
	}
	if o.MaxLogEntries < 0 || o.MaxLogEntries > maxMaxKeys {
		errs = append(errs, fmt.Errorf("memory: max log entries: must be 1 to %d, or 0 for %d (got %d)",
			maxMaxKeys, defaultMaxLogEntries, o.MaxLogEntries))
	}
	return errors.Join(errs...)
}

// layout returns the number of shards for maxKeys keys, and of buckets in each. Keys fall on shards
// by chance, so a shard has room for its share, for six standard deviations more, and for the slack
// that a cuckoo table needs. A shard has at most 16,384 keys, since a decision waits while it
// grows. There are at most 2¹⁶ shards: the top 16 bits of a hash select one.
//
// For 262,144 keys: 32 shards of 8,192 keys, each of 8,192·1.19/4 = 2,437 buckets.
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

// Supports implements [backends.Supporter]: a Memory decides every legal limit.
func (m *Memory) Supports(limit limits.Limit) bool { return limit.Validate() == nil }

// shardOf returns the shard of a hash.
func (m *Memory) shardOf(hash uint64) *shard { return &m.shards[hash>>m.shift] }

// Take implements [backends.Backend].
func (m *Memory) Take(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
	if len(charges) == 1 && len(out) == 1 {
		ch := &charges[0]
		limit := m.limits.recent[recentIndex(ch.Scope, &ch.Limit)].Load()
		if limit != nil && limit.Given == ch.Limit && limit.scope == ch.Scope && ch.Cost >= 0 &&
			ch.Lasts == 0 && m.takeOne(limit, ch.Key, ch.Cost, ch.Value, &out[0]) {
			return nil
		}
	}
	return m.takeAll(charges, out, true)
}

// Peek implements [backends.Peeker].
func (m *Memory) Peek(_ context.Context, charges []backends.Charge, out []limits.Decision) error {
	return m.takeAll(charges, out, false)
}

// takeOne is takeAll for one charge of n ≥ 0 units on a key under limit. It decides nothing and
// returns false if limit was retired or is a concurrency limit.
func (m *Memory) takeOne(limit *scopedLimit, key string, n int64, value uint64,
	d *limits.Decision) bool {
	hash := m.limits.keys.Key(limit.scopeHash, key)
	now := m.clock.now()
	sh, e := m.shardOf(hash), m.tables[hash>>m.shift].slot(hash)
	sh.mu.Lock()
	if limit.retired.Load() || limit.Held {
		sh.mu.Unlock()
		return false
	}
	now = sh.nowLocked(now)
	if e.hash != hash {
		e = sh.table.find(hash)
	}
	if e == nil || e.limitID != limit.id || limit.lister != nil || !sh.states.rings.empty() {
		sh.takeLocked(e, hash, limit, n, now, value, d)
		sh.mu.Unlock()
	} else { // most takings: the state is under limit, and nothing else depends on it
		s, t, fits := limit.family.Decide(e.used(), n, now, value, nil)
		d.Ticket, d.Delay = 0, 0
		if fits && n > 0 {
			s.Serial = sh.states.nextSerial(limit, s)
			e.set(s)
			d.Ticket = ticketOf(now, s.Serial)
			if limit.Queues {
				d.Delay = limit.Queued(s, n)
			}
		}
		sh.mu.Unlock()
		limit.Describe(d, n, t, fits)
	}
	d.At = m.clock.at(now)
	return true
}

// takeAll decides charges at one instant. If taking is set, it takes their units unless an enforced
// charge is denied.
func (m *Memory) takeAll(charges []backends.Charge, out []limits.Decision, taking bool) error {
	if len(charges) != len(out) {
		return errLengths
	}
	g := m.groups.Get().(*group)
	defer g.release()
	g.charges, g.out, g.peeking = charges, out, !taking
	g.parts = slices.Grow(g.parts[:0], len(charges))[:len(charges)]
	if err := g.identify(); err != nil {
		return err
	}
	for {
		g.now = m.clock.now()
		g.lock()
		if !g.retired() {
			break
		}
		g.unlock()
		if err := g.identify(); err != nil {
			return err
		}
	}
	defer g.unlock()
	for i := range g.parts {
		g.now = m.shardOf(g.parts[i].hash).nowLocked(g.now)
	}
	for i := range g.parts {
		m.shardOf(g.parts[i].hash).latest = g.now
	}
	g.decideLocked()
	at := m.clock.at(g.now)
	for i := range out {
		out[i].At = at
	}
	return nil
}

var errEndingLengths = errors.New("memory: endings and settlements differ in length")

// Settle implements [backends.Settler]. It fails for a charge of this Memory only if the limit was
// retired, and the table of limits is full of live ones.
func (m *Memory) Settle(_ context.Context, endings []backends.Ending,
	out []limits.Settlement) error {
	if len(endings) != len(out) {
		return errEndingLengths
	}
	for i := range endings {
		m.settleOne(&endings[i], &out[i])
	}
	return nil
}

// settleOne carries out e and sets s to its result. If the limit was retired before the shard was
// locked, it looks the limit up again.
func (m *Memory) settleOne(e *backends.Ending, s *limits.Settlement) {
	*s = limits.Settlement{}
	if e.Final == e.Taken || e.Final < 0 || e.Taken < 0 {
		return
	}
	if e.Lends > 0 {
		m.settleLoan(e, s)
		return
	}
	if algorithm.Of(e.Limit.Algorithm()).Held {
		m.hold(e.Scope, e.Key, e.Final-e.Taken)
		s.Returned, s.Charged = max(0, e.Taken-e.Final), max(0, e.Final-e.Taken)
		return
	}
	for {
		limit, err := m.limitOf(&backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit})
		if err != nil {
			s.Err = err
			return
		}
		hash := m.limits.keys.Key(limit.scopeHash, e.Key)
		now := m.clock.now()
		sh := m.shardOf(hash)
		sh.mu.Lock()
		if limit.retired.Load() {
			sh.mu.Unlock()
			continue
		}
		now = sh.nowLocked(now)
		if e.Final < e.Taken {
			s.Returned = sh.refundLocked(limit, hash, e, now)
		} else {
			s.Charged = sh.chargeLocked(limit, hash, e.Final-e.Taken, max(0, e.Lasts.Microseconds()), now)
			s.Forgiven = e.Final - e.Taken - s.Charged
		}
		sh.mu.Unlock()
		return
	}
}

// hold adds n units to those that a key holds, whether they fit or not. A negative n releases
// units.
func (m *Memory) hold(scope, key string, n int64) {
	hash := m.limits.keys.Key(m.limits.hashScope(scope, algorithm.Held), key)
	sh := m.shardOf(hash)
	sh.mu.Lock()
	sh.heldLocked().set(hash, family.Held(sh.held.of(hash), n))
	sh.mu.Unlock()
}

// settleLoan lends units to a holder, whether they fit or not, or takes them back.
func (m *Memory) settleLoan(e *backends.Ending, s *limits.Settlement) {
	hash := m.limits.keys.Key(m.limits.hashScope(e.Scope, algorithm.Held), e.Key)
	now, sh := m.clock.now(), m.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.nowLocked(now)
	table := sh.heldLocked()
	table.loans.endUntil(table, now)
	if n := e.Final - e.Taken; n > 0 {
		table.loans.lend(table, hash, e.Value, n, now+e.Lends.Microseconds())
		s.Charged = n
		return
	}
	s.Returned = table.loans.takeBack(table, hash, e.Value, e.Taken-e.Final)
}

// Lends implements [backends.Lender].
func (m *Memory) Lends() bool { return true }

// Reset implements [backends.Resetter]. It resets the states of all kinds of limits, one after the
// other. Units of concurrency limits stay held. If the store has
// displaced keys, a key that was reset may start from the summary of displaced keys instead of
// fresh.
func (m *Memory) Reset(_ context.Context, scope, key string) error {
	for kind := range algorithm.Kind(algorithm.Kinds) {
		m.reset(m.limits.keys.Key(m.limits.hashScope(scope, kind), key))
	}
	return nil
}

// reset empties the slot of a hash.
func (m *Memory) reset(hash uint64) {
	sh := m.shardOf(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.table.find(hash); e != nil {
		sh.states.clear(e)
	}
}

// Count implements [backends.Counter]. It reads every slot, one shard at a time.
func (m *Memory) Count(context.Context) (int, error) {
	now := m.clock.now()
	live := 0
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		if sh.held != nil {
			sh.held.loans.endUntil(sh.held, max(now, sh.latest))
		}
		live += sh.held.len()
		for b := range sh.table.buckets {
			for p := range sh.table.buckets[b] {
				if !sh.states.reusable(&sh.table.buckets[b][p], now) {
					live++
				}
			}
		}
		sh.mu.Unlock()
	}
	return live, nil
}

// MaxKeys returns how many keys may have live state before one displaces another.
func (m *Memory) MaxKeys() int { return m.maxKeys }

// Displaced returns how many keys have lost their slot because more than MaxKeys were live. A
// rising number means a flood of new keys, or a MaxKeys that is too low. New keys are then denied
// early.
func (m *Memory) Displaced() int64 {
	var n int64
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		n += sh.displaced
		sh.mu.Unlock()
	}
	return n
}

// limitOf checks a charge and returns its limit.
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

// retireLimits frees the ids of limits that no state names. It stops all decisions while it looks
// at every state: some ten milliseconds for a million keys. So it runs only when all ids are given
// out, and at most once a second.
func (m *Memory) retireLimits() error {
	m.sweep.Lock()
	defer m.sweep.Unlock()
	now := m.clock.now()
	if now < m.sweep.notBefore {
		return nil
	}
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		now = max(now, sh.latest)
	}
	m.sweep.notBefore = now + 1_000_000
	inUse := make([]bool, maxLimits+1)
	for i := range m.shards {
		sh := &m.shards[i]
		sh.latest = now
		for b := range sh.table.buckets {
			for p := range sh.table.buckets[b] {
				switch e := &sh.table.buckets[b][p]; {
				case sh.states.reusable(e, now):
					sh.states.clear(e)
				default:
					inUse[e.limitID] = true
				}
			}
		}
	}
	for i := range m.shards {
		m.shards[i].floors.forget(inUse)
	}
	m.limits.retire(inUse)
	return nil
}

var (
	errBindConcurrent = errors.New(
		"memory: bind: a concurrency limit releases units when a request ends: use package core")
	errBindValues = errors.New(
		"memory: bind: a distinct limit counts values, and a Bound gets none: " +
			"use package core or Memory.Take")
)

// Bind returns a Bound, which limits each key of a scope without rules. It counts together with
// every other charge on this scope of m. It returns an error if the limit is not legal, is a
// concurrency limit, whose units must be released, or counts values.
func (m *Memory) Bind(scope string, limit limits.Limit) (*Bound, error) {
	switch traits := &algorithm.Of(limit.Algorithm()).Traits; {
	case traits.Held:
		return nil, errBindConcurrent
	case traits.Values:
		return nil, errBindValues
	}
	bound, err := m.limitOf(&backends.Charge{Scope: scope, Limit: limit})
	if err != nil {
		return nil, err
	}
	b := &Bound{memory: m, scope: scope, limit: limit}
	b.bound.Store(bound)
	return b, nil
}
