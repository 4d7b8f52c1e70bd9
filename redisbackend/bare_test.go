package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/redisbackend"
)

func charge(scope, key string, limit limits.Limit, cost int64) backends.Charge {
	return backends.Charge{Scope: scope, Key: key, Limit: limit, Cost: cost}
}

func take(t testing.TB, b backends.Backend, charges ...backends.Charge) []limits.Decision {
	t.Helper()
	out := make([]limits.Decision, len(charges))
	if err := b.Take(context.Background(), charges, out); err != nil {
		t.Fatal(err)
	}
	return out
}

var everyAlgorithm = []limits.Limit{
	limits.TokenBucket(limits.PerMinute(100), 10),
	limits.TokenBucket(limits.PerSecond(7), 10),
	limits.LeakyBucket(limits.PerMinute(100), 10),
	limits.LeakyQueue(limits.PerMinute(100), 10),
	limits.FixedWindow(limits.PerMinute(10)),
	limits.SlidingWindow(limits.PerMinute(10)),
	limits.SlidingLog(limits.PerMinute(10)),
	limits.AnchoredWindow(limits.PerMinute(10)),
	limits.Calendar(10, limits.Month),
}

// Every decision is replayed in memory at the instant that Redis decided it.
func TestDecisionsAreThoseOfMemoryAtTheInstantsOfTheServer(t *testing.T) {
	t.Parallel()
	decisions := int64(sized(100_000))
	const goroutines = 16
	seed := testrun.Seed(t)
	server := startRedis(t)
	client := newClient(t, server.addr)
	var denied atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			var now atomic.Int64
			clock := func() time.Time { return time.UnixMicro(now.Load()) }
			store := memory.MustNew(memory.Options{MaxKeys: 1 << 10, Clock: clock})
			shared := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: fmt.Sprint("replay", g)})
			random := rand.New(rand.NewPCG(seed, uint64(g)))
			for done := int64(0); done < decisions/goroutines && !t.Failed(); {
				charges := randomCharges(random)
				got, want := make([]limits.Decision, len(charges)), make([]limits.Decision, len(charges))
				if err := shared.Take(t.Context(), charges, got); err != nil {
					t.Error(err)
					return
				}
				now.Store(got[0].At)
				if err := store.Take(t.Context(), charges, want); err != nil {
					t.Error(err)
					return
				}
				for i := range want {
					want[i].Ticket = 0 // these charges have no end
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v:\nmemory (-), Redis (+):\n%s", charges, diff)
				}
				done += int64(len(charges))
				if !got[0].Allowed {
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if denied.Load() < decisions/100 {
		t.Errorf("only %d of %d decisions were denials: the test shows little", denied.Load(), decisions)
	}
}

// randomCharges charges up to three keys by limits that let them live for
// milliseconds to seconds.
func randomCharges(random *rand.Rand) []backends.Charge {
	choices := []limits.Limit{
		limits.TokenBucket(limits.Per(1+random.Int64N(3), 2*time.Millisecond), 5),
		limits.TokenBucket(limits.PerSecond(700), 9),
		limits.LeakyBucket(limits.Per(3, 20*time.Millisecond), 4),
		limits.LeakyQueue(limits.PerSecond(300), 6),
		limits.FixedWindow(limits.Per(5, 10*time.Millisecond)),
		limits.SlidingWindow(limits.Per(4+random.Int64N(2), 25*time.Millisecond)),
		limits.SlidingLog(limits.Per(6, 30*time.Millisecond)),
		limits.AnchoredWindow(limits.Per(5, 10*time.Millisecond)),
		limits.TokenBucket(limits.PerHour(50), 4), // this and the next are soon spent, however slow the machine
		limits.SlidingWindow(limits.PerHour(5)),
	}
	var charges []backends.Charge
	for _, i := range random.Perm(len(choices))[:1+random.IntN(3)] {
		c := charge(fmt.Sprint("scope", i), fmt.Sprint("key", random.IntN(3)), choices[i], random.Int64N(4))
		c.Shadow = random.IntN(8) == 0
		charges = append(charges, c)
	}
	return charges
}

func TestADecisionIsOneCommand(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	var commands counter
	client.AddHook(&commands)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	var charges []backends.Charge
	for i, limit := range everyAlgorithm {
		charges = append(charges, charge(fmt.Sprint("scope", i), "client", limit, 1))
	}
	take(t, b, charges...) // the server learns the script
	commands.n.Store(0)
	take(t, b, charges[0])
	take(t, b, charges...)
	if got := commands.n.Load(); got != 2 {
		t.Errorf("two decisions sent %d commands, want 2", got)
	}
}

// counter is a hook that counts commands.
type counter struct{ n atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAServerThatForgotItsScriptsIsSentThem(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	limit := limits.FixedWindow(limits.PerDay(5))
	for i := range 5 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if d := take(t, b, charge("s", "k", limit, 1))[0]; !d.Allowed || d.Remaining != int64(4-i) {
			t.Errorf("request %d: %+v", i+1, d)
		}
	}
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.Reset(t.Context(), "s", "k"); err != nil {
		t.Error(err)
	}
}

func TestStatesLiveUntilTheyAreFreshAndASecondLonger(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for _, limit := range everyAlgorithm {
		expires(t, client, limit, func() (name string, fresh time.Duration) {
			b := newBare(client)
			name = redisbackend.NameUnder(b, limit, "s", "k")
			take(t, b, charge("s", "k", limit, 3))
			ok(t, client.Persist(t.Context(), name).Err()) // the next taking heals that
			return name, take(t, b, charge("s", "k", limit, 3))[0].ResetAfter
		})
		expires(t, client, limit, func() (name string, fresh time.Duration) {
			b := newBare(client)
			return redisbackend.NameUnder(b, limit, "s", "k"), take(t, b, charge("s", "k", limit, 3))[0].ResetAfter
		})
	}
}

// expires checks that a state lives a second longer than until it is fresh. The state is made
// again if it does not: a server reads the clock for expiry once in a round of commands, and
// may stall after that. What is wrong stays wrong.
func expires(t *testing.T, client *redis.Client, limit limits.Limit, state func() (name string, fresh time.Duration)) {
	t.Helper()
	wrong := ""
	for range 100 {
		before := time.Now()
		name, fresh := state()
		ttl, err := client.PTTL(t.Context(), name).Result()
		ok(t, err)
		elapsed, want := time.Since(before), fresh+time.Second
		if ttl >= want-elapsed-time.Millisecond && ttl <= want+2*time.Millisecond {
			return
		}
		wrong = fmt.Sprintf("%v after it was made a state expires in %v, fresh in %v", elapsed, ttl, fresh)
	}
	t.Errorf("%v: %s", limit, wrong)
}

func TestTheLayoutOfNamesAndStatesIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	now := func() time.Time { return time.UnixMicro(1_767_268_800_500_000) }
	b := redisbackend.WithClock(
		redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: "app", HashTag: "limits"}), now,
	)
	for i, want := range []string{
		"t10/600k 1767268800500000 1800000 0",
		"t10/s/7 1767268800500000 428571 3",
		"l10/600k 1767268800500000 1800000 0",
		"q10/600k 1767268800500000 1800000 0",
		"f10/m 1767268800000000 3 0",
		"s10/m 1767268800000000 3 0",
		fmt.Sprintf("%-79s;%s", "g10/m 0 1 3", "17672688005000000000000000000000"),
	} {
		take(t, b, charge("rule", fmt.Sprint("key", i), everyAlgorithm[i], 3))
		got, err := client.Get(t.Context(), fmt.Sprintf("app:{limits}:rule=key%d", i)).Result()
		if err != nil || got != redisbackend.WithoutZero(want) {
			t.Errorf("%v: got %q, %v, want %q", everyAlgorithm[i], got, err, want)
		}
	}
	day := limits.FixedWindow(limits.PerDay(10))
	take(t, b, charge("rule", "changed", day, 10))
	for _, step := range []struct {
		limit limits.Limit
		cost  int64
		want  string
	}{
		{
			limits.SlidingLog(limits.PerSecond(3)), 1,
			fmt.Sprintf(
				"%-79s;%s", "<1767268800500000 10 1767312000000000 1>g3/s 0 1 3",
				"17672688005000000000000000000000",
			),
		},
		{
			limits.FixedWindow(limits.PerMinute(20)), 0,
			"<1767268800500000 10 1767312000000000 0>f20/m 1767268800000000 10 0",
		},
		{limits.FixedWindow(limits.PerMinute(20)), 5, "f20/m 1767268800000000 15 0"},
	} {
		take(t, b, charge("rule", "changed", step.limit, step.cost))
		if got := client.Get(t.Context(), "app:{limits}:rule=changed").Val(); got != redisbackend.WithoutZero(step.want) {
			t.Errorf("changed to %v, charged %d: got %q, want %q", step.limit, step.cost, got, step.want)
		}
	}
}

