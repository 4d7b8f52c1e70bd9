package redisbackend_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/redisbackend"
)

// stepped is a backend whose clock is set by hand.
type stepped struct {
	*redisbackend.Bare
	now *atomic.Int64
}

func newStepped(client redis.Scripter, options redisbackend.BareOptions) stepped {
	s := stepped{now: new(atomic.Int64)}
	s.now.Store(1_800_000_000_000_000)
	s.Bare = redisbackend.WithClock(redisbackend.MustNewBare(client, options), s.clock)
	return s
}

// sharing returns another backend on the same states and clock.
func (s stepped) sharing(client redis.Scripter, options redisbackend.BareOptions) stepped {
	return stepped{redisbackend.WithClock(redisbackend.MustNewBare(client, options), s.clock), s.now}
}

func (s stepped) clock() time.Time { return time.UnixMicro(s.now.Load()) }

func (s stepped) after(d time.Duration) { s.now.Add(d.Microseconds()) }

// end ends a charge that was allowed.
func end(t testing.TB, b backends.Settler, c backends.Charge, d limits.Decision) limits.Settlement {
	t.Helper()
	out := make([]limits.Settlement, 1)
	ok(t, b.Settle(t.Context(), []backends.Ending{ending(c, d)}, out))
	ok(t, out[0].Err)
	return out[0]
}

func ending(c backends.Charge, d limits.Decision) backends.Ending {
	return backends.Ending{Scope: c.Scope, Key: c.Key, Limit: c.Limit, Taken: c.Cost, Ticket: d.Ticket}
}

// held returns how many units the limit of c, of 100,000, leaves.
func held(t testing.TB, b backends.Peeker, c backends.Charge) int64 {
	t.Helper()
	c.Limit, c.Cost = limits.Concurrent(100_000), 0
	out := make([]limits.Decision, 1)
	ok(t, b.Peek(t.Context(), []backends.Charge{c}, out))
	return 100_000 - out[0].Remaining
}

func TestUnitsAreHeldUntilTheirEnd(t *testing.T) {
	t.Parallel()
	b := newStepped(newClient(t, startRedis(t).addr), redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(3), 2)
	rate := charge("rate", "ann", limits.TokenBucket(limits.PerHour(1), 10), 1)
	first := take(t, b, c, rate)
	if d := first[0]; !d.Allowed || d.Remaining != 1 || d.ResetAfter != 0 || d.EffectiveWindow != limits.Never {
		t.Errorf("the first: %+v", d)
	}
	second := take(t, b, c, rate)
	if d := second[0]; d.Allowed || d.Remaining != 1 || d.RetryAfter != time.Second || d.EffectiveWindow != limits.Never {
		t.Errorf("the second: %+v", d)
	}
	if left := second[1].Remaining; left != 9 {
		t.Errorf("a request denied for concurrency has left %d of the rate, want 9", left)
	}
	for range 2 { // a release may be repeated
		if s := end(t, b, c, first[0]); s.Returned != 2 {
			t.Errorf("settled: %+v", s)
		}
		if n := held(t, b, c); n != 0 {
			t.Errorf("%d are held after the end", n)
		}
	}
	c.Cost = 4
	if d := take(t, b, c)[0]; d.Allowed || d.RetryAfter != limits.Never {
		t.Errorf("more than the limit: %+v", d)
	}
}

// A process that crashes never releases what it holds.
func TestWhatACrashedProcessHoldsEndsAfterHoldTime(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	crashed := newStepped(newClient(t, server.addr), redisbackend.BareOptions{HoldTime: 10 * time.Second})
	b := crashed.sharing(newClient(t, server.addr), redisbackend.BareOptions{HoldTime: 10 * time.Second})
	c := charge("uploads", "ann", limits.Concurrent(2), 1)
	take(t, crashed, c)
	crashed.Close()
	crashed.after(time.Second)
	mine := take(t, b, c)[0]
	b.after(9*time.Second - time.Microsecond)
	if d := take(t, b, c)[0]; d.Allowed {
		t.Error("a unit ends before its time is over")
	}
	b.after(time.Microsecond)
	if d := take(t, b, c)[0]; !d.Allowed || d.Remaining != 0 {
		t.Errorf("a unit does not end when its time is over: %+v", d)
	}
	end(t, b, c, mine)
	if n := held(t, b, c); n != 1 {
		t.Errorf("%d are held, want 1", n)
	}
}

