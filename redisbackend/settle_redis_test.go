package redisbackend_test

import (
	"container/heap"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// settled are limits of all algorithms whose charges may be settled.
var settled = append([]limits.Limit{limits.Ban(limits.PerMinute(10), time.Hour),
	limits.Ban(limits.PerMinute(10), time.Hour).Growing(24 * time.Hour)}, everyAlgorithm...)

// lasting is a charge that may be settled.
func lasting(scope, key string, limit limits.Limit, cost int64) backends.Charge {
	c := charge(scope, key, limit, cost)
	c.Lasts = 20 * time.Second
	return c
}

// endingOf ends a charge.
func endingOf(c backends.Charge, d limits.Decision, final int64) backends.Ending {
	return backends.Ending{
		Scope: c.Scope, Key: c.Key, Limit: c.Limit, Taken: c.Cost, Final: final, Ticket: d.Ticket, Lasts: c.Lasts,
	}
}

func TestAStateOfADebtorLivesUntilItIsFreshAndASecondLonger(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for _, limit := range settled {
		expires(t, client, limit, func() (name string, fresh time.Duration) {
			b := newBare(client)
			c := lasting("s", "k", limit, 5)
			s := settle(t, b, endingOf(c, take(t, b, c)[0], 25))[0]
			if s.Charged+s.Forgiven != 20 || s.Charged < 14 || s.Err != nil {
				t.Errorf("%v: charged %+v", limit, s)
			}
			c.Cost = 0
			fresh = take(t, b, c)[0].ResetAfter
			if limit.Algorithm() == limits.AlgorithmGrowingBan { // its row of bans stays
				fresh += limit.Longest()
			}
			return redisbackend.NameUnder(b, limit, "s", "k"), fresh
		})
	}
}

func TestAnEndingOfAKeyThatIsGoneReturnsNothing(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	for _, limit := range settled {
		c := lasting("s", "k", limit, 3)
		d := take(t, b, c)[0]
		ok(t, client.FlushAll(t.Context()).Err())
		if s := settle(t, b, endingOf(c, d, 0))[0]; s != (limits.Settlement{}) {
			t.Errorf("%v: got %+v", limit, s)
		}
		if n := client.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("%v: an ending made a state", limit)
		}
	}
}

// # is any serial.
func TestStatesHaveSerialsOnlyWhereChargesLast(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	now := func() time.Time { return time.UnixMicro(1_767_268_800_500_000) }
	b := redisbackend.WithClock(redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: "app"}), now)
	for i, c := range []struct {
		limit limits.Limit
		lasts bool
		final int64
		want  string
	}{
		{
			everyAlgorithm[0], true, 3,
			"t10/600k 1767268800500000 1800000 0+# 1767268800500000 2500000 706907520 - - - - - - - -",
		},
		{
			everyAlgorithm[0], true, 5,
			"t10/600k 1767268800500000 3000000 0+# 1767268800500000 2500000 706907520 - - - 1800000 - - - -",
		},
		{everyAlgorithm[0], false, 3, "t10/600k 1767268800500000 1800000 0"},
		{everyAlgorithm[3], true, 5, "q10/600k 1767268800500000 3000000 0"},
		{everyAlgorithm[4], true, 10, "f10/m 1767268800000000 10 0+#"},
		{everyAlgorithm[4], true, 12, "f10/m 1767268800000000 12 0+# 2"},
		{everyAlgorithm[5], true, 12, "s10/m 1767268800000000 12 0+#"},
		{
			everyAlgorithm[6], true, 2,
			fmt.Sprintf("%-74s;%s", "g10/m 0 1 2 #", "17672688005000000000000000000000"),
		},
		{everyAlgorithm[7], true, 2, "n10/m 1767268800500000 2 2+#"},
		{everyAlgorithm[7], true, 12, "n10/m 1767268800500000 12 12+# 2"},
		{everyAlgorithm[6], false, 2, fmt.Sprintf("%-79s;%s", "g10/m 0 1 3", "17672688005000000000000000000000")},
		{everyAlgorithm[7], false, 3, "n10/m 1767268800500000 3 3"},
		{settled[0], false, 3, "b10/m/h 1767268800500000 0 3"},
		{settled[0], true, 3, "b10/m/h 1767268800500000 0 3+#"},
		{settled[1], false, 3, "w10/m/h/d 1767268800500000 0 3"},
		{settled[1], true, 12,
			"w10/m/h/d 1767268800500000 1767272400500000 67108876+#"},
		{settled[0], true, 12, "b10/m/h 1767268800500000 1767272400500000 12+#"},
	} {
		charge := lasting("rule", fmt.Sprint("key", i), c.limit, 3)
		if !c.lasts {
			charge.Lasts = 0
		}
		settle(t, b, endingOf(charge, take(t, b, charge)[0], c.final))
		got, err := client.Get(t.Context(), redisbackend.NameUnder(b, c.limit, "rule", charge.Key)).Result()
		if i == 1 { // the slice of an instant depends on its width alone
			got, _, _ = strings.Cut(got, "+")
			c.want, _, _ = strings.Cut(c.want, "+")
		}
		quoted := regexp.QuoteMeta(redisbackend.WithoutZero(c.want))
		want := regexp.MustCompile("^" + strings.ReplaceAll(quoted, "#", `\d{1,6}`) + "$")
		if err != nil || !want.MatchString(got) {
			t.Errorf("%v, %d in the end: got %q, %v, want %q", c.limit, c.final, got, err, c.want)
		}
	}
}

