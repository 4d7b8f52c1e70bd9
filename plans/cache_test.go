package plans_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/plans"
)

// version is a plan with a number.
type version int

func (v version) Validate() error {
	if v < 0 {
		return fmt.Errorf("must not be negative (got %d)", v)
	}
	return nil
}

const free version = 0

// database is a table of plans that answers late, fails, or does not answer.
type database struct {
	mu       sync.Mutex
	plans    map[string]version
	takes    time.Duration // from reading to answering
	fails    error
	panics   any
	deaf     bool // it does not hear that its context ends
	lookups  int
	underWay map[string]int // by key
	most     int            // look-ups under way at once
	twice    int            // look-ups that began while one of their key was under way
}

func newDatabase(plans map[string]version) *database {
	return &database{plans: plans, underWay: make(map[string]int)}
}

func (d *database) lookUp(ctx context.Context, key string) (version, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.underWay[key] > 0 {
		d.twice++
	}
	d.lookups++
	d.underWay[key]++
	d.most = max(d.most, len(d.underWay))
	defer func() {
		if d.underWay[key]--; d.underWay[key] == 0 {
			delete(d.underWay, key)
		}
	}()
	v, ok := d.plans[key]
	if d.takes > 0 {
		takes, deaf := d.takes, d.deaf
		d.mu.Unlock()
		ended := ctx.Done()
		if deaf {
			ended = nil
		}
		select {
		case <-time.After(takes):
		case <-ended:
		}
		d.mu.Lock()
		if ctx.Err() != nil && !deaf {
			return 0, ctx.Err()
		}
	}
	switch {
	case d.panics != nil:
		panic(d.panics)
	case d.fails != nil:
		return 0, d.fails
	case !ok:
		return 0, plans.ErrNoPlan
	}
	return v, nil
}

// set changes the database, or reads it.
func (d *database) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *database) wantLookups(t *testing.T, want int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lookups != want {
		t.Errorf("%d look-ups, want %d", d.lookups, want)
	}
}

// bubble runs a test in virtual time, with a cache that is closed at its end.
func bubble(t *testing.T, d *database, o plans.Options, test func(*testing.T, *plans.Cache[version])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := plans.MustNew(d.lookUp, free, o)
		test(t, c)
		c.Close()
	})
}

// find expects a plan of a key at once: before any time passes.
func find(t *testing.T, c *plans.Cache[version], key string, want version) {
	t.Helper()
	findAfter(t, c, key, want, 0)
}

// findAfter expects a plan of a key after a wait.
func findAfter(t *testing.T, c *plans.Cache[version], key string, want version, wait time.Duration) {
	t.Helper()
	began := time.Now()
	got, err := c.Find(t.Context(), key)
	if err != nil || got != want || time.Since(began) != wait {
		t.Errorf("%q has plan %v (%v) after %v, want %v after %v", key, got, err, time.Since(began), want, wait)
	}
}

// idle waits d, and then for all look-ups that need no time.
func idle(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

func TestAPlanIsLookedUpOncePerTTL(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		for range 29 {
			find(t, c, "ann", 1)
			idle(time.Second)
		}
		d.wantLookups(t, 1)
		d.set(func() { d.plans["ann"] = 2 })
		idle(time.Minute)
		find(t, c, "ann", 2) // and not the expired one
		d.wantLookups(t, 2)
	})
}

func TestABusyKeyWaitsForItsFirstLookupOnly(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	d.takes = 200 * time.Millisecond
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		findAfter(t, c, "ann", 1, d.takes)
		for range 600 {
			find(t, c, "ann", 1)
			idle(time.Second)
		}
		d.set(func() {
			if d.lookups < 13 || d.lookups > 21 || d.twice > 0 { // one in 30 to 45 seconds
				t.Errorf("%d look-ups in ten minutes, of which %d overlap", d.lookups, d.twice)
			}
		})
	})
}

func TestAnExpiredKeyWaitsForItsRefresh(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{Budget: time.Minute}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "ann", 1)
		d.set(func() { d.plans["ann"], d.takes = 2, 20*time.Second })
		idle(50 * time.Second)
		find(t, c, "ann", 1) // which begins a look-up
		idle(9 * time.Second)
		find(t, c, "ann", 1)
		idle(time.Second) // the TTL
		findAfter(t, c, "ann", 2, 10*time.Second)
		d.wantLookups(t, 2)
	})
}

