package redisbackend_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// A call of requests of all kinds for the same few keys decides each as if it came alone, and
// leaves the same states: bans, queues, logs, concurrency limits, charges that last, settled
// states, shadows, limits that change, clocks that step back by any time among them.
func TestACallOfAllKindsDecidesEachAsAlone(t *testing.T) {
	t.Parallel()
	client, g := startGate(t)
	alone := newClient(t, client.Options().Addr)
	random := testrun.Random(t)
	for range testrun.Sized(2, 40) {
		mixedCalls(t, client, alone, g, random)
	}
}

func mixedCalls(t *testing.T, client, alone *redis.Client, g *gate, random *rand.Rand) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	prefixes := [2]string{uniquePrefix(), uniquePrefix()}
	open := func(client *redis.Client, prefix string) *redisbackend.Bare {
		bare := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: prefix})
		return redisbackend.HoldForEver(redisbackend.WithClock(bare, clock))
	}
	many, one := open(client, prefixes[0]), open(alone, prefixes[1])
	choices := []limits.Limit{
		limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 7),
		limits.TokenBucket(limits.Per(2, 3*time.Millisecond), 4),
		limits.LeakyBucket(limits.Per(3, 20*time.Millisecond), 4), limits.LeakyQueue(limits.PerSecond(300), 12),
		limits.LeakyQueue(limits.PerSecond(300), 5),
		limits.FixedWindow(limits.Per(15, 10*time.Millisecond)), limits.FixedWindow(limits.Per(6, 10*time.Millisecond)),
		limits.SlidingWindow(limits.Per(14, 25*time.Millisecond)),
		limits.SlidingWindow(limits.Per(5, 25*time.Millisecond)),
		limits.SlidingLog(limits.Per(16, 30*time.Millisecond)), limits.SlidingLog(limits.Per(9, 30*time.Millisecond)),
		limits.AnchoredWindow(limits.Per(15, 10*time.Millisecond)),
		limits.AnchoredWindow(limits.Per(7, 10*time.Millisecond)),
		limits.Ban(limits.Per(15, 20*time.Millisecond), 30*time.Millisecond),
		limits.Ban(limits.Per(5, 20*time.Millisecond), time.Second),
		limits.TokenBucket(limits.Per(1_000_000_000, time.Millisecond), 1_000_000_000),
		limits.TokenBucket(limits.Per(1, 366*24*time.Hour), 90),
		limits.SlidingWindow(limits.Per(1_000_000_000, 366*24*time.Hour)),
		limits.Ban(limits.Per(1_000_000_000, time.Hour), 366*24*time.Hour),
		limits.Concurrent(5), limits.SlidingWindow(limits.Per(1, time.Millisecond)),
		limits.Calendar(15, limits.Day), limits.Calendar(6, limits.Day), limits.Calendar(9, limits.Month),
		limits.Distinct(limits.Per(3, 30*time.Millisecond)),
		limits.Distinct(limits.Per(2, time.Minute)),
	}
	home := random.Perm(len(choices))
	steps := []time.Duration{time.Microsecond, 900 * time.Microsecond, 15 * time.Millisecond, time.Second,
		time.Minute, 50 * time.Hour, 400 * 24 * time.Hour}
	next := func() asking {
		var a asking
		for _, j := range random.Perm(3)[:1+random.IntN(3)] {
			limit := choices[home[j]]
			if random.IntN(4) == 0 {
				limit = choices[random.IntN(len(choices))]
			}
			most := limit.Burst()
			c := charge(fmt.Sprint("scope ", j), fmt.Sprint(random.IntN(2)), limit, random.Int64N(4))
			switch random.IntN(25) {
			case 0:
				c.Cost = most
			case 1:
				c.Cost = most + 1
			case 2:
				c.Cost = 1 << 53
			}
			if limit.Algorithm().Holds() {
				c.Cost = min(c.Cost, 6)
			}
			c.Shadow, c.Value = random.IntN(6) == 0, random.Uint64N(4)
			if random.IntN(5) == 0 {
				c.Lasts = time.Duration(1+random.IntN(50)) * time.Millisecond
			}
			a.charges = append(a.charges, c)
			if random.IntN(8) == 0 && !limit.Algorithm().Holds() {
				c.Shadow = !c.Shadow
				a.charges = append(a.charges, c)
			}
		}
		a.peeks = random.IntN(6) == 0
		return a
	}
	type taken struct {
		c         backends.Charge
		many, one limits.Decision
	}
	var open1 []taken
	for round := range 25 {
		var all []asking
		weight := 0
		for range 2 + random.IntN(10) {
			a := next()
			_, more := redisbackend.Form(one, a.charges, a.peeks)
			for again := true; again && weight+more <= redisbackend.MostAtOnce; again = random.IntN(4) == 0 {
				weight += more
				all = append(all, a)
			}
		}
		got, errs, wait := queueAll(t, t.Context(), many, g, all)
		g.open()
		wait()
		for _, i := range inOrder(one, all) {
			a := all[i]
			want := make([]limits.Decision, len(a.charges))
			decide := one.Take
			if a.peeks {
				decide = one.Peek
			}
			err := decide(t.Context(), a.charges, want)
			if fmt.Sprint(err) != fmt.Sprint(errs[i]) {
				t.Fatalf("round %d, request %d, %v: alone %v, with others %v", round, i, a.charges, err, errs[i])
			}
			allowed := !a.peeks
			for j, c := range a.charges {
				allowed = allowed && (c.Shadow || want[j].Allowed)
			}
			for j, c := range a.charges {
				if allowed && (c.Lasts > 0 || c.Limit.Algorithm().Holds()) && want[j].Allowed && c.Cost < 1<<50 {
					open1 = append(open1, taken{c, got[i][j], want[j]})
				}
			}
			if diff := cmp.Diff(withoutTickets(a, want), withoutTickets(a, got[i])); diff != "" {
				t.Fatalf("round %d, request %d of %d, peeks %v, %v:\nalone (-), with others (+):\n%s", round,
					i, len(all), a.peeks, a.charges, diff)
			}
		}
		if diff := cmp.Diff(dump(t, alone, prefixes[1]), dump(t, alone, prefixes[0])); diff != "" {
			t.Fatalf("round %d: states after requests alone (-), with others (+):\n%s", round, diff)
		}
		random.Shuffle(len(open1), func(i, j int) { open1[i], open1[j] = open1[j], open1[i] })
		for range min(len(open1), random.IntN(4)) {
			x := open1[0]
			open1 = open1[1:]
			final := random.Int64N(x.c.Cost + 3)
			var out [2][1]limits.Settlement
			for k, b := range []*redisbackend.Bare{many, one} {
				e := backends.Ending{Scope: x.c.Scope, Key: x.c.Key, Limit: x.c.Limit, Taken: x.c.Cost,
					Final: final, Ticket: []limits.Decision{x.many, x.one}[k].Ticket, Lasts: x.c.Lasts}
				ok(t, b.Settle(t.Context(), []backends.Ending{e}, out[k][:]))
				redisbackend.WaitForReleases(b)
			}
			if out[0] != out[1] {
				t.Fatalf("round %d: settle %+v: alone %+v, with others %+v", round, x, out[1], out[0])
			}
		}
		now = now.Add(time.Duration(random.Int64N(20_000)) * time.Microsecond)
		if random.IntN(3) == 0 {
			step := steps[random.IntN(len(steps))]
			if random.IntN(4) > 0 {
				step = -step
			}
			if next := now.Add(step); next.Year() > 2010 && next.Year() < 2050 {
				now = next
			}
		}
	}
}

