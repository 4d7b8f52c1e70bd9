package redisbackend_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// commands counts the calls of scripts.
type commands struct{ scripts atomic.Int64 }

func (c *commands) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			c.scripts.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A client whose clock is wrong by less than a period is decided in one call by the clock of the server, and one whose
// clock is wrong by more is told once.
func TestTheServersClockDecidesWhichPeriodItIs(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	var count commands
	client.AddHook(&count)
	for _, tt := range []struct {
		wrong time.Duration
		calls int64 // of three decisions
	}{
		{0, 3}, {23 * time.Hour, 3}, {-23 * time.Hour, 3}, {80 * time.Hour, 4}, {-400 * 24 * time.Hour, 4},
		{50 * 366 * 24 * time.Hour, 4},
	} {
		b := newBare(client)
		c := charge("s", "k", limits.Calendar(10, limits.Day), 1)
		take(t, b, charge("s", "warm", limits.SlidingWindow(limits.PerDay(10)), 1)) // the server knows the script
		redisbackend.SetClockWrong(b, tt.wrong)
		before := count.scripts.Load()
		for i := int64(1); i <= 3; i++ {
			d := take(t, b, c)[0]
			_, end, _ := c.Limit.Window(time.UnixMicro(d.At))
			if d.Remaining != 10-i && d.Remaining != 9 || d.ResetAfter != end.Sub(time.UnixMicro(d.At)) { // midnight may come
				t.Errorf("wrong by %v: %+v, and the day of the server ends at %v", tt.wrong, d, end)
			}
		}
		if calls := count.scripts.Load() - before; calls != tt.calls {
			t.Errorf("wrong by %v: %d calls, want %d", tt.wrong, calls, tt.calls)
		}
	}
}

func TestARequestWithAWrongClockIsDecidedAmongOthers(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := newBare(client)
	redisbackend.SetClockWrong(b, -1000*time.Hour)
	month := charge("month", "k", limits.Calendar(10, limits.Day), 1)
	minute := charge("minute", "k", limits.TokenBucket(limits.PerHour(10), 10), 1)
	for i := int64(1); i <= 3; i++ {
		got := take(t, b, minute, month)
		if got[0].Remaining != 10-i || got[1].Remaining > 9 {
			t.Errorf("taking %d: %+v", i, got)
		}
	}
}

// What a client with other data of time zones has stored decides until it ends. The state of June is changed to
// end earlier or later, and a client that knows another end gives no second budget.
func TestAStoredPeriodDecidesUntilItEnds(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	start := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	// and their ends
	const day, june, july, august = 24 * time.Hour, 30 * 24 * time.Hour, 61 * 24 * time.Hour, 92 * 24 * time.Hour
	type step struct {
		at      time.Duration // since the start of June
		cost    int64
		remains int64
		until   time.Duration
	}
	for _, tt := range []struct {
		name  string
		later time.Duration // by how much the stored period ends later
		steps []step
	}{
		{"an hour early: the rest of June belongs to July", -time.Hour, []step{
			{june - day, 0, 2, june - time.Hour},
			{june - time.Hour - time.Microsecond, 3, 2, june - time.Hour},
			{june - time.Hour, 9, 1, july},
			{june, 0, 1, july},
			{june, 1, 0, july},
			{july, 1, 9, august},
		}},
		{"an hour late: July begins then", time.Hour, []step{
			{june, 3, 2, june + time.Hour},
			{june + time.Hour - time.Microsecond, 2, 0, june + time.Hour},
			{june + time.Hour, 10, 0, july},
			{july, 1, 9, august},
		}},
	} {
		now := start
		b := bareAt(client, func() time.Time { return now })
		c := charge("s", "k", limits.Calendar(10, limits.Month), 8)
		take(t, b, c)
		key := redisbackend.Name(b, "s", "k")
		stored := client.Get(t.Context(), key).Val()
		changed := strings.TrimSuffix(stored, fmt.Sprint(june.Microseconds())) + fmt.Sprint((june + tt.later).Microseconds())
		ok(t, client.Set(t.Context(), key, changed, redis.KeepTTL).Err())
		for _, s := range tt.steps {
			now, c.Cost = start.Add(s.at), s.cost
			d := take(t, b, c)[0]
			if until := s.at + d.EffectiveWindow; d.Remaining != s.remains || until != s.until {
				t.Errorf(
					"%s: after %v and a charge of %d, %d remain until %v, want %d until %v", tt.name, s.at, s.cost, d.Remaining,
					until, s.remains, s.until,
				)
			}
		}
	}
}

// Between a taking and its end the clock of a client may have become wrong, or another process may end it.
func TestAnEndingWithAWrongClockIsSettled(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	for _, wrong := range []time.Duration{-80 * time.Hour, 80 * time.Hour, 50 * 366 * 24 * time.Hour} {
		b := newBare(client)
		redisbackend.SetClockWrong(b, wrong)
		limit := limits.Calendar(10, limits.Year)
		if wrong.Abs() < 366*24*time.Hour {
			limit = limits.Calendar(10, limits.Day)
		}
		out := make([]limits.Settlement, 2)
		ok(t, b.Settle(t.Context(), []backends.Ending{
			{Scope: "s", Key: "k", Limit: limit, Taken: 1, Final: 4},
			{Scope: "s", Key: "other", Limit: limits.FixedWindow(limits.PerDay(10)), Taken: 1, Final: 3},
		}, out))
		if out[0].Err != nil || out[0].Charged != 3 || out[1].Err != nil || out[1].Charged != 2 {
			t.Errorf("wrong by %v: %+v", wrong, out)
		}
	}
}

// The state of a month that owes has the length of the next month. Once the clock has stepped back by half a
// year, it shows neither of the two. The units then count as taken now under another limit.
func TestAMonthThatOwesIsConvertedThoughTheClockSteppedBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.January, 3, 0, 0, 0, 0, time.UTC)
	b := redisbackend.WithClock(redisbackend.MustNewBare(newClient(t, startRedis(t).addr), redisbackend.BareOptions{}),
		func() time.Time { return now })
	month := lasting("s", "k", limits.Calendar(3, limits.Month), 1)
	settle(t, b, endingOf(month, take(t, b, month)[0], 6))
	now = now.AddDate(0, -6, 0)
	for _, tt := range []struct {
		cost, remains int64
		allowed       bool
	}{{0, 4, true}, {5, 4, false}, {4, 0, true}, {1, 0, false}} {
		c := charge("s", "k", limits.TokenBucket(limits.PerHour(10), 10), tt.cost)
		if d := take(t, b, c)[0]; d.Allowed != tt.allowed || d.Remaining != tt.remains {
			t.Errorf("a charge of %d: %+v, want allowed %v, and %d that remain", tt.cost, d, tt.allowed, tt.remains)
		}
	}
}
