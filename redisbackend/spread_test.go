package redisbackend_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
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

func TestOnACluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, node := range c.nodes() { // the machine may be slow, and no node dies here
		ok(t, node.ConfigSet(t.Context(), "cluster-node-timeout", "60000").Err())
	}
	client := c.client(t)
	t.Run("it keeps the contract", func(t *testing.T) { keepsTheContractSpread(t, client) })
	t.Run("groups are decided as by the definitions", func(t *testing.T) { decidesGroupsExactly(t, client) })
	t.Run("load never takes a unit too much", func(t *testing.T) { staysExactUnderLoad(t, client) })
	t.Run("denied groups hold nothing", func(t *testing.T) { holdsNothingForDeniedGroups(t, client) })
	t.Run("holds are those of a list", func(t *testing.T) { holdsAreThoseOfAList(t, client, sized(40)) })
	t.Run("transient denials are not remembered", func(t *testing.T) { forgetsTransientDenials(t, client) })

	t.Run("what the documents say to allow suffices", func(t *testing.T) { worksUnderAnACL(t, c) })

	t.Run("a give-back whose reply is lost is not repeated", func(t *testing.T) {
		var lose atomic.Bool
		givesBackOnce(t, c.clientBy(t, loser(&lose)), &lose)
	})

	// What a client does not tell, the server does: CROSSSLOT.
	t.Run("a pipeliner that hides a cluster is found out", func(t *testing.T) {
		clients := pipeliners(t, client)
		if len(clients) == 0 {
			t.Skip("this go-redis has no auto-pipeliner: .ci/full newest tests with one that has")
		}
		for name, client := range clients {
			t.Run(name, func(t *testing.T) {
				pipeliner := client.(redis.UniversalClient)
				if name == "deferred" { // the other differs by less
					keepsTheContractSpread(t, pipeliner)
				}
				decidesGroupsExactly(t, pipeliner)
				staysExactUnderLoad(t, pipeliner)
				holdsNothingForDeniedGroups(t, pipeliner)
				holdsAreThoseOfAList(t, pipeliner, 10)
				forgetsTransientDenials(t, pipeliner)
			})
		}
	})
}

func TestOnARing(t *testing.T) {
	testrun.FullOnly(t, "the same again on a Ring")
	t.Parallel()
	ring := startRing(t)
	t.Run("it keeps the contract", func(t *testing.T) { keepsTheContractSpread(t, ring) })
	t.Run("groups are decided as by the definitions", func(t *testing.T) { decidesGroupsExactly(t, ring) })
	t.Run("load never takes a unit too much", func(t *testing.T) { staysExactUnderLoad(t, ring) })
	t.Run("denied groups hold nothing", func(t *testing.T) { holdsNothingForDeniedGroups(t, ring) })
	t.Run("holds are those of a list", func(t *testing.T) { holdsAreThoseOfAList(t, ring, sized(40)) })
	t.Run("what is given back stays the latest taking", func(t *testing.T) { whatIsGivenBackStaysTheLatest(t, ring) })
}

// keepsTheContractSpread runs the suite on keys that are spread over servers,
// call by call, since a give-back may deny another call too early until it is
// done; and on keys with a hash tag, where nothing is spread, with callers at once.
func keepsTheContractSpread(t *testing.T, client redis.Scripter) {
	testrun.FullOnly(t, "the suite again, on a Cluster")
	open := func(tag string, now func() time.Time) *redisbackend.Bare {
		options := redisbackend.BareOptions{Prefix: uniquePrefix(), HashTag: tag}
		return redisbackend.HoldForEver(redisbackend.WithClock(redisbackend.MustNewBare(client, options), now))
	}
	t.Run("spread", func(t *testing.T) {
		limitstest.Run(t, limitstest.Harness{
			Open: func(t testing.TB, now func() time.Time) backends.Backend {
				if strings.Contains(t.Name(), "a_group_is_decided_at_one_instant") {
					t.Skip("what was not asked behind a denial is asked later")
				}
				for _, name := range []string{
					"everything_at_once", "groups_are_decided_as_by", "groups_are_as_if_made", "what_they_did_while_limits_change",
				} {
					if strings.Contains(t.Name(), name) {
						t.Skip("a taking that is given back has held the clock, brought a changed limit " +
							"into force and stays the latest: docs/redis.md")
					}
				}
				for _, name := range []string{"prolongs_none", "random_values"} {
					if strings.Contains(t.Name(), name) {
						t.Skip("a known value stays as of a taking that is given back: DESIGN 11")
					}
				}
				return &inTurn{Bare: open("", now)}
			},
			Decisions: sized(1600),
		})
	})
	t.Run("with a hash tag", func(t *testing.T) {
		limitstest.Run(t, limitstest.Harness{
			Open:      func(_ testing.TB, now func() time.Time) backends.Backend { return open("tag", now) },
			Decisions: sized(1200),
		})
	})
}

