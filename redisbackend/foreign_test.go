package redisbackend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// A log of which only the middle is foreign is an error for those who charge it. The other
// requests of the call are decided.
func TestALogWithAForeignMiddleFailsOnlyThoseThatChargeIt(t *testing.T) {
	t.Parallel()
	log := limits.SlidingLog(limits.PerMinute(3))
	spoilt := charge("log", "spoilt", log, 1)
	t.Run("alone", func(t *testing.T) { foreignMiddleFails(t, spoilt) })
	t.Run("before another log", func(t *testing.T) {
		foreignMiddleFails(t, spoilt, charge("log", "other", log, 1))
	})
}

// foreignMiddleFails spoils the log of the first of some charges, which one request makes.
func foreignMiddleFails(t *testing.T, charges ...backends.Charge) {
	client, g := startGate(t)
	admin := newClient(t, client.Options().Addr)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := bareAt(client, func() time.Time { return now })
	log, spoilt := charges[0].Limit, charges[0]
	sound := charge("log", "sound", log, 1)
	other := charge("s", "k", limits.FixedWindow(limits.PerDay(10)), 1)
	for range 3 {
		take(t, b, spoilt)
		now = now.Add(time.Second)
	}
	name := redisbackend.Name(b, "log", "spoilt")
	text := admin.Get(t.Context(), name).Val()
	middle := strings.Index(text, ";") + 1 + 32
	foreign := text[:middle] + strings.Repeat("x", 32) + text[middle+32:]
	ok(t, admin.Set(t.Context(), name, foreign, 0).Err())
	decisions, errs, wait := queue(t, t.Context(), b, g, [][]backends.Charge{{sound}, charges, {other}})
	g.open()
	wait()
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("others of the call: %v, %v", errs[0], errs[2])
	}
	if errs[1] == nil {
		t.Errorf("the foreign log decides: %+v", decisions[1])
	}
	if d := take(t, b, charge("log", "sound", log, 0)); errs[0] != nil && d[0].Remaining != 3 {
		t.Errorf("a request that failed has taken: %+v", d)
	}
	if got := admin.Get(t.Context(), name).Val(); got != foreign {
		t.Errorf("the foreign log is now %q", got)
	}
}

// A text that no version of weir has written is an error for those who charge its key, and stays.
func TestAForeignTextIsAnErrorAndStays(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const at = "1767225600000000"
	all := []limits.Limit{
		limits.TokenBucket(limits.PerHour(10), 10), limits.LeakyQueue(limits.PerHour(10), 10),
		limits.FixedWindow(limits.PerHour(10)),
		limits.SlidingWindow(limits.PerHour(10)), limits.AnchoredWindow(limits.PerHour(10)),
		limits.Ban(limits.PerHour(10), time.Hour),
		limits.SlidingLog(limits.PerHour(10)),
	}
	b := bareAt(client, func() time.Time { return now })
	for _, limit := range all {
		c := charge("s", "k", limit, 1)
		name := redisbackend.NameUnder(b, limit, "s", "k")
		ok(t, client.Del(t.Context(), name).Err())
		take(t, b, c)
		text := client.Get(t.Context(), name).Val()
		head, _, _ := strings.Cut(text, " ")
		texts := []string{
			" ", "1", head, head + " ", head + " nan nan nan", head + " 0x10 1 1", head + " 1e400 1 1",
			head + " " + at + " -1 0",
			head + " " + at + " 99999999999999999999 0", head + " " + at + " 0 99999999999999999999",
			head + " 99999999999999999999999 1 1",
			head + " " + strings.Repeat("9", 400) + " 1 1", head + " " + at + " " + strings.Repeat("9", 400) + " 1",
			head + " " + at + " 1 1+", head + " " + at + " 1 1\n",
			head + " " + at + " 1 1+0", head + " " + at + " 1 1+999999",
			head + " " + at + " 1 1+1 nan", head + " " + at + " 1 1+1 0 0 0 - - - - - - - -",
			"1" + text, "2" + text,
			text + " ", text + "\x00", "\x00" + text, strings.Repeat("1", 5000), head + strings.Repeat(" 1", 2000),
		}
		if limit.Algorithm() == limits.AlgorithmSlidingLog {
			texts = append(texts, head+" 00000000 0000000000000001;",
				head+" 00000001 0000000000000001;"+at+"0000000000000000",
				head+" 00000000 0000000000000021;"+at+"0000000000000000")
		}
		for _, text := range texts {
			text = redisbackend.WithoutZero(text)
			for _, cost := range []int64{0, 1, 11} {
				ok(t, client.Set(t.Context(), name, text, 0).Err())
				c.Cost = cost
				out := make([]limits.Decision, 1)
				err := b.Take(t.Context(), []backends.Charge{c}, out)
				if err == nil {
					t.Errorf("%v, cost %d, %.100q: %+v", limit, cost, text, out[0])
				} else if !strings.Contains(err.Error(), "WEIR the state of a key") ||
					!strings.Contains(err.Error(), "ResetKey") {
					t.Errorf("%v, cost %d, %.100q: %v", limit, cost, text, err)
				}
				if got := client.Get(t.Context(), name).Val(); got != text {
					t.Errorf("%v, cost %d, %.100q became %q", limit, cost, text, got)
				}
			}
		}
	}
}