func TestWhatIsHeldLongIsRenewed(t *testing.T) {
	t.Parallel()
	b := newStepped(newClient(t, startRedis(t).addr), redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(5), 2)
	d := take(t, b, c)[0]
	for range 5 {
		b.after(29 * time.Second)
		redisbackend.RenewAll(b.Bare)
	}
	if n := held(t, b, c); n != 2 {
		t.Errorf("%d are held, want 2", n)
	}
	end(t, b, c, d)
	redisbackend.RenewAll(b.Bare)
	if n := held(t, b, c); n != 0 {
		t.Errorf("%d are held after the end: a renewal has put them back", n)
	}
}

// By the clock of the process, as in a program.
func TestTheFirstRenewalIsAfterAThirdOfHoldTime(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{HoldTime: 3 * time.Second})
	c := charge("uploads", "ann", limits.Concurrent(5), 1)
	d := take(t, b, c)[0]
	name := redisbackend.HeldName(b, c.Scope, c.Key)
	score := func() float64 { return client.ZRangeWithScores(t.Context(), name, 0, -1).Val()[0].Score }
	before := score()
	until(t, "it is renewed", func() bool { return score() > before })
	if after := time.Duration(score()-before) * time.Microsecond; after < time.Second {
		t.Errorf("renewed %v after the taking", after)
	}
	end(t, b, c, d)
	if n := client.Exists(t.Context(), name).Val(); n != 0 {
		t.Error("a key without held units stays")
	}
}

