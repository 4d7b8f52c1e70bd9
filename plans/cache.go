package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/weir-go/weir/limits"
)

// ErrNoPlan is the error of a look-up that finds no plan for its key. The cache remembers it like a
// plan: the key gets the default plan.
var ErrNoPlan = errors.New("plans: the key has no plan")

// Reasons of an [Answer], besides the errors of look-ups. A look-up that exceeds its budget is
// [context.DeadlineExceeded].
var (
	// ErrBusy: as many look-ups as MaxLookups were under way.
	ErrBusy = errors.New("plans: too many look-ups are under way: raise MaxLookups")
	// ErrClosed: [Cache.Close] was called.
	ErrClosed = errors.New("plans: the cache is closed")
	// ErrLongKey: the key has more than 1,024 bytes. Such keys are never looked up.
	ErrLongKey = errors.New("plans: the key is longer than 1,024 bytes: let the rule's Key digest it")
)

// longestKey bounds the memory of cached keys.
const longestKey = 1024

// Classes of look-ups. Each has a bound of its own.
const (
	newKey = iota // no plan is cached
	plannedKey
)

// Plan is what a look-up finds: a [limits.Limit], or a struct with the limits of several rules. A
// plan that is not valid is never cached: it counts as a failed look-up. Plans are shared between
// requests and must not change.
type Plan interface {
	// Validate returns the mistakes of the plan's limits.
	Validate() error
}

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// TTL is how long an answer is used after its look-up began. From an instant between half and
	// three quarters of this time, another for each answer, a request of the key starts another
	// look-up in the background. 0: one minute.
	TTL time.Duration

	// Budget is the deadline of a look-up, and so the longest wait of a request. 0: one second, or
	// TTL if that is less.
	Budget time.Duration

	// MaxKeys is how many keys with a plan are cached, and how many other keys. Each needs some 200
	// bytes in addition to its text and plan. 0: 100,000.
	MaxKeys int

	// MaxLookups is how many look-ups of keys whose plan is cached may be under way at once, and
	// how many of other keys. 0: 16.
	MaxLookups int

	// Observe is called by [Cache.Find] before it returns a plan that no look-up within the TTL has
	// found, with the context of the request. A request calls Find once for each rule that uses it.
	// nil: no calls.
	Observe func(ctx context.Context, a Answer)
}

// Answer says which plan [Cache.Find] returns instead of one that was looked up within the TTL.
type Answer struct {
	LastKnown bool          // the last known plan; false: the default plan
	Age       time.Duration // how long ago the look-up that found the last known plan began
	Err       error         // why there is no newer one; its text may contain the key
}

// State is what a [Cache] holds and has done.
type State struct {
	Plans    int // keys with a plan that are cached
	Others   int // other keys that are cached: without a plan, or not looked up successfully
	UnderWay int // look-ups that have not returned

	Lookups  uint64 // look-ups that have returned
	Failures uint64 // those that failed
	Refused  uint64 // look-ups that did not begin, by ErrBusy or ErrLongKey

	LastKnown    uint64        // how often Find returned a plan that had expired: the last known one
	LastKnownAge time.Duration // how old that was when Find last did so
	Defaults     uint64        // how often Find returned the default plan, except for ErrNoPlan
}

// Cache finds plans by key. It is safe for concurrent use.
type Cache[P Plan] struct {
	lookup      func(context.Context, string) (P, error)
	defaultPlan P
	options     Options
	now         func() time.Duration // monotonic
	ctx         context.Context      // ends at Close
	cancel      context.CancelCauseFunc

	mu       sync.Mutex
	planned  *simplelru.LRU[string, *entry[P]] // of keys with a plan
	others   *simplelru.LRU[string, *entry[P]] // of other keys
	flights  map[string]*flight[P]             // look-ups whose answer will be cached
	underWay [2]int                            // look-ups that have not returned, by class
	closed   bool
	state    State
}