// A number with zeros before it is still that number. A reply does not repeat them: it would be too long
// to be believed.
func TestZerosBeforeANumberAreNotRepeated(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("s", "k", limits.FixedWindow(limits.Per(10, 366*24*time.Hour)), 1)
	take(t, b, c)
	name := redisbackend.Name(b, "s", "k")
	text := client.Get(t.Context(), name).Val()
	for with, zeros := range map[int]int{0: 100_000, 99: 900} { // other keys
		text := strings.TrimSuffix(text, "1") + strings.Repeat("0", zeros) + "9"
		charges := []backends.Charge{c}
		for i := range with {
			charges = append(charges, charge("s", fmt.Sprint(i), c.Limit, 1))
		}
		for _, c := range charges {
			ok(t, client.Set(t.Context(), redisbackend.Name(b, "s", c.Key), text, 0).Err())
		}
		if d := take(t, b, charges...)[0]; !d.Allowed || d.Remaining != 0 {
			t.Errorf("with %d others: %+v, want the last unit of ten", with, d)
		}
	}
}

// An empty text is foreign, too: no version of weir writes one.
func TestAnEmptyTextIsAnErrorAndStays(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("s", "k", limits.FixedWindow(limits.PerDay(10)), 1)
	name := redisbackend.Name(b, "s", "k")
	ok(t, client.Set(t.Context(), name, "", 0).Err())
	if err := b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1)); err == nil {
		t.Error("it is decided")
	}
	if got := client.Get(t.Context(), name).Val(); got != "" {
		t.Errorf("it became %q", got)
	}
}

// A taking in a log has sixteen digits twice, and nothing else that Lua reads as a number.
func TestALogWithForeignTakingsIsAnErrorAndStays(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := redisbackend.WithClock(
		redisbackend.MustNewBare(client, redisbackend.BareOptions{}), func() time.Time { return now },
	)
	const at = "1767225600000000"
	name := redisbackend.Name(b, "s", "k")
	for _, taking := range []string{
		"             nan0000000000000000", at + "             nan", "             nan             nan",
		at + "0x00000000000000",
		"            -inf0000000000000000",
	} {
		for _, cost := range []int64{0, 1} {
			text := "g10/h 0 1 1;" + taking
			ok(t, client.Set(t.Context(), name, text, 0).Err())
			out := make([]limits.Decision, 1)
			charges := []backends.Charge{charge("s", "k", limits.SlidingLog(limits.PerHour(10)), cost)}
			if err := b.Take(t.Context(), charges, out); err == nil {
				t.Errorf("cost %d, taking %q: %+v", cost, taking, out[0])
			}
			if got := client.Get(t.Context(), name).Val(); got != text {
				t.Errorf("cost %d, taking %q: the log became %q", cost, taking, got)
			}
		}
	}
}