// inTurn is a backend that makes one call at a time, waits for its give-backs and
// releases, and asks what was not asked behind a denial.
type inTurn struct {
	mu sync.Mutex
	*redisbackend.Bare
}

func (b *inTurn) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.Bare.Take(ctx, charges, out)
	redisbackend.WaitForGiveBacks(b.Bare)
	redisbackend.WaitForReleases(b.Bare)
	for i := range out { // the suite asks for all waits
		if err == nil && out[i].Source == limits.SourceNotAsked {
			if err = b.Peek(ctx, charges[i:i+1], out[i:i+1]); err == nil {
				out[i].Delay, out[i].Transient = 0, false
			}
		}
	}
	return err
}

func (b *inTurn) Reset(ctx context.Context, scope, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Bare.Reset(ctx, scope, key)
}

// whatIsGivenBackStaysTheLatest ends takings of keys of which a later taking was given
// back. Where the group was in one place it has never taken: then everything comes back.
func whatIsGivenBackStaysTheLatest(t *testing.T, client redis.Scripter) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := &inTurn{Bare: bareAt(client, func() time.Time { return now })}
	full := charge("full", "k", limits.FixedWindow(limits.PerDay(1)), 1)
	take(t, b, full)
	for _, test := range []struct {
		limit  limits.Limit
		left   int64 // of 10, when the group was spread
		spread int64 // units returned then
	}{
		{limits.LeakyQueue(limits.PerSecond(5), 10), 9, 0},
		{limits.TokenBucket(limits.PerSecond(5), 10), 10, 1}, // 1 µs has drained; with the rest no unit is in use
	} {
		seen := make(map[int64]bool)
		for i := range 32 {
			c := charge(test.limit.Algorithm().String(), fmt.Sprint(i), test.limit, 1)
			c.Lasts = time.Minute
			e := backends.Ending{
				Scope: c.Scope, Key: c.Key, Limit: c.Limit, Taken: 1, Lasts: c.Lasts, Ticket: take(t, b, c)[0].Ticket,
			}
			now = now.Add(time.Microsecond)
			take(t, b, c, full)
			returned := settle(t, b, e)[0].Returned
			c.Cost = 0
			left := take(t, b, c)[0].Remaining
			if want := 10 - (1-returned)*(10-test.left); left != want {
				t.Errorf("%v: %d returned and %d remain, want %d", test.limit, returned, left, want)
			}
			seen[returned] = true
		}
		if want := map[int64]bool{1: true, test.spread: true}; !maps.Equal(seen, want) {
			t.Errorf("%v: returned, of 1, are %v, want %v, by where the key is", test.limit, seen, want)
		}
	}
}

// decidesGroupsExactly plays random groups one after another while the clock goes
// on. Every field of every decision is that of a model.
func decidesGroupsExactly(t *testing.T, client redis.Scripter) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	b := &inTurn{Bare: bareAt(client, clock)}
	model := limitstest.NewExact(clock)
	choices := []limits.Limit{
		limits.TokenBucket(limits.Per(1, 2*time.Millisecond), 5), limits.TokenBucket(limits.PerSecond(700), 9),
		limits.LeakyBucket(limits.Per(3, 20*time.Millisecond), 4), limits.LeakyQueue(limits.PerSecond(300), 6),
		limits.FixedWindow(limits.Per(5, 10*time.Millisecond)), limits.SlidingWindow(limits.Per(4, 25*time.Millisecond)),
		limits.SlidingLog(limits.Per(6, 30*time.Millisecond)), limits.AnchoredWindow(limits.Per(5, 10*time.Millisecond)),
	}
	random := testrun.Random(t)
	denied := 0
	for i := range 800 {
		var charges []backends.Charge
		for _, j := range random.Perm(len(choices))[:1+random.IntN(4)] {
			c := charge(fmt.Sprint("scope ", j), fmt.Sprint(random.IntN(2)), choices[j], random.Int64N(4))
			c.Shadow = random.IntN(6) == 0
			charges = append(charges, c)
			if random.IntN(6) == 0 {
				c.Shadow = !c.Shadow
				charges = append(charges, c)
			}
		}
		got, want := take(t, b, charges...), take(t, model, charges...)
		for j := range got {
			if got[j].Transient && got[j].Allowed {
				t.Fatalf("call %d: allowed, and transient", i)
			}
			got[j].Transient = false // a model gives nothing back
		}
		skipNotAsked(t, charges, got, want)
		if diff := cmp.Diff(withTickets(charges, want), withTickets(charges, got)); diff != "" {
			t.Fatalf("call %d, %v:\nmodel (-), Redis (+):\n%s", i, charges, diff)
		}
		for j, d := range want {
			if !d.Allowed && !charges[j].Shadow {
				denied++
				break
			}
		}
		now = now.Add(time.Duration(random.Int64N(1500)) * time.Microsecond)
	}
	if denied < 80 {
		t.Errorf("only %d of 800 groups were denied: the test shows little", denied)
	}
}