// With a TTL of a minute each answer was true at some instant of the last minute, and at some
// instant after the last Expire.
func TestNoAnswerIsOlderThanItsTTL(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{Budget: time.Minute}, func(t *testing.T, c *plans.Cache[version]) {
		written := []time.Time{{}, time.Now()} // by version
		var expired time.Time
		var running sync.WaitGroup
		for range 3_000 {
			switch random.IntN(10) {
			case 0:
				d.set(func() { d.plans["ann"]++; written = append(written, time.Now()) })
			case 1:
				c.Expire("ann")
				expired = time.Now()
			case 2:
				d.set(func() { d.takes = time.Duration(random.Int64N(int64(time.Minute))) })
			default:
				since := expired
				running.Go(func() {
					v, err := c.Find(t.Context(), "ann")
					d.mu.Lock()
					defer d.mu.Unlock()
					if err != nil || int(v) >= len(written) {
						t.Errorf("plan %v, %v", v, err)
						return
					}
					if int(v)+1 == len(written) {
						return
					}
					if gone := written[v+1]; gone.Before(since) || time.Since(gone) > time.Minute {
						t.Errorf("version %d, which changed %v ago, the key expired %v ago",
							v, time.Since(gone), time.Since(since))
					}
				})
			}
			idle(time.Duration(random.Int64N(int64(10 * time.Second))))
		}
		running.Wait()
		idle(time.Minute)
		if s := c.State(); s.LastKnown+s.Defaults+s.Failures > 0 || s.UnderWay > 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAThousandRequestsOfANewKeyShareALookup(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	d.takes = 10 * time.Millisecond
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		var running sync.WaitGroup
		for range 1_000 {
			running.Go(func() { findAfter(t, c, "ann", 1, d.takes) })
		}
		running.Wait()
		d.wantLookups(t, 1)
	})
}

// The database takes no time here, so requests that come before, while and after it answers meet.
func TestAThousandGoroutinesShareALookup(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	c := plans.MustNew(d.lookUp, free, plans.Options{TTL: time.Hour, Budget: time.Hour})
	defer c.Close()
	begin := make(chan struct{})
	var running sync.WaitGroup
	for range 1_000 {
		running.Go(func() {
			<-begin
			if v, err := c.Find(t.Context(), "ann"); v != 1 || err != nil {
				t.Errorf("plan %v, %v", v, err)
			}
		})
	}
	close(begin)
	running.Wait()
	d.wantLookups(t, 1)
}

// A request that read its clock before the look-up of another began gets the lock after it has ended.
func TestARequestThatLagsBeginsNoSecondLookup(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		now, overtaken := time.Hour, false
		c.SetClock(func() time.Duration {
			if overtaken {
				return now
			}
			read := now
			now, overtaken = now+1, true
			find(t, c, "ann", 1) // by another request
			return read
		})
		find(t, c, "ann", 1)
		synctest.Wait()
		d.wantLookups(t, 1)
	})
}

func TestTheContextOfALookupEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen context.Context
		c := plans.MustNew(func(ctx context.Context, _ string) (version, error) {
			seen = ctx
			return 1, ctx.Err()
		}, free, plans.Options{})
		find(t, c, "ann", 1)
		synctest.Wait()
		if seen.Err() == nil {
			t.Error("the timer of the budget runs on")
		}
		c.Close()
	})
}

func TestARequestLeavesWhenItsContextEnds(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	d.takes = time.Second / 2
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		began := time.Now()
		_, err := c.Find(ctx, "ann")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		findAfter(t, c, "ann", 1, 400*time.Millisecond) // by the same look-up, which goes on
		d.wantLookups(t, 1)
		if _, err := c.Find(ctx, "bob"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request that has left: %v", err)
		}
		synctest.Wait()
		d.wantLookups(t, 1)
		if v, err := c.Find(ctx, "ann"); v != 1 || err != nil {
			t.Errorf("a cached plan: %v, %v", v, err)
		}
	})
}

