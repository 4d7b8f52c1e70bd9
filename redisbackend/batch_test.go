package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/redisbackend"
)

// The conformance suite through a client that has one call under way at a time, so
// that whatever comes at once is decided by one call of the script.
func TestWithOneCallAtATimeItKeepsTheContract(t *testing.T) {
	testrun.FullOnly(t, "the same again, call by call")
	t.Parallel()
	server := startRedis(t)
	limitstest.Run(t, limitstest.Harness{
		Open: func(t testing.TB, now func() time.Time) backends.Backend {
			client := redis.NewClient(&redis.Options{
				Addr: server.addr, PoolSize: 1, ContextTimeoutEnabled: true, ReadTimeout: time.Minute,
			})
			t.Cleanup(func() { client.Close() })
			return redisbackend.HoldForEver(bareAt(client, now))
		},
		Decisions: sized(2000),
	})
}

// asking is what one of several requests of a call asks.
type asking struct {
	charges []backends.Charge
	peeks   bool
}

// Requests that one call decides are decided as if each came alone, one after the
// other, at one instant: limits that change, logs, shadows, peeks, costs that never
// fit and clocks that step back among them.
func TestACallDecidesManyRequestsAsEachAlone(t *testing.T) {
	t.Parallel()
	t.Run("whatever they are", func(t *testing.T) { callDecidesAsEachAlone(t, false) })
	t.Run("ordinary ones", func(t *testing.T) { callDecidesAsEachAlone(t, true) })
}