func TestAnEndingThatCannotBeReadIsAnErrorAndTheOthersAreSettled(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	var endings []backends.Ending
	for i, limit := range settled {
		if limit.Rate().Period == time.Second {
			continue // on a busy machine its units are back before the end
		}
		for _, key := range []string{"good", "bad", "list"} {
			c := lasting(fmt.Sprint(i), key, limit, 3)
			endings = append(endings, endingOf(c, take(t, b, c)[0], int64(i%2*5)))
			name := redisbackend.NameUnder(b, limit, c.Scope, key)
			switch key {
			case "bad":
				ok(t, client.Set(t.Context(), name, "3t 10", time.Hour).Err())
			case "list":
				ok(t, client.Del(t.Context(), name).Err())
				ok(t, client.LPush(t.Context(), name, "x").Err())
			}
		}
	}
	for i, s := range settle(t, b, endings...) {
		want := map[string]string{"good": "", "bad": "WEIR", "list": "another type"}[endings[i].Key]
		if want == "" && (s.Err != nil || s.Returned+s.Charged == 0) || want != "" && (s.Err == nil ||
			!strings.Contains(s.Err.Error(), want)) {
			t.Errorf("%+v: got %+v", endings[i], s)
		}
	}
	if got := client.Get(t.Context(), redisbackend.NameUnder(b, settled[0], "0", "bad")).Val(); got != "3t 10" {
		t.Errorf("the state became %q", got)
	}
}

// settlesOnce settles by a client that repeats what it has no reply to.
func settlesOnce(t *testing.T, client redis.UniversalClient, lose *atomic.Bool) {
	b := newBare(client)
	limit := limits.LeakyBucket(limits.PerDay(1), 100)
	for round := range 3 {
		var endings []backends.Ending
		for i := range 1 + 199*(round%2) { // one command, or several slots
			for _, final := range []int64{2, 9} {
				c := lasting("s", fmt.Sprint(round, " ", i, " ", final), limit, 5)
				d := take(t, b, c)[0]
				take(t, b, c)
				endings = append(endings, endingOf(c, d, final))
			}
		}
		if round == 2 {
			ok(t, client.ScriptFlush(t.Context()).Err())
		}
		lose.Store(true)
		results := settle(t, b, endings...)
		if lose.Load() {
			t.Error("no reply was lost")
		}
		lost := 0
		for i, s := range results {
			e := &endings[i]
			if s.Err != nil {
				lost++
			}
			left := take(t, b, charge(e.Scope, e.Key, limit, 0))[0].Remaining
			if want := 90 + 5 - e.Final; left != want && (s.Err == nil || left != 90) {
				t.Errorf("%d of 100 remain, want %d, or if it is lost (%v) 90", left, want, s.Err)
			}
		}
		if lost == 0 {
			t.Error("a reply was lost: no error")
		}
	}
}

func TestASettlementWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		var lose atomic.Bool
		client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr, Dialer: loser(&lose)})
		defer client.Close()
		settlesOnce(t, client, &lose)
		for name, client := range pipeliners(t, client) {
			t.Run(name, func(t *testing.T) { settlesOnce(t, client.(redis.UniversalClient), &lose) })
		}
	})
	t.Run("Cluster", func(t *testing.T) {
		client, lose := clusterThatLoses(t)
		settlesOnce(t, client, lose)
		for name, client := range pipeliners(t, client) {
			t.Run(name, func(t *testing.T) { settlesOnce(t, client.(redis.UniversalClient), lose) })
		}
	})
	t.Run("Ring", func(t *testing.T) {
		var lose atomic.Bool
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{"a": startRedis(t).addr, "b": startRedis(t).addr}, ContextTimeoutEnabled: true,
			Dialer: loser(&lose),
		})
		defer ring.Close()
		settlesOnce(t, ring, &lose)
	})
}

// A call that cannot have run is sent again.
func TestAServerThatForgotTheScriptOfSettlementsIsSentIt(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	limit := limits.FixedWindow(limits.PerDay(500))
	var endings []backends.Ending
	for range 300 {
		c := lasting("s", "k", limit, 1)
		endings = append(endings, endingOf(c, take(t, b, c)[0], 0))
	}
	ok(t, client.ScriptFlush(t.Context()).Err())
	for _, s := range settle(t, b, endings...) {
		if s.Returned != 1 || s.Err != nil {
			t.Fatalf("got %+v", s)
		}
	}
	server.kill()
	for _, s := range settle(t, b, endings[:2]...) {
		if s.Err == nil || strings.Contains(s.Err.Error(), ":k") {
			t.Errorf("the server is gone: got %+v", s)
		}
	}
	if err := b.Settle(t.Context(), endings, nil); err == nil {
		t.Error("slices of different lengths: no error")
	}
}

func TestOnAClusterEachSlotIsSettledByOneCall(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for name, b := range map[string]*redisbackend.Bare{
		"slots":    redisbackend.MustNewBare(c.client(t), redisbackend.BareOptions{Prefix: uniquePrefix()}),
		"one slot": redisbackend.MustNewBare(c.client(t), redisbackend.BareOptions{Prefix: uniquePrefix(), HashTag: "tag"}),
	} {
		begun := time.Now()
		redisbackend.WithClock(b, func() time.Time { return begun }) // nothing refills meanwhile
		var commands counter
		client := redisbackend.Client(b).(*redis.ClusterClient)
		var endings []backends.Ending
		for i := range 100 {
			c := lasting("s", fmt.Sprint(i), settled[i%len(settled)], 5)
			endings = append(endings, endingOf(c, take(t, b, c)[0], int64(i%3*5)))
		}
		known := lasting("s", "known", settled[0], 5)
		settle(t, b, endingOf(known, take(t, b, known)[0], 0)) // the server has the script
		client.AddHook(&commands)
		for i, s := range settle(t, b, endings...) {
			e := &endings[i]
			if s.Err != nil || s.Returned != max(0, 5-e.Final) || s.Charged != max(0, e.Final-5) {
				t.Errorf("%s: %+v: got %+v", name, *e, s)
			}
		}
		if n := commands.n.Load(); name == "one slot" && n > 2 {
			t.Errorf("%s: %d commands", name, n)
		}
	}
}

func TestAnEndingUnderAnIllegalLimitIsAnError(t *testing.T) {
	b := redisbackend.MustNewBare(newClient(t, freeAddr(t)), redisbackend.BareOptions{})
	s := settle(
		t, b, backends.Ending{Scope: "s", Key: "secret", Taken: 1},
		backends.Ending{Scope: "s", Key: "k", Limit: everyAlgorithm[0], Taken: 1, Final: 1},
	)
	if s[0].Err == nil || strings.Contains(s[0].Err.Error(), "secret") || s[1] != (limits.Settlement{}) {
		t.Errorf("got %+v", s)
	}
	if errors.Is(s[0].Err, errors.ErrUnsupported) {
		t.Errorf("got %v", s[0].Err)
	}
}

