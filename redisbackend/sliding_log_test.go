package redisbackend_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// serial is that of logs which tests write.
const serial = 7

// logText is a log of charges that can be settled, as Redis keeps it: takings at instants, of so
// many units each.
func logText(limit limits.Limit, takings []taking) string {
	var text strings.Builder
	total := int64(0)
	for _, k := range takings {
		fmt.Fprintf(&text, "%016d%016d", k.at, total)
		total += k.units
	}
	header := fmt.Sprintf(
		"%s 0 %d %d %06d", redisbackend.TextOf(limit), len(takings), total, serial,
	)
	return fmt.Sprintf("%-79s;%s", header, text.String())
}

// taking is one of a log that a test writes.
type taking struct{ at, units, ticket int64 }

func takingAt(at time.Time, units int64) taking {
	return taking{at.UnixMicro(), units, serial<<46 | at.UnixMicro()&(1<<46-1)}
}

func (k taking) ending(key string, limit limits.Limit, returned int64) backends.Ending {
	return backends.Ending{
		Scope: "s", Key: key, Limit: limit, Taken: k.units, Final: k.units - returned, Ticket: k.ticket, Lasts: time.Minute,
	}
}

// A log of thousands of takings beside a list of them that is searched from its start: units of any
// takings are returned, in any order, while others are taken and expire. On a server whose keys expire in
// virtual time, the log lives for long enough.
func TestALongLogIsExactWhateverIsReturnedOfIt(t *testing.T) {
	t.Parallel()
	seed := testrun.Seed(t)
	t.Run("on Redis", func(t *testing.T) { logIsExact(t, newClient(t, startRedis(t).addr), seed, 400, false) })
	t.Run("on miniredis", func(t *testing.T) { logIsExact(t, newClient(t, miniredis.RunT(t).Addr()), seed, 60, true) })
}

func logIsExact(t *testing.T, client *redis.Client, seed uint64, steps int, isVirtual bool) {
	const key, period = "k", time.Hour
	const grace = 24 * time.Hour // for a clock that a test gives
	limit := limits.SlidingLog(limits.Per(10_000, period))
	random := rand.New(rand.NewPCG(seed, 0))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := redisbackend.WithClock(
		redisbackend.MustNewBare(client, redisbackend.BareOptions{}), func() time.Time { return now },
	)
	var all []taking
	used := int64(0)
	for used < 9000 {
		now = now.Add(time.Duration(1+random.Int64N(600_000)) * time.Microsecond)
		all = append(all, takingAt(now, 1+random.Int64N(3)))
		used += all[len(all)-1].units
	}
	ok(t, client.Set(t.Context(), redisbackend.Name(b, "s", key), logText(limit, all), grace+2*period).Err())

	// waitFor is how long it takes until n units fit.
	waitFor := func(n int64) time.Duration {
		left := limit.Rate().Units - used
		for _, k := range all {
			if left >= n {
				return time.Duration(max(0, k.at-now.UnixMicro())) * time.Microsecond // never: it fits
			}
			if left += k.units; left >= n {
				return time.UnixMicro(k.at).Add(period).Sub(now)
			}
		}
		return 0
	}
	for step := range steps {
		switch random.IntN(40) {
		case 0:
			now = now.Add(time.Duration(random.Int64N(int64(period) / 8))).Truncate(time.Microsecond)
		case 1, 2, 3, 4, 5, 6, 7, 8: // at the same instant
		default:
			now = now.Add(time.Duration(random.Int64N(2_000_000)) * time.Microsecond)
		}
		for len(all) > 0 && now.Sub(time.UnixMicro(all[0].at)) >= period {
			used -= all[0].units
			all = all[1:]
		}
		switch random.IntN(3) {
		case 0:
			c := lasting("s", key, limit, 1+random.Int64N(100))
			if d := take(t, b, c)[0]; d.Allowed != (used+c.Cost <= limit.Rate().Units) {
				t.Fatalf("step %d: %d units of which %d are used: %+v", step, c.Cost, used, d)
			} else if d.Allowed && len(all) > 0 && all[len(all)-1].at == now.UnixMicro() {
				all[len(all)-1].units += c.Cost
				used += c.Cost
			} else if d.Allowed {
				all = append(all, taking{now.UnixMicro(), c.Cost, d.Ticket})
				used += c.Cost
			}
		default:
			var endings []backends.Ending
			var want []int64
			for range min(len(all), 1+random.IntN(20)) {
				i := random.IntN(len(all))
				if random.IntN(3) == 0 { // most end soon
					i = len(all) - 1 - random.IntN(min(len(all), 60))
				}
				if all[i].units == 0 {
					continue
				}
				n := all[i].units
				if random.IntN(3) == 0 {
					n = 1 + random.Int64N(n)
				}
				endings, want = append(endings, all[i].ending(key, limit, n)), append(want, n)
				all[i].units -= n
				used -= n
			}
			all = slices.DeleteFunc(all, func(k taking) bool { return k.units == 0 })
			for i, s := range settle(t, b, endings...) {
				if s.Err != nil || s.Returned != want[i] {
					t.Fatalf("step %d: %d are returned: %+v", step, want[i], s)
				}
			}
		}
		if len(all) > 0 && isVirtual {
			fresh := time.UnixMicro(all[len(all)-1].at).Add(period).Sub(now)
			if ttl := client.PTTL(t.Context(), redisbackend.Name(b, "s", key)).Val(); ttl < fresh+grace {
				t.Fatalf("step %d: the log expires in %v, and is fresh in %v", step, ttl-grace, fresh)
			}
		}
		cost := 1 + random.Int64N(limit.Rate().Units)
		d := take(t, b, charge("s", key, limit, 0))[0]
		if d.Remaining != limit.Rate().Units-used || len(all) > 0 &&
			d.ResetAfter != time.UnixMicro(all[len(all)-1].at).Add(period).Sub(now) {
			t.Fatalf("step %d: of %d takings %d units are used: %+v", step, len(all), used, d)
		}
		if cost > d.Remaining {
			if d := take(t, b, charge("s", key, limit, cost))[0]; d.Allowed || d.RetryAfter != waitFor(cost) {
				t.Fatalf("step %d: %d units wait for %v, want %v", step, cost, d.RetryAfter, waitFor(cost))
			}
		}
	}
}