// entry is what is known about a key. It never changes: each look-up makes a new one.
type entry[P Plan] struct {
	plan    P
	found   bool          // by a look-up, or because the key has no plan
	hasPlan bool          // the plan is not the default
	at      time.Duration // when the look-up began
	refresh time.Duration // the age at which another look-up begins in the background
	expires time.Duration // the age at which requests wait for it

	err    error         // of the last look-up; nil: it succeeded
	failed time.Duration // when that returned
}

// New returns a cache of the answers of lookup, or an error that reports every mistake.
//
// lookup returns the plan of a key, or [ErrNoPlan]. Any other error, a panic and a plan that is not
// valid are failures; the key is looked up again a tenth of the TTL later. lookup must be safe for
// concurrent use. It is called once at a time for a key, except that a call after [Cache.Expire]
// begins beside an earlier one that has not returned. It should return when its context ends. The
// context has no values of a request, since requests share the look-up.
//
// defaultPlan is the plan of keys that have no plan, or whose plan cannot be found.
func New[P Plan](lookup func(ctx context.Context, key string) (P, error), defaultPlan P,
	options Options) (*Cache[P], error) {
	if err := validate(lookup == nil, defaultPlan, &options); err != nil {
		return nil, err
	}
	started := time.Now()
	c := &Cache[P]{
		lookup: lookup, defaultPlan: defaultPlan, options: options,
		now:     func() time.Duration { return time.Since(started) },
		flights: make(map[string]*flight[P]),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	var err error
	if c.planned, err = simplelru.NewLRU[string, *entry[P]](options.MaxKeys, nil); err != nil {
		return nil, err
	}
	c.others, err = simplelru.NewLRU[string, *entry[P]](options.MaxKeys, nil)
	return c, err
}

// validate reports every mistake, and sets the defaults of options.
func validate(noLookup bool, defaultPlan Plan, options *Options) error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("plans: "+format, args...))
	}
	if noLookup {
		wrong("lookup: is nil: pass a function that finds the plan of a key")
	}
	if err := defaultPlan.Validate(); err != nil {
		wrong("default plan: %w", err)
	}
	options.TTL = cmp.Or(options.TTL, time.Minute)
	if options.TTL < time.Millisecond {
		wrong("TTL: must be at least 1ms (got %v)", options.TTL)
	}
	options.Budget = cmp.Or(options.Budget, min(time.Second, options.TTL))
	if options.TTL >= time.Millisecond && (options.Budget < 0 || options.Budget > options.TTL) {
		wrong("budget: must be positive and at most the TTL, %v (got %v)", options.TTL, options.Budget)
	}
	options.MaxKeys = cmp.Or(options.MaxKeys, 100_000)
	if options.MaxKeys < 0 {
		wrong("max keys: must be positive (got %d)", options.MaxKeys)
	}
	options.MaxLookups = cmp.Or(options.MaxLookups, 16)
	if options.MaxLookups < 0 {
		wrong("max lookups: must be positive (got %d)", options.MaxLookups)
	}
	return errors.Join(errs...)
}

// MustNew is [New] for package variables. It panics if an argument has a mistake.
func MustNew[P Plan](lookup func(ctx context.Context, key string) (P, error), defaultPlan P,
	options Options) *Cache[P] {
	c, err := New(lookup, defaultPlan, options)
	if err != nil {
		panic(err)
	}
	return c
}

// LimitFor returns a function for LimitFor of a rule of net/http or chi. limit chooses the limit of
// the rule from the plan. Rules that use one cache share its look-ups. If limit is nil the result
// is nil, which New of the limiter reports. For other frameworks call [Cache.Find].
func (c *Cache[P]) LimitFor(
	limit func(P) limits.Limit,
) func(r *http.Request, key string) (limits.Limit, error) {
	if limit == nil {
		return nil
	}
	return func(r *http.Request, key string) (limits.Limit, error) {
		plan, err := c.Find(r.Context(), key)
		if err != nil {
			return limits.Limit{}, err
		}
		return limit(plan), nil
	}
}