// skipNotAsked makes the decisions of charges that were not asked for equal, and fails unless another
// charge denies.
func skipNotAsked(t *testing.T, charges []backends.Charge, got, want []limits.Decision) {
	t.Helper()
	isDenied, skips := false, false
	for i, d := range got {
		isDenied = isDenied || !d.Allowed && !charges[i].Shadow
		if d.Source == limits.SourceNotAsked {
			want[i], skips = d, true
		}
	}
	if skips && !isDenied {
		t.Errorf("%v: allowed, and not all were asked for: %+v", charges, got)
	}
}

// staysExactUnderLoad has many callers at once take groups of keys that are
// kept in several places, some of which never fit.
func staysExactUnderLoad(t *testing.T, client redis.Scripter) {
	const keys, callers, most = 18, 64, 70
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := bareAt(client, func() time.Time { return now })
	rate := limits.PerHour(most)
	choices := []limits.Limit{
		limits.TokenBucket(rate, most), limits.LeakyBucket(rate, most), limits.LeakyQueue(rate, most),
		limits.FixedWindow(rate),
		limits.SlidingWindow(rate), limits.SlidingLog(rate),
		limits.TokenBucket(limits.Per(7, time.Hour+time.Second), most), limits.AnchoredWindow(rate),
		limits.Ban(rate, time.Hour),
	}
	of := func(k int, cost int64) backends.Charge {
		return charge("s", fmt.Sprint("key ", k), choices[k%len(choices)], cost)
	}
	full := charge("full", "k", limits.FixedWindow(limits.PerDay(1)), 1)
	take(t, b, full)

	seed := testrun.Seed(t)
	// crowd has all callers take groups and returns what was admitted of each key.
	crowd := func(calls int, more ...backends.Charge) (admitted [keys]int64, groups int64) {
		var taken [keys]atomic.Int64
		var allowed atomic.Int64
		var all sync.WaitGroup
		for i := range callers {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				for range calls {
					var charges []backends.Charge
					ks := random.Perm(keys)[:1+random.IntN(4)]
					for _, k := range ks {
						charges = append(charges, of(k, 1+random.Int64N(3)))
					}
					if random.IntN(4) == 0 {
						charges = append(charges, full)
					}
					charges = append(charges, more...)
					out := make([]limits.Decision, len(charges))
					if err := b.Take(t.Context(), charges, out); err != nil {
						t.Error(err)
						return
					}
					if slices.ContainsFunc(out, func(d limits.Decision) bool { return !d.Allowed }) {
						continue
					}
					allowed.Add(1)
					for j, k := range ks {
						taken[k].Add(charges[j].Cost)
					}
				}
			})
		}
		all.Wait()
		redisbackend.WaitForGiveBacks(b)
		for k := range keys {
			admitted[k] = taken[k].Load()
		}
		return admitted, allowed.Load()
	}
	// balances fails unless what is left of every key is what was not admitted. Of
	// a queue it may be less: behind those who queued nothing is given back. A ban admits
	// all of the request that reaches its number.
	balances := func(admitted [keys]int64) {
		t.Helper()
		for k := range keys {
			left := take(t, b, of(k, 0))[0].Remaining
			algorithm := of(k, 0).Limit.Algorithm()
			rest := most - admitted[k]
			if algorithm == limits.AlgorithmBan && rest >= -2 {
				rest = max(0, rest)
			}
			if rest < 0 || left > rest || left < rest && algorithm != limits.AlgorithmLeakyQueue {
				t.Errorf("%v: of %d units %d were admitted and %d are left", of(k, 0).Limit, most, admitted[k], left)
			}
		}
	}

	admitted, groups := crowd(10, full)
	if groups != 0 {
		t.Errorf("%d groups with a charge that never fits were admitted", groups)
	}
	balances(admitted) // everything is there again
	admitted, groups = crowd(20)
	if groups == 0 || groups == callers*20 {
		t.Errorf("%d of %d groups were admitted: the test shows little", groups, callers*20)
	}
	balances(admitted)
}