// withoutTickets keeps of tickets only whether there is one, and what does not depend on serials and ids.
func withoutTickets(a asking, all []limits.Decision) []limits.Decision {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Ticket>>46 != 0 || a.charges[i].Limit.Algorithm().Holds() && all[i].Ticket != 0 {
			all[i].Ticket = 1
		}
	}
	return all
}

var (
	serialOfLog   = regexp.MustCompile(`^(g\S+ \d+ \d+ \d+ )\d{6}`)
	serialOfState = regexp.MustCompile(`\+[1-9]\d*`) // not 0, none
)

// dump is all states, without serials and ids.
func dump(t *testing.T, client *redis.Client, prefix string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, key := range client.Keys(context.Background(), prefix+"*").Val() {
		name := strings.TrimPrefix(key, prefix)
		if client.Type(t.Context(), key).Val() == "zset" {
			all[name] = fmt.Sprint(client.ZCard(t.Context(), key).Val())
			continue
		}
		text, change := client.Get(t.Context(), key).Val(), ""
		if text[0] == '<' {
			end := strings.IndexByte(text, '>') + 1
			change, text = text[:end], text[end:]
		}
		switch text[0] {
		case 'g':
			text = takings(serialOfLog.ReplaceAllString(text, "${1}000000"))
		case 'd':
		default:
			text = serialOfState.ReplaceAllString(text, "+#")
		}
		all[name] = change + text
	}
	return all
}

var logHeader = regexp.MustCompile(`^(g\d+/(\d+)k) (\d+) (\d+) (\d+)( \d{6}|):?(\d*) *$`)

// takings is what the takings of a log that count as of its latest have taken: those that no longer
// count go when they are many, and there are several ways to write what was returned.
func takings(text string) string {
	number := func(digits string) int64 {
		n, _ := strconv.ParseInt(digits, 10, 64)
		return n
	}
	header, rest, _ := strings.Cut(text, ";")
	fields := logHeader.FindStringSubmatch(header)
	if fields == nil {
		return text + ", which is no log"
	}
	period, first, count, end := 1000*number(fields[2]), int(number(fields[3])), int(number(fields[4])), number(fields[5])
	before := func(i int, start int64) int64 { // without what the gaps have returned
		less := int64(0)
		for gap := range slices.Chunk([]byte(fields[7]), 24) {
			if int(number(string(gap[:8]))) <= i {
				less = number(string(gap[8:]))
			}
		}
		return start - less
	}
	out, latest := fields[1]+fields[6], int64(0)
	end = before(count, end)
	for i := count - 1; i >= first; i-- {
		at, start := number(rest[32*i:32*i+16]), before(i, number(rest[32*i+16:32*i+32]))
		if latest = max(latest, at); at > latest-period {
			out += fmt.Sprintf(" %d:%d", at, end-start)
			end = start
		}
	}
	return out
}