// Find returns the plan of a key. If it is not cached, or has expired, Find waits for a look-up,
// which all requests of the key share. Once a look-up of the key has failed, requests do not wait
// for the next ones, for the time of a TTL. Find then returns the last known plan, or the default
// plan. It returns an error only if ctx ends first: that of ctx.
func (c *Cache[P]) Find(ctx context.Context, key string) (P, error) {
	now := c.now()
	c.mu.Lock()
	e := c.entryLocked(key)
	if e.settled(now) {
		c.mu.Unlock()
		return e.plan, nil
	}
	return c.findLocked(ctx, key, e)
}

// findLocked is Find for a key that may have to be looked up. It unlocks c. It reads the clock
// under the lock, so no look-up whose answer is cached began later.
func (c *Cache[P]) findLocked(ctx context.Context, key string, e *entry[P]) (P, error) {
	now := c.now()
	if e.settled(now) {
		c.mu.Unlock()
		return e.plan, nil
	}
	if e.fresh(now) {
		c.flightLocked(key, e, now) // in the background
		c.mu.Unlock()
		return e.plan, nil
	}
	if err := ctx.Err(); err != nil {
		c.mu.Unlock()
		return *new(P), err
	}
	f, err := c.flightLocked(key, e, now)
	c.mu.Unlock()
	if f != nil && e.failedSince(now, c.options.TTL) {
		err = e.err
	} else if f != nil {
		if err = f.wait(ctx); err == nil {
			return f.plan, nil
		}
		if ctx.Err() != nil {
			return *new(P), ctx.Err()
		}
	}
	return c.substitute(ctx, key, err), nil
}

// flightLocked returns the look-up of a key that is under way, or begins one. If none may begin it
// returns the reason.
func (c *Cache[P]) flightLocked(key string, e *entry[P], now time.Duration) (*flight[P], error) {
	if f := c.flights[key]; f != nil {
		return f, nil
	}
	class := newKey
	if e != nil && e.hasPlan {
		class = plannedKey
	}
	switch {
	case c.closed:
		return nil, ErrClosed
	case e.failedSince(now, c.options.TTL/10):
		return nil, e.err
	case len(key) > longestKey:
		c.state.Refused++
		return nil, ErrLongKey
	case c.underWay[class] >= c.options.MaxLookups:
		c.state.Refused++
		return nil, ErrBusy
	}
	// A clone, since key may be a part of a longer text, such as the header of a request.
	f := &flight[P]{key: strings.Clone(key), class: class, at: now, done: make(chan struct{})}
	f.ctx, f.cancel = context.WithTimeoutCause(c.ctx, c.options.Budget, errBudget)
	c.flights[f.key] = f
	c.underWay[class]++
	go c.run(f)
	return f, nil
}

// run calls the look-up of f. It ends f also if the look-up exits the goroutine.
func (c *Cache[P]) run(f *flight[P]) {
	f.err = errors.New("plans: the look-up called runtime.Goexit")
	defer c.finish(f)
	f.plan, f.err = f.ask(c.lookup)
}

// finish ends f. It caches the answer, unless Expire or Close was called meanwhile.
func (c *Cache[P]) finish(f *flight[P]) {
	hasPlan := f.err == nil
	switch {
	case f.err == ErrNoPlan:
		f.plan, f.err = c.defaultPlan, nil
	case f.err != nil && f.ctx.Err() != nil:
		f.err = fmt.Errorf("%w: %w", context.Cause(f.ctx), f.err)
	}
	c.mu.Lock()
	c.underWay[f.class]--
	c.state.Lookups++
	if f.err != nil {
		c.state.Failures++
	}
	if c.flights[f.key] == f {
		delete(c.flights, f.key)
		if !c.closed {
			c.storeLocked(f.key, c.entryOfLocked(f, hasPlan))
		}
	}
	c.mu.Unlock()
	close(f.done)
	f.cancel()
}