func callDecidesAsEachAlone(t *testing.T, common bool) {
	client, g := startGate(t)
	alone := newClient(t, client.Options().Addr)
	random := testrun.Random(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	many := bareAt(client, clock)
	one := bareAt(alone, clock)
	choices := []limits.Limit{
		limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 7), limits.TokenBucket(limits.PerSecond(700), 9),
		limits.LeakyBucket(limits.Per(3, 20*time.Millisecond), 4), limits.LeakyQueue(limits.PerSecond(300), 12),
		limits.FixedWindow(limits.Per(15, 10*time.Millisecond)), limits.SlidingWindow(limits.Per(14, 25*time.Millisecond)),
		limits.SlidingLog(limits.Per(16, 30*time.Millisecond)), limits.SlidingLog(limits.Per(9, 30*time.Millisecond)),
		limits.TokenBucket(limits.PerHour(50), 200), limits.SlidingWindow(limits.PerHour(300)),
	}
	if common {
		choices = []limits.Limit{
			limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 7), limits.LeakyQueue(limits.PerSecond(250), 12),
			limits.FixedWindow(limits.Per(15, 10*time.Millisecond)), limits.SlidingWindow(limits.Per(14, 25*time.Millisecond)),
			limits.TokenBucket(limits.PerSecond(700), 9), limits.LeakyQueue(limits.PerSecond(300), 12),
			limits.AnchoredWindow(limits.Per(15, 10*time.Millisecond)),
			limits.Ban(limits.Per(15, 20*time.Millisecond), 30*time.Millisecond),
		}
		random.Shuffle(len(choices), func(i, j int) { choices[i], choices[j] = choices[j], choices[i] })
	}
	next := func() asking {
		var a asking
		for _, j := range random.Perm(4)[:1+random.IntN(3)] {
			limit := choices[j] // most often by the limit of the scope
			if random.IntN(4) == 0 && !common {
				limit = choices[random.IntN(len(choices))]
			}
			c := charge(fmt.Sprint("scope ", j), fmt.Sprint(random.IntN(2)), limit, random.Int64N(4))
			if random.IntN(20) == 0 {
				c.Cost = 1000
			}
			if common {
				c.Cost = max(1, c.Cost)
				a.charges = append(a.charges, c)
				continue
			}
			c.Shadow = random.IntN(6) == 0
			a.charges = append(a.charges, c)
			if random.IntN(8) == 0 {
				c.Shadow = !c.Shadow
				a.charges = append(a.charges, c)
			}
		}
		a.peeks = random.IntN(5) == 0 && !common
		return a
	}
	denied, calls := 0, 0
	enough := testrun.Sized(15, 60)
	for round := 0; round < enough || denied < enough && round < 100*enough; round++ {
		if !common {
			random.Shuffle(len(choices), func(i, j int) { choices[i], choices[j] = choices[j], choices[i] })
		}
		var all []asking // of one call
		weight := 0
		add := func(a asking) {
			_, more := redisbackend.Form(one, a.charges, a.peeks)
			if weight+more <= redisbackend.MostAtOnce {
				all, weight = append(all, a), weight+more
			}
		}
		for range 2 + random.IntN(12) {
			a := next()
			add(a)
			for random.IntN(4) == 0 {
				add(a)
			}
		}
		g.scripts.Store(0)
		got, errs, wait := queueAll(t, t.Context(), many, g, all)
		ok(t, alone.ConfigResetStat(t.Context()).Err())
		g.open()
		wait()
		keys := 0
		for _, a := range all {
			keys += len(a.charges)
		}
		if n, _ := statsOf(t, alone, "getrange"); common && n > keys+2 { // two of the one that is held up
			t.Errorf("round %d: %d keys of %d requests were read %d times", round, keys, len(all), n-2)
		}
		if n := g.scripts.Load(); n > 2 && round > 0 {
			t.Fatalf("round %d: %d requests took %d scripts, want one for all that waited", round, len(all), n-1)
		}
		calls++
		for _, i := range inOrder(one, all) {
			a := all[i]
			want := make([]limits.Decision, len(a.charges))
			decide := one.Take
			if a.peeks {
				decide = one.Peek
			}
			ok(t, errs[i])
			ok(t, decide(t.Context(), a.charges, want))
			if diff := cmp.Diff(want, got[i]); diff != "" {
				t.Fatalf("round %d, request %d, peeks %v, %v:\nalone (-), with others (+):\n%s", round, i, a.peeks, a.charges, diff)
			}
			if slices.ContainsFunc(want, func(d limits.Decision) bool { return !d.Allowed }) {
				denied++
			}
		}
		now = now.Add(time.Duration(random.Int64N(20_000)) * time.Microsecond)
		switch step := random.IntN(8); {
		case common:
		case step == 0:
			now = now.Add(-15 * time.Millisecond) // is held
		case step == 1:
			now = now.Add(-time.Minute) // is not
		}
	}
	if denied < enough {
		t.Errorf("only %d denials: the test shows little", denied)
	}
}

// inOrder returns the order in which a call decides requests that wait: those of one form together.
func inOrder(b *redisbackend.Bare, all []asking) []int {
	first := make(map[string]int)
	alike, order := make([]int, len(all)), make([]int, len(all))
	for i, a := range all {
		form, _ := redisbackend.Form(b, a.charges, a.peeks)
		if _, ok := first[form]; !ok {
			first[form] = i
		}
		order[i], alike[i] = i, first[form]
	}
	slices.SortStableFunc(order, func(i, j int) int { return alike[i] - alike[j] })
	return order
}

// queueAll is queue for takings and peeks.
func queueAll(
	t *testing.T, ctx context.Context, b *redisbackend.Bare, g *gate, all []asking,
) (decisions [][]limits.Decision, errs []error, wait func()) {
	t.Helper()
	_, _, held := queue(t, ctx, b, g, nil)
	decisions, errs = make([][]limits.Decision, len(all)), make([]error, len(all))
	var callers sync.WaitGroup
	for i, a := range all {
		decisions[i] = make([]limits.Decision, len(a.charges))
		decide := b.Take
		if a.peeks {
			decide = b.Peek
		}
		callers.Go(func() { errs[i] = decide(ctx, a.charges, decisions[i]) })
		until(t, "it waits", func() bool { return redisbackend.Waiting(b) > i })
	}
	return decisions, errs, func() { held(); callers.Wait() }
}