func TestAStateOfAnotherVersionIsAnErrorAndIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	name := redisbackend.Name(b, "s", "secret key")
	for _, limit := range everyAlgorithm {
		for _, state := range []string{"1t 10 600000 1 1767268800500000 1800000 0", "nonsense", "t10"} {
			if err := client.Set(t.Context(), name, state, time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
			err := b.Take(t.Context(), []backends.Charge{charge("s", "secret key", limit, 1)}, make([]limits.Decision, 1))
			if err == nil || !strings.Contains(err.Error(), "version") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v on %q: got %v, want an error about the version, without the key", limit, state, err)
			}
			if got := client.Get(t.Context(), name).Val(); got != state {
				t.Errorf("%v: %q became %q", limit, state, got)
			}
		}
	}
}

func TestACorruptStateIsAnErrorAndIsLeftAlone(t *testing.T) {
	t.Parallel()
	const (
		tooMuch       = "9007199254740992" // 2^53
		calendarState = "k10/31d/1271734374823947 "
	)
	server := startRedis(t)
	client := newClient(t, server.addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	for limit, states := range map[limits.Limit][]string{
		limits.TokenBucket(limits.PerMinute(100), 10): {
			"t10/600k 99999999999999999999 5 0",
			"t10/600k 5 99999999999999999999 0",
			"t10/600k " + tooMuch + " 5 0",
			"t99999999999999999999/600k 5 5 0",
			"t10/99999999999999999999 5 5 0",
			"t10/600k/99999999999999999999 5 5 0",
			"t10/0 5 5 0",
			"t10/600k/0 5 5 0",
			"t10/600k/x 5 5 0",
			"t10/600y 5 5 0",
			"t10/600k 5 9007199254740991 0", // more than ten units, and ten owed
			"t10/600k 9000000000000000 12000001 0",
			"t10/600k 9000000000000000 5 1",        // a fraction of 1/1
			"t10/600k 9000000000000000 5 0+",       // no serial
			"t10/600k 9000000000000000 5 0+0",      // neither a serial nor a ring
			"t10/600k 9000000000000000 5 0+131072", // above all serials
			"t10/600k 9000000000000000 5 0+131072 1 2 3 - - - - - - - -",
			"t10/600k 9000000000000000 5 0+1 1 2 3 - - - - - - -",
			"t10/600k 9000000000000000 5 0+1 1 0 3 - - - - - - - -",
			"t10/600k 9000000000000000 5 0+1 1 2 3 - - - - - - - " + tooMuch,
			"t10/600k 9000000000000000 5 0+1 1 2 - - - - - - - - -",
			"t10/600k 9000000000000000 5 0+1 1 2 3 - - - - - - - a",
			"3t 10 600000 1 9000000000000000 5 0",
			"<>t10/600k 9000000000000000 5 0",
			"<5 5 " + tooMuch + " 0>t10/600k 9000000000000000 5 0",
			"<5 " + tooMuch + " 9000000000000000 0>t10/600k 9000000000000000 5 0",
			"<5 5 9000000000000000 3>t10/600k 9000000000000000 5 0",
			"<5 5 9000000000000000 0><5 5 9000000000000000 0>t10/600k 9000000000000000 5 0",
		},
		limits.SlidingWindow(limits.PerMinute(10)): {
			"s10/m 9000000000000000 99999999999999999999 0",
			"s10/m 9000000000000000 0 99999999999999999999",
			"f10/0 60000000 0 5",
			"s10/m 1767268800000001 3 0", // no start of a window
			"s10/m 9000000000000000 21 0",
			"s10/m 9000000000000000 1 2000000001",
		},
		limits.FixedWindow(limits.PerMinute(10)): {
			"f10/m 1767268800000001 3 0", // no start of a window
			"f10/m 9000000000000000 3 1", // nothing in the one before
			"f10/m 9000000000000000 11 0",
			"b10/m/h 1767268800000000 0 3", // of a ban: it has a name of its own
			"d10/m 0123456789abcdef+1767268800000000",
			"f10/m 9000000000000000 11 0+0",
			"f10/m 9000000000000000 11 0+1",
			"f10/m 9000000000000000 11 0+1 0",
			"f10/m 9000000000000000 2000000001 0+1 1",
			"f10/m 9000000000000000 11 0+1 11",
			"f10/m 9000000000000000 11 0",
		},
		limits.AnchoredWindow(limits.PerMinute(10)): {
			"n10/m 99999999999999999999 1 1",
			"n10/m 60000000 99999999999999999999 1",
			"n10/m 60000000 11 1",
			"n10/m 60000000 3 11",
			"n10/m 60000000 2000000001 3+1 1",
			"n10/m 60000000 11 3+1 11",
		},
		limits.Ban(limits.PerMinute(10), time.Hour): {
			"b10/m/h 60000000 3",
			"b10/m/h 60000000 50000000 3", // a ban that ended before it began
			"b10/m/h 60000000 0 4294967296",
			"b10/m/h 1767268800000000 9007199254740991 3", // a ban of 230 years
			"b10/m/h 60000000 0 3+0",
			"b10/m/h 60000000 0 3+1 1",
		},
		limits.Calendar(10, limits.Month): {
			calendarState + "9000000000000000 5 0",
			calendarState + "9000000000000000 11 2678400000000",
			calendarState + "1767225600000000 5 5356800000001", // longer than two months
			calendarState + "1767225600000000 5 9007199254740991",
			calendarState + "1767225600000000 5 99999999999999999999",
			calendarState + "1767225600000000 5 " + strings.Repeat("9", 400),
			calendarState + "9000000000000000 11 2678400000000+1",
			calendarState + "9000000000000000 11 2678400000000+1 1",
			calendarState + "9000000000000000 11 2678400000000+0 1 9007199254740991",
		},
		limits.SlidingLog(limits.PerMinute(10)): {
			"g10/m 0 1 3;",
			"g10/m 0 3;17672688005000000000000000000000",
			"g10/m 0 1 3 000000;17672688005000000000000000000000",
			"g10/m 0 1 3 131072;17672688005000000000000000000000",
			"g10/m 0 1 3;1767268800500000",
			"g10/m 0 1 3;17672688005000000000000000000000176726",
			"g10/m 1 1 3;17672688005000000000000000000000",
			"g10/m 0 2 3;17672688005000000000000000000000",
			"g10/m 0 1 3;" + tooMuch + "0000000000000000",
			"g10/m 0 1 3;not at all digits, but so long...",
			"g10/m 0 1 99999999999999999999;17672688005000000000000000000000",
			"g10/m 0 1 3;17672688005000000000000000000003", // of no units
			"g10/m 0 1 3;17672688005000000000000000000005",
			"g10/m 0 2 9;1767268800500000000000000000000717672688005000010000000000000005",
			"g10/m 0 1 21;17672688005000000000000000000000", // more than ten, and ten owed
			"g10/m 0 2 9:000000010000000000000007;1767268800500000000000000000000017672688005000010000000000000005",
			"g10/m 0 2 9:0000000100000000000000050;1767268800500000000000000000000017672688005000010000000000000005",
		},
	} {
		for _, state := range states {
			state = redisbackend.WithoutZero(state)
			for _, limit := range []limits.Limit{limit, limits.LeakyBucket(limits.PerHour(7), 3)} { // counted on, and converted
				name := redisbackend.NameUnder(b, limit, "s", "k")
				ok(t, client.Set(t.Context(), name, state, time.Hour).Err())
				err := b.Take(t.Context(), []backends.Charge{charge("s", "k", limit, 1)}, make([]limits.Decision, 1))
				if err == nil || !strings.Contains(err.Error(), "WEIR the state of a key") {
					t.Errorf("%v on %q: got %v, want the error that says what to do", limit, state, err)
				}
				if spares := sparer(nil); !errors.As(err, &spares) || !spares.SparesBackend() {
					t.Errorf("%v on %q: %v speaks against the whole backend", limit, state, err)
				}
				if got := client.Get(t.Context(), name).Val(); got != state {
					t.Errorf("%v: %q became %q", limit, state, got)
				}
			}
		}
	}
}

func TestManyTakingsOfALogStayExactAndBounded(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	now := time.UnixMicro(1_767_268_800_000_000)
	clock := func() time.Time { return now }
	b := redisbackend.WithClock(redisbackend.MustNewBare(client, redisbackend.BareOptions{}), clock)
	store := memory.MustNew(memory.Options{Clock: clock})
	limit := limits.SlidingLog(limits.Per(1000, time.Second))
	for i := range 5000 {
		now = now.Add(time.Duration(i%3) * 500 * time.Microsecond)
		c := charge("s", "k", limit, int64(1+i%2))
		c.Lasts = time.Millisecond
		all := []backends.Charge{c}
		if diff := cmp.Diff(withTickets(all, take(t, store, c)), withTickets(all, take(t, b, c))); diff != "" {
			t.Fatalf("taking %d: memory (-), Redis (+):\n%s", i, diff)
		}
	}
	if length := client.StrLen(t.Context(), redisbackend.Name(b, "s", "k")).Val(); length > 2*1000*32+200 {
		t.Errorf("the log takes %d bytes", length)
	}
}

func TestAClosedPortIsAnError(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: freeAddr(t), MaxRetries: -1})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	err := b.Take(
		t.Context(), []backends.Charge{charge("s", "203.0.113.7", everyAlgorithm[0], 1)}, make([]limits.Decision, 1),
	)
	var refused *net.OpError
	if !errors.As(err, &refused) || strings.Contains(err.Error(), "203.0.113.7") {
		t.Errorf("got %v, want the client's error, without the key", err)
	}
	if err := b.Check(t.Context()); !errors.As(err, &refused) {
		t.Errorf("Check: got %v", err)
	}
}