func TestAKeyWithoutAPlanIsRemembered(t *testing.T) {
	d := newDatabase(map[string]version{})
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		for range 29 {
			find(t, c, "eve", free)
			idle(time.Second)
		}
		d.wantLookups(t, 1)
		if s := c.State(); s != (plans.State{Others: 1, Lookups: 1}) {
			t.Errorf("%+v", s)
		}
		d.set(func() { d.plans["eve"] = 1 })
		idle(time.Minute)
		find(t, c, "eve", 1)
		d.set(func() { delete(d.plans, "eve") })
		idle(time.Minute)
		find(t, c, "eve", free)
		if s := c.State(); s != (plans.State{Others: 1, Lookups: 3}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestOnlyALookUpMakesAKeyMissing(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		want := func(key string, want bool) {
			t.Helper()
			if got := c.Missing(key); got != want {
				t.Errorf("%s is missing: %v", key, got)
			}
		}
		want("eve", false) // not looked up yet
		find(t, c, "eve", free)
		find(t, c, "ann", 1)
		want("eve", true)
		want("ann", false)
		d.wantLookups(t, 2)
		d.set(func() { d.fails = errors.New("connection refused") })
		find(t, c, "bob", free)
		want("bob", false) // could not be looked up
		idle(time.Minute)
		find(t, c, "eve", free)
		want("eve", false) // was missing longer than a TTL ago
		d.set(func() { d.fails, d.plans["eve"] = nil, 2 })
		c.Expire("eve")
		want("eve", false)
		idle(time.Minute)
		find(t, c, "eve", 2)
		want("eve", false)
	})
}

func TestTheLastKnownPlanStaysWhileTheDatabaseFails(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	var answers []plans.Answer
	observe := func(_ context.Context, a plans.Answer) { answers = append(answers, a) }
	bubble(t, d, plans.Options{Observe: observe}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "ann", 1)
		down := errors.New("connection refused")
		d.set(func() { d.fails = down })
		idle(time.Hour)
		find(t, c, "ann", 1)
		find(t, c, "bob", free)
		if len(answers) != 2 || !answers[0].LastKnown || answers[0].Age != time.Hour || answers[1].LastKnown ||
			answers[1].Age != 0 || !errors.Is(answers[0].Err, down) || !errors.Is(answers[1].Err, down) {
			t.Errorf("%v", answers)
		}
		want := plans.State{Plans: 1, Others: 1, Lookups: 3, Failures: 2, LastKnown: 1, LastKnownAge: time.Hour, Defaults: 1}
		if s := c.State(); s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
		d.set(func() { d.fails, d.plans["ann"], d.plans["bob"] = nil, 2, 3 })
		idle(6 * time.Second)   // a tenth of the TTL
		find(t, c, "ann", 1)    // which begins a look-up, and does not wait for it
		find(t, c, "bob", free) // nor for that of a key that was never found
		synctest.Wait()
		find(t, c, "ann", 2)
		find(t, c, "bob", 3)
		d.wantLookups(t, 5)
	})
}

func TestAKeyKnownToHaveNoPlanStaysKnownToHaveNone(t *testing.T) {
	d := newDatabase(nil)
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "eve", free)
		d.set(func() { d.fails = errors.New("connection refused") })
		idle(50 * time.Second)
		find(t, c, "eve", free) // which begins a look-up
		synctest.Wait()
		find(t, c, "eve", free)
		if s := c.State(); s != (plans.State{Others: 1, Lookups: 2, Failures: 1}) {
			t.Errorf("within the TTL: %+v", s)
		}
		idle(10 * time.Second)
		find(t, c, "eve", free)
		if s := c.State(); s.LastKnown != 1 || s.LastKnownAge != time.Minute || s.Defaults != 0 {
			t.Errorf("after the TTL: %+v", s)
		}
	})
}

func TestAFailureIsNotRepeatedForATenthOfTheTTL(t *testing.T) {
	d := newDatabase(nil)
	d.fails = errors.New("connection refused")
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		for range 600 { // a minute
			find(t, c, "ann", free)
			idle(100 * time.Millisecond)
		}
		d.wantLookups(t, 10)
	})
}

func TestADatabaseThatHangsIsWaitedForOncePerKey(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{Budget: 300 * time.Millisecond}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "ann", 1)
		d.set(func() { d.takes = time.Hour })
		idle(time.Minute)
		findAfter(t, c, "ann", 1, 300*time.Millisecond)
		findAfter(t, c, "bob", free, 300*time.Millisecond)
		for range 30 {
			idle(time.Second)
			find(t, c, "ann", 1)
			find(t, c, "bob", free)
		}
		if s := c.State(); s.Failures < 8 || s.UnderWay > 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAKeyIsWaitedForAgainATTLAfterItsFailure(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	d.takes = time.Hour
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		findAfter(t, c, "ann", free, time.Second) // the budget, at whose end it fails
		idle(time.Minute - time.Nanosecond)
		find(t, c, "ann", free)
		idle(2 * time.Minute)
		findAfter(t, c, "ann", free, time.Second)
	})
}