func TestWhatRedisHasLostIsPutBackAndLoggedOnce(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	var log logged
	b := newStepped(client, redisbackend.BareOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var charges []backends.Charge
	for i := range 5 {
		charges = append(charges, charge("uploads", fmt.Sprint(i), limits.Concurrent(5), 2))
		take(t, b, charges[i])
	}
	ok(t, client.FlushAll(t.Context()).Err())
	ok(t, client.ScriptFlush(t.Context()).Err())
	c := charge("uploads", "after", limits.Concurrent(5), 1)
	take(t, b, c)
	redisbackend.RenewAll(b.Bare)
	for _, c := range charges {
		if n := held(t, b, c); n != 2 {
			t.Errorf("%d are held, want 2", n)
		}
	}
	if n := held(t, b, c); n != 1 {
		t.Errorf("%d taken after the loss are held, want 1", n)
	}
	redisbackend.RenewAll(b.Bare)
	until(t, "it is logged", func() bool { return log.count("lost units") > 0 })
	if n := log.count("lost units"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if log.count("uploads") > 0 {
		t.Error("a key is in the log")
	}
}

func TestALimitLoweredBelowWhatIsHeldDenies(t *testing.T) {
	t.Parallel()
	b := newStepped(newClient(t, startRedis(t).addr), redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(5), 1)
	var all []limits.Decision
	for range 5 {
		all = append(all, take(t, b, c)[0])
	}
	c.Limit = limits.Concurrent(2)
	for i, d := range all {
		if denied := take(t, b, c)[0]; denied.Allowed || denied.Remaining != 0 {
			t.Errorf("with %d held under a limit of 2: %+v", 5-i, denied)
		}
		if end(t, b, c, d); i == 3 {
			break
		}
	}
	if d := take(t, b, c)[0]; !d.Allowed || d.Remaining != 0 {
		t.Errorf("with 1 held under a limit of 2: %+v", d)
	}
}

func TestResetReleasesNothing(t *testing.T) {
	t.Parallel()
	b := newStepped(newClient(t, startRedis(t).addr), redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(5), 1)
	take(t, b, c)
	ok(t, b.Reset(t.Context(), c.Scope, c.Key))
	if n := held(t, b, c); n != 1 {
		t.Errorf("%d are held after a reset, want 1", n)
	}
}

func TestAKeyThatIsNoSortedSetIsAnError(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := newStepped(client, redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(5), 1)
	rate := charge("rate", "ann", limits.FixedWindow(limits.PerHour(10)), 1)
	name := redisbackend.HeldName(b.Bare, c.Scope, c.Key)
	ok(t, client.Set(t.Context(), name, "?", 0).Err())
	for _, c := range []backends.Charge{c, {Scope: c.Scope, Key: c.Key, Limit: c.Limit, Cost: 2}} {
		err := b.Take(t.Context(), []backends.Charge{rate, c}, make([]limits.Decision, 2))
		if !redis.HasErrorPrefix(err, "WEIR") || !strings.Contains(err.Error(), "another type") {
			t.Errorf("%v, want one that says that it is of another type", err)
		}
	}
	if left := take(t, b, rate)[0].Remaining; left != 9 {
		t.Errorf("%d of the rate remain, want 9: a request that failed was charged", left)
	}
	// One such key does not keep others from being renewed and released.
	other := charge("uploads", "bob", limits.Concurrent(5), 1)
	ok(t, client.Del(t.Context(), name).Err())
	endings := []backends.Ending{ending(c, take(t, b, c)[0]), ending(other, take(t, b, other)[0])}
	ok(t, client.Set(t.Context(), name, "?", 0).Err())
	b.after(29 * time.Second)
	redisbackend.RenewAll(b.Bare)
	b.after(29 * time.Second)
	if n := held(t, b, other); n != 1 {
		t.Errorf("%d are held, want 1", n)
	}
	settle(t, b, endings...)
	if n := held(t, b, other); n != 0 {
		t.Errorf("%d are held after the end", n)
	}
}

// An empty member, that no version of weir has written, is a unit that ends soon.
func TestAnEmptyMemberFailsNobody(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := newStepped(client, redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(5), 1)
	ok(t, client.ZAdd(t.Context(), redisbackend.HeldName(b.Bare, c.Scope, c.Key), redis.Z{Score: 1e300}).Err())
	take(t, b, c)
	if n := held(t, b, c); n != 2 {
		t.Errorf("%d are held, want 2", n)
	}
	b.after(time.Second)
	if n := held(t, b, c); n != 1 {
		t.Errorf("a second later %d are held, want 1", n)
	}
}

// A server without memory refuses to take, but renews and releases.
func TestAFullServerRenewsAndReleases(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := newStepped(client, redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(5), 1)
	rate := charge("rate", "ann", limits.FixedWindow(limits.PerHour(10)), 1)
	stale := take(t, b, c)[0]
	b.after(20 * time.Second)
	d := take(t, b, c)[0]
	redisbackend.Forget(b.Bare, c, stale)
	b.after(15 * time.Second) // one unit has ended, and is still in the set
	ok(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for _, charges := range [][]backends.Charge{{c, rate}, {rate, c}, {c}} {
		if err := b.Take(t.Context(), charges, make([]limits.Decision, len(charges))); err == nil ||
			!strings.Contains(err.Error(), "OOM") {
			t.Errorf("%v, want an error: out of memory", err)
		}
	}
	redisbackend.RenewAll(b.Bare)
	b.after(29 * time.Second)
	if n := held(t, b, c); n != 1 {
		t.Errorf("%d are held, want 1", n)
	}
	end(t, b, c, d)
	if n := held(t, b, c); n != 0 {
		t.Errorf("%d are held after the end", n)
	}
}

// Random requests, at an instant and one after the other, by several processes of which
// some crash, are decided as by a list of holds and core's memory.
func TestHoldsAreThoseOfAList(t *testing.T) {
	t.Parallel()
	holdsAreThoseOfAList(t, newClient(t, startRedis(t).addr), sized(240))
}

func holdsAreThoseOfAList(t *testing.T, client redis.UniversalClient, rounds int) {
	seed := testrun.Seed(t)
	for round := 0; round < rounds && !t.Failed(); round++ {
		playHolds(t, client, rand.New(rand.NewPCG(seed, uint64(round))))
	}
}

func playHolds(t *testing.T, client redis.UniversalClient, random *rand.Rand) {
	const hold = 30 * time.Second
	options := redisbackend.BareOptions{Prefix: uniquePrefix(), Logger: slog.New(slog.DiscardHandler)}
	instances := []stepped{newStepped(client, options)}
	for range 2 {
		instances = append(instances, instances[0].sharing(client, options))
	}
	defer func() {
		for _, b := range instances {
			b.Close()
		}
	}()
	clock := instances[0].now
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return time.UnixMicro(clock.Load()) }})
	type running struct {
		by     int // backend
		charge backends.Charge
		got    limits.Decision // by Redis
		ends   int64
	}
	var all []*running
	most := map[string]int64{}
	for step := range 250 {
		switch random.IntN(10) {
		default: // take
			by := random.IntN(len(instances))
			var charges []backends.Charge
			for i := range 1 + random.IntN(3) {
				key := fmt.Sprint(random.IntN(2))
				scope := fmt.Sprint("held ", i%2)
				limit, known := most[scope]
				if !known || random.IntN(30) == 0 {
					limit = 1 + random.Int64N(12)
					most[scope] = limit
				}
				charges = append(charges, backends.Charge{
					Scope: scope, Key: key, Limit: limits.Concurrent(limit),
					Cost: random.Int64N(4), Shadow: random.IntN(5) == 0,
				})
			}
			for i := range charges { // one limit for each scope of a request
				charges[i].Limit = limits.Concurrent(most[charges[i].Scope])
			}
			if random.IntN(2) == 0 {
				charges = append(charges,
					charge("rate", "k", limits.TokenBucket(limits.PerSecond(1), 40), random.Int64N(3)))
			}
			got, want := make([]limits.Decision, len(charges)), make([]limits.Decision, len(charges))
			ok(t, instances[by].Peek(t.Context(), charges, got))
			ok(t, store.Peek(t.Context(), charges, want))
			// a peek at several servers decides shadow charges as if each group were allowed
			if _, alone := client.(*redis.Client); alone {
				compareHolds(t, fmt.Sprint("step ", step, ": peek"), charges, got, want)
			}
			ok(t, instances[by].Take(t.Context(), charges, got))
			ok(t, store.Take(t.Context(), charges, want))
			compareHolds(t, fmt.Sprint("step ", step, ": take"), charges, got, want)
			allowed := true
			for i := range charges {
				allowed = allowed && (got[i].Allowed || charges[i].Shadow)
			}
			if !allowed {
				redisbackend.WaitForGiveBacks(instances[by].Bare)
				until(t, "releases are done", func() bool { return redisbackend.ReleasesAreDone(instances[by].Bare) })
			}
			for i, c := range charges {
				if allowed && got[i].Allowed && c.Cost > 0 && c.Limit.Algorithm().Holds() {
					all = append(all, &running{by, c, got[i], clock.Load() + hold.Microseconds()})
				}
			}
		case 0, 1, 2: // end
			if len(all) > 0 {
				i := random.IntN(len(all))
				r := all[i]
				end(t, instances[r.by], r.charge, r.got)
				if r.ends > clock.Load() {
					end(t, store, r.charge, limits.Decision{})
				}
				all = append(all[:i], all[i+1:]...)
			}
		case 3: // time passes, and units of processes that have crashed end
			clock.Add(random.Int64N(int64(8 * time.Second / time.Microsecond)))
			for _, r := range all {
				if r.ends > 0 && r.ends <= clock.Load() {
					r.ends = 0
					end(t, store, r.charge, limits.Decision{})
				}
			}
		case 4: // renewal: puts back what had ended, too
			by := random.IntN(len(instances) - 1) // the last one is dead
			redisbackend.RenewAll(instances[by].Bare)
			for _, r := range all {
				if r.by == by {
					if r.ends <= clock.Load() {
						holdIn(t, store, r.charge)
					}
					r.ends = clock.Load() + hold.Microseconds()
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// holdIn has a Memory hold what c charges, whether it fits or not.
func holdIn(t *testing.T, m *memory.Memory, c backends.Charge) {
	t.Helper()
	e := backends.Ending{Scope: c.Scope, Key: c.Key, Limit: c.Limit, Final: c.Cost}
	ok(t, m.Settle(t.Context(), []backends.Ending{e}, make([]limits.Settlement, 1)))
}

func compareHolds(t *testing.T, what string, charges []backends.Charge, got, want []limits.Decision) {
	t.Helper()
	for i := range got {
		if got[i].Source == limits.SourceNotAsked {
			continue
		}
		g, w := got[i], want[i]
		g.Ticket, w.Ticket, g.Transient = 0, 0, false
		if g != w {
			t.Errorf("%s: %+v:\n got %+v\nwant %+v", what, charges[i], g, w)
		}
	}
}

// Many callers at once, in batches, never hold more than the limit, and all that they
// take has an id of its own.
func TestManyCallersNeverHoldMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("uploads", "ann", limits.Concurrent(7), 1)
	rate := charge("rate", "ann", limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000), 1)
	var now, most, allowed atomic.Int64
	var wg sync.WaitGroup
	for g := range 48 {
		wg.Go(func() {
			for i := range 60 {
				charges := []backends.Charge{c}
				if (i+g)%2 == 0 {
					charges = append(charges, rate)
				}
				out := make([]limits.Decision, len(charges))
				if err := b.Take(context.Background(), charges, out); err != nil {
					t.Error(err)
					return
				}
				if !out[0].Allowed {
					continue
				}
				allowed.Add(1)
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				now.Add(-1)
				end(t, b, c, out[0])
			}
		})
	}
	wg.Wait()
	if most.Load() > 7 || allowed.Load() < 100 {
		t.Errorf("%d were allowed, %d at once of 7", allowed.Load(), most.Load())
	}
	if n := held(t, b, c); n != 0 {
		t.Errorf("%d are held at the end", n)
	}
}