// The scenario of core, on Redis: requests that are estimated at four times what they
// need, and last 5 to 15 s.
func TestOnRedisABusyBucketReturnsNearlyAllThatRequestsDidNotNeed(t *testing.T) {
	t.Parallel()
	p := newPair(t, newClient(t, startRedis(t).addr))
	random := testrun.Random(t)
	var running byTime
	const minutes = 10
	used := int64(0)
	for end := p.now.Add(minutes * time.Minute); p.now.Before(end); p.now = p.now.Add(250 * time.Millisecond) {
		at := p.now
		for len(running) > 0 && !running[0].at.After(at) {
			e := heap.Pop(&running).(timed)
			if p.now = e.at; !p.settle(e.Ending) {
				return
			}
		}
		p.now = at
		c := lasting("s", "k", limits.TokenBucket(limits.PerMinute(60_000), 60_000), 4000)
		d, same := p.take(c)
		if !same {
			return
		}
		if d[0].Allowed {
			used += 1000
			heap.Push(&running, timed{
				at.Add(5*time.Second + time.Duration(random.Int64N(10_000))*time.Millisecond), endingOf(c, d[0], 1000),
			})
		}
	}
	t.Logf("%d a minute", used/minutes)
	if used/minutes < 55_000 {
		t.Errorf("%d of 60,000 a minute are used, want at least 55,000", used/minutes)
	}
}

type timed struct {
	at time.Time
	backends.Ending
}

type byTime []timed

func (e byTime) Len() int           { return len(e) }
func (e byTime) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e byTime) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *byTime) Push(x any)        { *e = append(*e, x.(timed)) }
func (e *byTime) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// A key whose limit has changed keeps what it had used before for limits that follow, though all units that
// it has taken since were returned. Then it is fresh, and remains so when the clock steps back.
func TestAKeyIsFreshOnceAllIsReturnedThoughItsLimitHadChanged(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerMinute(10), 10), limits.LeakyQueue(limits.PerMinute(10), 10),
		limits.FixedWindow(limits.PerMinute(10)), limits.SlidingWindow(limits.PerMinute(10)),
		limits.SlidingLog(limits.PerMinute(10)), limits.AnchoredWindow(limits.PerMinute(10)),
		limits.Calendar(10, limits.Day),
	} {
		now := time.Date(2026, time.January, 3, 0, 0, 0, 0, time.UTC)
		b := bareAt(client, func() time.Time { return now })
		take(t, b, charge("s", "k", limits.TokenBucket(limits.PerHour(1), 100), 50))
		take(t, b, charge("s", "k", limit, 0))
		now = now.Add(25 * time.Hour)
		c := lasting("s", "k", limit, 5)
		if s := settle(t, b, endingOf(c, take(t, b, c)[0], 0))[0]; s.Returned != 5 || s.Err != nil {
			t.Errorf("%v: %+v, want five units returned", limit, s)
		}
		now = now.Add(-5 * time.Millisecond)
		c.Cost = 0
		if d := take(t, b, c)[0]; d.Remaining != 10 || d.ResetAfter != 0 {
			t.Errorf("%v: %+v behind a step back, want a fresh key", limit, d)
		}
		// A larger limit finds what was used before as used now, and locks no key out.
		now = now.Add(-30 * time.Hour)
		larger := charge("s", "k", limits.LeakyBucket(limits.PerMinute(10), 100), 0)
		for _, want := range []int64{50, 60} {
			take(t, b, c)
			if d := take(t, b, larger)[0]; d.Remaining != want {
				t.Errorf("%v: %+v behind a step back of 30 hours, want %d that remain", limit, d, want)
			}
			now = now.Add(time.Minute)
		}
	}
}