func TestABusyKeyNeverWaitsForADatabaseThatHangs(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "ann", 1)
		d.set(func() { d.takes = time.Hour })
		for range 600 {
			idle(time.Second)
			find(t, c, "ann", 1)
		}
	})
}

func TestALookupThatIgnoresItsContextDelaysNoOther(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1, "bob": 2})
	d.takes, d.deaf = 10*time.Second, true
	var answers []plans.Answer
	observe := func(_ context.Context, a plans.Answer) { answers = append(answers, a) }
	o := plans.Options{MaxLookups: 1, Observe: observe}
	bubble(t, d, o, func(t *testing.T, c *plans.Cache[version]) {
		findAfter(t, c, "ann", free, time.Second) // the budget
		find(t, c, "ann", free)                   // and begins no other
		find(t, c, "bob", free)                   // the only look-up is under way
		if !errors.Is(answers[0].Err, context.DeadlineExceeded) ||
			!errors.Is(answers[1].Err, context.DeadlineExceeded) || !errors.Is(answers[2].Err, plans.ErrBusy) {
			t.Errorf("%v", answers)
		}
		idle(9 * time.Second)
		find(t, c, "ann", 1) // a late answer is an answer
		d.wantLookups(t, 1)
	})
}

func TestBrokenLookupsAreFailures(t *testing.T) {
	for name, lookup := range map[string]func(context.Context, string) (version, error){
		"panic: boom":                     func(context.Context, string) (version, error) { panic("boom") },
		"not valid: must not be negative": func(context.Context, string) (version, error) { return -1, nil },
		"the look-up called runtime.Goexit": func(context.Context, string) (version, error) {
			runtime.Goexit()
			return 1, nil
		},
		// A nil pointer that is no nil error: errors.Is calls its Unwrap.
		"panic: runtime error": func(context.Context, string) (version, error) { return 1, (*fs.PathError)(nil) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var a plans.Answer
			c := plans.MustNew(lookup, free, plans.Options{Observe: func(_ context.Context, b plans.Answer) { a = b }})
			find(t, c, "ann", free)
			if a.Err == nil || !strings.Contains(a.Err.Error(), name) || c.State().Failures != 1 {
				t.Errorf("%v, %+v, want %s", a.Err, c.State(), name)
			}
			find(t, c, "ann", free)
		})
	}
}

// A driver may say only that it was interrupted.
func TestALookupOutOfBudgetIsADeadlineExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted := errors.New("interrupted")
		var answers []error
		c := plans.MustNew(func(ctx context.Context, _ string) (version, error) {
			<-ctx.Done()
			return 0, interrupted
		}, free, plans.Options{Observe: func(_ context.Context, a plans.Answer) { answers = append(answers, a.Err) }})
		defer c.Close()
		findAfter(t, c, "ann", free, time.Second)
		synctest.Wait()
		find(t, c, "ann", free)
		if !errors.Is(answers[0], context.DeadlineExceeded) || !errors.Is(answers[1], context.DeadlineExceeded) ||
			!errors.Is(answers[1], interrupted) {
			t.Errorf("%v", answers)
		}
	})
}

func TestAFloodOfUnknownKeysBeginsFewLookups(t *testing.T) {
	d := newDatabase(nil)
	d.takes = 100 * time.Millisecond
	bubble(t, d, plans.Options{MaxKeys: 50, MaxLookups: 4}, func(t *testing.T, c *plans.Cache[version]) {
		var running sync.WaitGroup
		for i := range 10_000 {
			running.Go(func() {
				if v, err := c.Find(t.Context(), fmt.Sprint(i)); v != free || err != nil {
					t.Errorf("plan %v, %v", v, err)
				}
			})
		}
		running.Wait()
		d.set(func() {
			if d.most != 4 {
				t.Errorf("%d look-ups at once, want 4", d.most)
			}
		})
		if s := c.State(); s != (plans.State{Others: 4, Lookups: 4, Refused: 9_996, Defaults: 9_996}) {
			t.Errorf("%+v", s)
		}
		d.set(func() { d.takes = 0 })
		for i := range 10_000 {
			find(t, c, fmt.Sprint(i), free)
		}
		if s := c.State(); s.Others != 50 || s.Plans != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAFloodOfUnknownKeysLeavesCustomersAlone(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{MaxKeys: 10, MaxLookups: 1}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "ann", 1)
		for i := range 100 { // they are looked up, and evict each other
			find(t, c, fmt.Sprint(i), free)
		}
		d.set(func() { d.takes = time.Second })
		var running sync.WaitGroup
		for i := range 70 { // from now on an unknown key is always under way
			running.Go(func() { c.Find(t.Context(), fmt.Sprint("x", i)) })
			idle(time.Second)
		}
		d.set(func() { d.takes, d.plans["ann"] = time.Second/2, 2 })
		running.Go(func() { c.Find(t.Context(), "y") })
		synctest.Wait()
		findAfter(t, c, "ann", 2, time.Second/2)
		running.Wait()
	})
}