// A state that cannot be read fails the requests that charge its key, and no others
// of the same call. What they charge besides is not taken.
func TestAStateThatCannotBeReadFailsOnlyThoseThatChargeIt(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	limit := limits.LeakyBucket(limits.PerDay(1), 10)
	for what, spoil := range map[string]func(name string) error{
		"of another version": func(name string) error { return admin.Set(t.Context(), name, "2t 1 1 1 1 1 1", 0).Err() },
		"of another type":    func(name string) error { return admin.LPush(t.Context(), name, "x").Err() },
	} {
		b := newBare(client)
		ok(t, spoil(redisbackend.Name(b, "s", "spoilt")))
		spoilt, sound := charge("s", "spoilt", limit, 1), charge("s", "sound", limit, 1)
		twice := sound
		twice.Cost = 2
		groups := [][]backends.Charge{{sound}, {spoilt}, {sound, spoilt}, {twice}, {spoilt}, {charge("s", "other", limit, 1)}}
		decisions, errs, wait := queue(t, t.Context(), b, g, groups)
		g.open()
		wait()
		for i, remaining := range map[int]int64{0: 9, 3: 7, 5: 9} {
			if errs[i] != nil || !decisions[i][0].Allowed || decisions[i][0].Remaining != remaining {
				t.Errorf("%s: request %d: %+v, %v, want %d left", what, i, decisions[i], errs[i], remaining)
			}
		}
		for _, i := range []int{1, 2, 4} {
			if errs[i] == nil || strings.Contains(errs[i].Error(), "spoilt") {
				t.Errorf("%s: request %d: got %v, want an error without the key", what, i, errs[i])
			}
			if spares := sparer(nil); !errors.As(errs[i], &spares) || !spares.SparesBackend() {
				t.Errorf("%s: request %d: %v speaks against the whole backend", what, i, errs[i])
			}
		}
	}
}

// A server that refuses to write refuses the first write of a call, and with it all:
// nobody is told of units that nobody took, and nothing is taken.
func TestAServerThatRefusesToWriteGrantsNothing(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	limit, log := limits.LeakyBucket(limits.PerDay(1), 10), limits.SlidingLog(limits.PerDay(10))
	var groups [][]backends.Charge
	for i := range 20 {
		groups = append(groups, []backends.Charge{
			charge("s", fmt.Sprint(i%7), limit, int64(1+i%3)), charge("log", fmt.Sprint(i%3), log, 1),
		})
	}
	take(t, b, groups[0]...) // a log that exists is written in three steps
	for what, refuse := range map[string][2][]string{
		"out of memory": {{"maxmemory", "1"}, {"maxmemory", "0"}},
		"few replicas":  {{"min-replicas-to-write", "3"}, {"min-replicas-to-write", "0"}},
	} {
		ok(t, admin.ConfigSet(t.Context(), refuse[0][0], refuse[0][1]).Err())
		_, errs, wait := queue(t, t.Context(), b, g, groups)
		g.open()
		wait()
		for i, err := range errs {
			if err == nil {
				t.Errorf("%s: request %d: no error", what, i)
			}
		}
		ok(t, admin.ConfigSet(t.Context(), refuse[1][0], refuse[1][1]).Err())
		for i, group := range groups {
			for j := range group {
				group[j].Cost = 0
			}
			want := int64(10)
			if i%7 == 0 {
				want = 9
			}
			if d := take(t, b, group...); d[0].Remaining != want {
				t.Errorf("%s: request %d took: %+v", what, i, d[0])
			}
			group[0].Cost, group[1].Cost = int64(1+i%3), 1
		}
	}
}