// In each pair that overlaps, the first ends before the second, and something older stays.
func TestALogKeepsNothingOfTakingsThatWereReturned(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := redisbackend.WithClock(
		redisbackend.MustNewBare(client, redisbackend.BareOptions{}), func() time.Time { return now },
	)
	c := lasting("s", "k", limits.SlidingLog(limits.PerHour(100)), 1)
	running := []backends.Ending{endingOf(c, take(t, b, c)[0], 1)}
	longest := int64(0)
	for range 1000 {
		for len(running) < 50 {
			now = now.Add(time.Millisecond)
			running = append(running, endingOf(c, take(t, b, c)[0], 0))
		}
		if s := settle(t, b, running[1])[0]; s.Returned != 1 {
			t.Fatalf("got %+v", s)
		}
		running = append(running[:1], running[2:]...)
		longest = max(longest, client.StrLen(t.Context(), redisbackend.Name(b, "s", "k")).Val())
	}
	if longest > 4000 {
		t.Errorf("a log of 50 takings was up to %d bytes long", longest)
	}
}

// The longest header has a change that outlives takings, and all gaps. It must not run into the takings.
func TestALogWithAChangeHasRoomForAllGaps(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := redisbackend.WithClock(
		redisbackend.MustNewBare(client, redisbackend.BareOptions{}), func() time.Time { return now },
	)
	before := limits.SlidingWindow(limits.Per(1_000_000_000, 366*24*time.Hour))
	limit := limits.SlidingLog(limits.Per(9973, 7*time.Hour))
	take(t, b, charge("s", "k", before, 1_000_000_000))
	take(t, b, charge("s", "k", limit, 1)) // denied
	now = now.Add(7 * time.Hour)
	c := lasting("s", "k", limit, 2)
	var endings []backends.Ending
	for range 800 {
		now = now.Add(time.Millisecond)
		endings = append(endings, endingOf(c, take(t, b, c)[0], 1))
	}
	left := limit.Rate().Units - 2*800
	for i := 40; i < 800; i += 40 {
		if s := settle(t, b, endings[i])[0]; s.Err != nil || s.Returned != 1 {
			t.Fatalf("taking %d: %+v", i, s)
		}
		left++
		if d := take(t, b, charge("s", "k", limit, 0))[0]; d.Remaining != left {
			t.Fatalf("taking %d was returned: %d are left, want %d", i, d.Remaining, left)
		}
	}
}