// twoShards is a Ring of two servers.
type twoShards struct {
	ring    *redis.Ring
	backend *redisbackend.Bare
	servers map[string]*redisServer
}

func startTwoShards(t *testing.T) *twoShards {
	s := &twoShards{servers: map[string]*redisServer{"one": startRedis(t), "other": startRedis(t)}}
	s.ring = redis.NewRing(&redis.RingOptions{
		Addrs:                 map[string]string{"one": s.servers["one"].addr, "other": s.servers["other"].addr},
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		HeartbeatFn: func(context.Context, *redis.Client) bool { return true },
	})
	t.Cleanup(func() { s.ring.Close() })
	s.backend = redisbackend.MustNewBare(s.ring, redisbackend.BareOptions{Logger: slog.New(slog.DiscardHandler)})
	return s
}

// at returns a charge of ten units that one of the servers keeps.
func (s *twoShards) at(t *testing.T, server, scope string, cost int64) backends.Charge {
	return s.atUnder(t, ten, server, scope, cost)
}

// atUnder is at for a limit.
func (s *twoShards) atUnder(
	t *testing.T, limit limits.Limit, server, scope string, cost int64,
) backends.Charge {
	for i := 0; ; i++ {
		c := charge(scope, fmt.Sprint(i), limit, cost)
		name := redisbackend.NameUnder(s.backend, limit, scope, c.Key)
		shard, err := s.ring.GetShardClientForKey(name)
		ok(t, err)
		if shard.Options().Addr == s.servers[server].addr {
			return c
		}
	}
}

func TestNothingIsTakenBehindADenial(t *testing.T) {
	t.Parallel()
	s := startTwoShards(t)
	first, second := s.at(t, "one", "first", 10), s.at(t, "other", "second", 4)
	take(t, s.backend, first)
	for range 5 {
		d := take(t, s.backend, first, second)
		if d[0].Allowed || d[1].Source != limits.SourceNotAsked {
			t.Errorf("got %+v, want the first denied, and the second not asked", d)
		}
	}
	stats := newClient(t, s.servers["other"].addr).Info(t.Context(), "commandstats").Val()
	if strings.Contains(stats, "cmdstat_set:") {
		t.Errorf("the second server has written a state:\n%s", stats)
	}
}

func TestADenialStandsThoughALaterServerIsDown(t *testing.T) {
	t.Parallel()
	s := startTwoShards(t)
	first, second := s.at(t, "one", "first", 10), s.at(t, "other", "second", 1)
	take(t, s.backend, first)
	s.servers["other"].kill()
	if d := take(t, s.backend, first, second); d[0].Allowed || d[1].Source != limits.SourceNotAsked {
		t.Errorf("got %+v, want a denial, and nothing of the second", d)
	}
}

func TestWhatAFailedRequestHasTakenIsReturned(t *testing.T) {
	t.Parallel()
	s := startTwoShards(t)
	first, second := s.at(t, "one", "first", 6), s.at(t, "other", "second", 1)
	held := first
	held.Limit, held.Cost = limits.Concurrent(10), 2
	for i := 0; ; i++ {
		held.Key = fmt.Sprint(i)
		shard, err := s.ring.GetShardClientForKey(redisbackend.HeldName(s.backend, held.Scope, held.Key))
		if ok(t, err); shard.Options().Addr == s.servers["one"].addr {
			break
		}
	}
	s.servers["other"].kill()
	if err := s.backend.Take(t.Context(), []backends.Charge{first, held, second}, make([]limits.Decision, 3)); err == nil {
		t.Fatal("a server is down, and there is no error")
	}
	redisbackend.WaitForGiveBacks(s.backend)
	redisbackend.WaitForReleases(s.backend)
	first.Cost, held.Cost = 0, 0
	if d := take(t, s.backend, first, held); d[0].Remaining != 10 || d[1].Remaining != 10 {
		t.Errorf("%d and %d remain, want 10 of each", d[0].Remaining, d[1].Remaining)
	}
}