func TestLongKeysAreNotLookedUp(t *testing.T) {
	d := newDatabase(nil)
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, strings.Repeat("x", 1025), free)
		d.wantLookups(t, 0)
		find(t, c, strings.Repeat("x", 1024), free)
		d.wantLookups(t, 1)
		if s := c.State(); s != (plans.State{Others: 1, Lookups: 1, Refused: 1, Defaults: 1}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestExpireHasTheNextRequestWait(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "ann", 1)
		d.set(func() { d.plans["ann"] = 2 })
		find(t, c, "ann", 1)
		c.Expire("ann")
		find(t, c, "ann", 2)
		c.Expire("bob") // which is not cached
		d.set(func() { d.fails = errors.New("connection refused") })
		c.Expire("ann")
		find(t, c, "ann", 2) // the last known one
		find(t, c, "ann", 2)
		d.set(func() { d.fails, d.plans["ann"] = nil, 3 })
		c.Expire("ann") // the failure, too
		find(t, c, "ann", 3)
		d.wantLookups(t, 4)
	})
}

// The one that is under way may have read the old plan. Its end must not hide the new one.
func TestExpireBeginsALookupBesideOneThatIsUnderWay(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	d.takes = 300 * time.Millisecond
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		var running sync.WaitGroup
		running.Go(func() { findAfter(t, c, "ann", 1, d.takes) })
		idle(200 * time.Millisecond)
		d.set(func() { d.plans["ann"] = 2 })
		c.Expire("ann")
		running.Go(func() { findAfter(t, c, "ann", 2, d.takes) })
		synctest.Wait()
		if s := c.State(); s.UnderWay != 2 || d.twice != 1 {
			t.Errorf("%d under way, %d beside another", s.UnderWay, d.twice)
		}
		idle(200 * time.Millisecond) // the first has returned
		running.Go(func() { findAfter(t, c, "ann", 2, 100*time.Millisecond) })
		running.Wait()
		find(t, c, "ann", 2)
		d.wantLookups(t, 2)
	})
}

// A customer whose plan changes all the time must not take the look-ups of the others without end.
func TestExpireBeginsNoMoreLookupsThanMayBeUnderWay(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{MaxLookups: 3}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "ann", 1)
		d.set(func() { d.takes = time.Second / 2 })
		var running sync.WaitGroup
		for range 10 {
			c.Expire("ann")
			running.Go(func() {
				if v, err := c.Find(t.Context(), "ann"); v != 1 || err != nil {
					t.Errorf("plan %v, %v", v, err)
				}
			})
			synctest.Wait()
		}
		if s := c.State(); s.UnderWay != 3 || s.Refused != 7 {
			t.Errorf("%+v", s)
		}
		running.Wait()
	})
}

func TestAnOlderAnswerReplacesNoNewerOne(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	d.takes = time.Second / 2
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		var running sync.WaitGroup
		running.Go(func() { findAfter(t, c, "ann", 1, time.Second/2) }) // reads version 1
		idle(100 * time.Millisecond)
		d.set(func() { d.plans["ann"], d.takes = 2, 100*time.Millisecond })
		c.Expire("ann")
		findAfter(t, c, "ann", 2, 100*time.Millisecond)
		running.Wait() // the first look-up has returned after the second
		find(t, c, "ann", 2)
		d.wantLookups(t, 2)
	})
}