// The call for one request, which says less, decides like others do.
func TestACallForOneRequestDecidesLikeOthers(t *testing.T) {
	t.Parallel()
	random := testrun.Random(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var servers [2]*miniredis.Miniredis
	var both [2]*redisbackend.Bare
	for i := range both {
		servers[i] = miniredis.RunT(t)
		both[i] = redisbackend.MustNewBare(newClient(t, servers[i].Addr()), redisbackend.BareOptions{Prefix: "p"})
	}
	redisbackend.WithClock(both[1], func() time.Time { return now })
	redisbackend.WaitForEver(both[0])
	choices := []limits.Limit{
		limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 7),
		limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 4),
		limits.LeakyQueue(limits.PerSecond(300), 12), limits.FixedWindow(limits.Per(15, 10*time.Millisecond)),
		limits.FixedWindow(limits.Per(6, 10*time.Millisecond)),
		limits.SlidingWindow(limits.Per(14, 25*time.Millisecond)),
		limits.SlidingWindow(limits.Per(5, 25*time.Millisecond)),
		limits.SlidingLog(limits.Per(9, 30*time.Millisecond)),
		limits.AnchoredWindow(limits.Per(15, 10*time.Millisecond)),
		limits.AnchoredWindow(limits.Per(7, 10*time.Millisecond)),
		limits.Ban(limits.Per(15, 20*time.Millisecond), 30*time.Millisecond),
		limits.Ban(limits.Per(5, 20*time.Millisecond), time.Second),
	}
	for i := range testrun.Sized(500, 10000) {
		var charges []backends.Charge
		for j := range 1 + random.IntN(3) {
			limit := choices[(j*4+i/700)%len(choices)]
			if random.IntN(6) == 0 {
				limit = choices[random.IntN(len(choices))]
			}
			c := charge(fmt.Sprint("s", j), fmt.Sprint(random.IntN(2)), limit, random.Int64N(5))
			c.Shadow = random.IntN(6) == 0
			if random.IntN(6) == 0 {
				c.Lasts = 20 * time.Millisecond
			}
			charges = append(charges, c)
		}
		var got [2][]limits.Decision
		for k, b := range both {
			servers[k].SetTime(now)
			got[k] = make([]limits.Decision, len(charges))
			ok(t, b.Take(t.Context(), charges, got[k]))
		}
		a, b := withoutTickets(asking{charges: charges}, got[0]), withoutTickets(asking{charges: charges}, got[1])
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("request %d, %v: alone\n%+v\ngenerally\n%+v", i, charges, a, b)
		}
		now = now.Add(time.Duration(random.Int64N(6000)) * time.Microsecond)
		if random.IntN(20) == 0 {
			now = now.Add(-[]time.Duration{10 * time.Millisecond, 2 * time.Second, time.Hour}[random.IntN(3)])
		}
	}
}

// Names with spaces, line ends, NUL, patterns and braces are as good as others.
func TestAnyScopeAndKeyIsDecided(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	b := newBare(client)
	limit := limits.FixedWindow(limits.PerDay(2))
	odd := []string{"", " ", "\n", "\r\n", "\x00", "%s %d", "%", "{}", "{x}", "}{", "#", ":", "1:", "\xff\xfe",
		strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 1<<20)}
	var groups [][]backends.Charge
	for _, scope := range odd {
		if len(scope) > 1000 || scope == "" {
			continue
		}
		for _, key := range odd {
			groups = append(groups, []backends.Charge{charge(scope, key, limit, 1)})
		}
	}
	for start := 0; start < len(groups); start += 100 {
		part := groups[start:min(start+100, len(groups))]
		decisions, errs, wait := queue(t, t.Context(), b, g, part)
		g.open()
		wait()
		for i := range part {
			if errs[i] != nil || !decisions[i][0].Allowed || decisions[i][0].Remaining != 1 {
				t.Errorf("%.40q: %+v, %v", part[i][0].Scope+"|"+part[i][0].Key, decisions[i], errs[i])
			}
		}
	}
}

// A request may charge many keys.
func TestARequestOfManyKeysIsDecided(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	redisbackend.WaitForEver(b)
	for _, n := range []int{100, 1000, 7000} {
		var all []backends.Charge
		for i := range n {
			all = append(all, charge("s", fmt.Sprint(i), limits.FixedWindow(limits.PerDay(20)), 1))
		}
		if err := b.Take(t.Context(), all, make([]limits.Decision, n)); err != nil {
			t.Errorf("%d keys: %v", n, err)
		}
	}
}