func TestCheckFindsWhatIsWrongWithAServer(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	if err := b.Check(t.Context()); err != nil {
		t.Errorf("a server as it should be: %v", err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); !errors.Is(err, redisbackend.ErrEvicts) {
		t.Errorf("a server that evicts: got %v, want ErrEvicts", err)
	}
	replica := startRedis(t, "--replicaof", "127.0.0.1", "1")
	if err := newBare(newClient(t, replica.addr)).Check(t.Context()); err == nil {
		t.Error("a replica that takes no writes: no error")
	}
}

func TestWhatServersSayOfThemselvesIsJudged(t *testing.T) {
	const good = "maxmemory_policy:noeviction\r\n"
	for _, c := range []struct {
		server, memory string
		ok             bool
	}{
		{"# Server\r\nredis_version:6.2.0\r\n", good, true},
		{"redis_version:7.4.1\r\n", good, true},
		{"redis_version:10.0.0\r\n", good, true},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n", good, true},
		{"redis_version:6.0.16\r\n", good, false},
		{"redis_version:5.0.3\r\n", good, false},
		{"", good, false},
		{"redis_version:7.0.0\r\n", "maxmemory_policy:volatile-ttl\r\n", false},
	} {
		if err := redisbackend.Judge(c.server + c.memory); (err == nil) != c.ok {
			t.Errorf("%q %q: got %v", c.server, c.memory, err)
		}
	}
}

func TestInvalidChargesAreErrorsThatSendNothing(t *testing.T) {
	b := redisbackend.MustNewBare(newClient(t, freeAddr(t)), redisbackend.BareOptions{})
	limit, other := everyAlgorithm[0], everyAlgorithm[4]
	for what, charges := range map[string][]backends.Charge{
		"negative":     {charge("s", "secret", limit, -1)},
		"not set":      {charge("s", "secret", limits.Limit{}, 1)},
		"equal limits": {charge("s", "secret", limit, 1), charge("s", "secret", other, 1)},
	} {
		err := b.Take(t.Context(), charges, make([]limits.Decision, len(charges)))
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want an error with %q and without the key", err, what)
		}
	}
	if err := b.Take(t.Context(), []backends.Charge{charge("s", "k", limit, 1)}, nil); err == nil {
		t.Error("slices of different lengths: no error")
	}
	if err := b.Take(t.Context(), nil, nil); err != nil {
		t.Errorf("nothing to decide: %v", err)
	}
}