func TestAnOlderFailureHidesNoNewerAnswer(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	d.takes = 2 * time.Second // longer than the budget
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		var running sync.WaitGroup
		running.Go(func() { findAfter(t, c, "ann", 1, time.Second) })
		idle(100 * time.Millisecond)
		d.set(func() { d.takes = 0 })
		c.Expire("ann")
		find(t, c, "ann", 1)
		running.Wait()
		idle(10 * time.Second)
		find(t, c, "ann", 1)
		if s := c.State(); s != (plans.State{Plans: 1, Lookups: 2, Failures: 1}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestAnAnswerAfterCloseIsNotCached(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1, "bob": 2})
	d.deaf = true
	var answers []plans.Answer
	observe := func(_ context.Context, a plans.Answer) { answers = append(answers, a) }
	bubble(t, d, plans.Options{Observe: observe}, func(t *testing.T, c *plans.Cache[version]) {
		find(t, c, "ann", 1)
		d.set(func() { d.takes = time.Hour })
		var running sync.WaitGroup
		running.Go(func() { findAfter(t, c, "bob", free, 0) })
		synctest.Wait()
		c.Close()
		running.Wait()
		find(t, c, "bob", free)
		find(t, c, "ann", 1)
		idle(time.Hour)
		if s := c.State(); s.Plans != 1 || s.Others != 0 || s.UnderWay != 0 {
			t.Errorf("%+v", s)
		}
		find(t, c, "ann", 1)
		d.wantLookups(t, 2)
		for _, a := range answers {
			if !errors.Is(a.Err, plans.ErrClosed) {
				t.Errorf("%v", a)
			}
		}
		c.Close() // again
	})
}

func TestCloseEndsTheContextsOfLookups(t *testing.T) {
	d := newDatabase(nil)
	d.takes = time.Hour
	bubble(t, d, plans.Options{Budget: time.Minute}, func(t *testing.T, c *plans.Cache[version]) {
		go c.Find(t.Context(), "ann")
		synctest.Wait()
		c.Close()
		synctest.Wait()
		if s := c.State(); s.UnderWay != 0 || s.Failures != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAClockThatStepsBackMakesNoPlanLast(t *testing.T) {
	d := newDatabase(map[string]version{"ann": 1})
	bubble(t, d, plans.Options{}, func(t *testing.T, c *plans.Cache[version]) {
		now := time.Hour
		c.SetClock(func() time.Duration { return now })
		find(t, c, "ann", 1)
		d.set(func() { d.plans["ann"] = 2 })
		now = 0
		find(t, c, "ann", 2)
		d.set(func() { d.fails = errors.New("connection refused") })
		now = 2 * time.Hour
		find(t, c, "ann", 2)
		d.set(func() { d.fails, d.plans["ann"] = nil, 3 })
		now = time.Hour // the failure lies an hour ahead, and delays nothing
		find(t, c, "ann", 3)
	})
}

func TestARandomCrowdSharesLookups(t *testing.T) {
	d := newDatabase(map[string]version{"0": 1, "1": 1, "2": 1})
	bubble(t, d, plans.Options{TTL: time.Second}, func(t *testing.T, c *plans.Cache[version]) {
		var running sync.WaitGroup
		for range 50 {
			running.Go(func() {
				for range 100 {
					key := fmt.Sprint(rand.IntN(6))
					if _, err := c.Find(t.Context(), key); err != nil {
						t.Error(err)
					}
					switch rand.IntN(20) {
					case 0:
						d.set(func() { d.fails = errors.New("connection refused") })
					case 1, 2:
						d.set(func() { d.fails, d.takes = nil, time.Duration(rand.IntN(int(time.Second))) })
					case 3:
						c.State()
					}
					time.Sleep(time.Duration(rand.IntN(int(time.Second / 2)))) // of the bubble
				}
			})
		}
		running.Wait()
		d.set(func() {
			if d.twice > 0 || d.lookups < 10 {
				t.Errorf("%d of %d look-ups began while one of their key was under way", d.twice, d.lookups)
			}
		})
	})
}

func TestAllMistakesAreReported(t *testing.T) {
	_, err := plans.New[limits.Limit](nil, limits.Limit{},
		plans.Options{TTL: -1, Budget: -1, MaxKeys: -1, MaxLookups: -1})
	for _, want := range []string{"plans: lookup: ", "plans: default plan: ", "plans: TTL: ",
		"plans: max keys: ", "plans: max lookups: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	d := newDatabase(nil)
	for _, o := range []plans.Options{{Budget: time.Hour}, {Budget: -1}} {
		if _, err := plans.New(d.lookUp, free, o); err == nil || !strings.Contains(err.Error(), "plans: budget: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if c, err := plans.New(d.lookUp, free, plans.Options{TTL: time.Millisecond}); err != nil {
		t.Error(err)
	} else if c.LimitFor(nil) != nil {
		t.Error("LimitFor(nil) is a function")
	}
}