// A client that does not say that it is of a Cluster is found out by the first call
// for keys of several slots, which decides nothing: its requests are sent apart.
func TestACallForSeveralSlotsIsSentApart(t *testing.T) {
	t.Parallel()
	server := startSoleNode(t)
	client := redis.NewClient(&redis.Options{Addr: server.addr, PoolSize: 1, ContextTimeoutEnabled: true})
	defer client.Close()
	g := new(gate)
	client.AddHook(g)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	limit := limits.LeakyBucket(limits.PerDay(1), 10)
	for round := range 2 {
		var groups [][]backends.Charge
		for i := range 40 {
			groups = append(groups, []backends.Charge{charge("s", fmt.Sprint(i%8), limit, int64(1+i/8%2))})
		}
		decisions, errs, wait := queue(t, t.Context(), b, g, groups)
		g.open()
		wait()
		allowed := make(map[string]int64)
		for i, group := range groups {
			ok(t, errs[i])
			if decisions[i][0].Allowed {
				allowed[group[0].Key] += group[0].Cost
			}
		}
		for key, units := range allowed {
			if want := int64(7 + 3*round); units+7*int64(round) != want {
				t.Errorf("round %d, key %s: %d units admitted, want %d", round, key, units, want-7*int64(round))
			}
		}
	}
}

// A call that gets no answer, such as on a connection that broke unseen, holds up
// nobody else for long, though few calls are enough for a server that is near.
func TestNobodyWaitsBehindACallThatIsStuck(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr, PoolSize: 4, ContextTimeoutEnabled: true})
	defer client.Close()
	g := new(gate)
	client.AddHook(g)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	redisbackend.WaitForEver(b)
	limit := limits.LeakyBucket(limits.PerDay(1), 100)
	for range 20 {
		take(t, b, charge("s", "k", limit, 1)) // the server is near
	}
	stuck, release := make(chan struct{}), make(chan struct{})
	var second atomic.Bool
	g.mu.Lock()
	g.before = func() {
		if second.CompareAndSwap(false, true) {
			close(stuck)
			<-release
		}
	}
	g.mu.Unlock()
	var callers sync.WaitGroup
	callers.Go(func() { take(t, b, charge("s", "stuck", limit, 1)) })
	<-stuck
	for range 5 {
		take(t, b, charge("s", "k", limit, 1))
	}
	close(release)
	callers.Wait()
}

// Units of a concurrency limit that one call takes have ids of their own, so that each is released by
// its own request.
func TestACallTakesUnitsOfConcurrencyLimits(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	b := newBare(client)
	slot := charge("slots", "k", limits.Concurrent(4), 1)
	group := []backends.Charge{slot, charge("rate", "k", limits.TokenBucket(limits.PerHour(7), 9), 1)}
	decisions, errs, wait := queue(t, t.Context(), b, g, [][]backends.Charge{group, {slot}, group, group})
	ok(t, admin.ConfigResetStat(t.Context()).Err())
	g.open()
	wait()
	var endings []backends.Ending
	left := []int64{}
	for i := range decisions {
		ok(t, errs[i])
		endings = append(endings, ending(slot, decisions[i][0]))
		left = append(left, decisions[i][0].Remaining)
	}
	slices.Sort(left)
	if name := redisbackend.HeldName(b, slot.Scope, slot.Key); !slices.Equal(left, []int64{0, 1, 2, 3}) ||
		admin.ZCard(t.Context(), name).Val() != 4 {
		t.Fatalf("left %v, %d units in the set", left, admin.ZCard(t.Context(), name).Val())
	}
	for i := range endings {
		ok(t, b.Settle(t.Context(), endings[i:i+1], make([]limits.Settlement, 1)))
		redisbackend.WaitForReleases(b)
		if n := admin.ZCard(t.Context(), redisbackend.HeldName(b, slot.Scope, slot.Key)).Val(); n != int64(3-i) {
			t.Fatalf("%d units in the set after %d releases", n, i+1)
		}
	}
}