// entryOfLocked returns the entry of the key of f after f.
func (c *Cache[P]) entryOfLocked(f *flight[P], hasPlan bool) *entry[P] {
	ttl := c.options.TTL
	if f.err == nil {
		return &entry[P]{plan: f.plan, found: true, hasPlan: hasPlan, at: f.at,
			refresh: ttl/2 + rand.N(ttl/4), // at random, so that keys spread their look-ups
			expires: ttl}
	}
	e := entry[P]{plan: c.defaultPlan}
	if known := c.entryLocked(f.key); known != nil {
		e = *known
	}
	e.err, e.failed = f.err, c.now()
	return &e
}

// substitute returns the plan of a key that could not be looked up because of err.
func (c *Cache[P]) substitute(ctx context.Context, key string, err error) P {
	c.mu.Lock()
	e, a := c.entryLocked(key), Answer{Err: err}
	if e.fresh(c.now()) { // by a look-up that began meanwhile
		c.mu.Unlock()
		return e.plan
	}
	plan := c.defaultPlan
	if e != nil && e.found {
		plan, a.LastKnown, a.Age = e.plan, true, max(0, c.now()-e.at)
		c.state.LastKnown++
		c.state.LastKnownAge = a.Age
	} else {
		c.state.Defaults++
	}
	c.mu.Unlock()
	if c.options.Observe != nil {
		c.options.Observe(ctx, a)
	}
	return plan
}

// Missing reports whether a look-up within the TTL has said that a key has no plan, by [ErrNoPlan].
// It looks up nothing: call it after [Cache.Find], or after the rules, for example to answer 401. A
// key that could not be looked up is not missing.
func (c *Cache[P]) Missing(key string) bool {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryLocked(key)
	return e.fresh(now) && !e.hasPlan
}

// Expire expires the answer for a key: the next request waits for a new look-up. Call it after a
// change of a customer's plan, and the change is in force at once in this process. Requests that
// wait for a look-up get its answer, which is not cached. The new look-up does not wait for it. If
// the new look-up fails, the last known plan stays in force.
func (c *Cache[P]) Expire(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, key)
	if e := c.entryLocked(key); e != nil {
		expired := *e
		expired.refresh, expired.expires, expired.err = 0, 0, nil
		c.storeLocked(key, &expired)
	}
}

// State returns what the cache holds and has done.
func (c *Cache[P]) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Plans, s.Others = c.planned.Len(), c.others.Len()
	s.UnderWay = c.underWay[newKey] + c.underWay[plannedKey]
	return s
}

// Close ends the contexts of the look-ups under way, and does not wait for them. Requests that wait
// go on at once. After Close no look-up begins, and no answer is cached.
func (c *Cache[P]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.cancel(ErrClosed)
}

// entryLocked returns the entry of a key, or nil.
func (c *Cache[P]) entryLocked(key string) *entry[P] {
	if e, ok := c.planned.Get(key); ok {
		return e
	}
	e, _ := c.others.Get(key)
	return e
}

// storeLocked makes e the entry of a key.
func (c *Cache[P]) storeLocked(key string, e *entry[P]) {
	to, from := c.others, c.planned
	if e.hasPlan {
		to, from = from, to
	}
	from.Remove(key)
	to.Add(key, e)
}

// settled reports whether e is young enough to answer without a look-up.
func (e *entry[P]) settled(now time.Duration) bool {
	return e != nil && within(now, e.at, e.refresh)
}

// fresh reports whether e has not expired.
func (e *entry[P]) fresh(now time.Duration) bool {
	return e != nil && within(now, e.at, e.expires)
}

// failedSince reports whether the last look-up failed in the last d.
func (e *entry[P]) failedSince(now, d time.Duration) bool {
	return e != nil && e.err != nil && within(now, e.failed, d)
}

// within reports whether now is less than d after from, and not before it: a clock that has gone
// back makes entries expire instead of last.
func within(now, from, d time.Duration) bool { return uint64(now-from) < uint64(d) }
