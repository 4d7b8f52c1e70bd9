package redisbackend_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/redisbackend"
)

// What is used stays used in Redis, too: under another limit, another name, another mode,
// and in the eyes of another limiter.
func TestRulesChangeAndCountsStay(t *testing.T) {
	testrun.NeedsMiniredis(t)
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { client.Close() })
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	rule := core.Rule[string]{
		Name: "first", Scope: "user", Limit: limits.FixedWindow(limits.PerDay(2)),
		Key: func(user string) (string, error) { return user, nil },
	}
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{rule}, Backend: backend})
	other := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{rule}, Backend: backend})
	want := func(l *core.Limiter[string], allowed bool, remaining int64) {
		t.Helper()
		o := l.Decide(context.Background(), "ann")
		if d := o.At(0); o.Allowed() != allowed || d.Remaining != remaining || d.Source != limits.SourcePrimary {
			t.Errorf("%v, %d left, by %v (%v): want %t and %d", o.Verdict(), d.Remaining, d.Source, o.Err(), allowed, remaining)
		}
	}
	replace := func(changed core.Rule[string]) {
		t.Helper()
		if err := limiter.Replace([]core.Rule[string]{changed}); err != nil {
			t.Fatal(err)
		}
	}
	want(limiter, true, 1)
	want(limiter, true, 0)
	want(limiter, false, 0)
	rule.Name, rule.Mode = "second", core.Shadow
	replace(rule)
	want(limiter, true, 0)
	want(other, false, 0)
	rule.Limit = limits.FixedWindow(limits.PerDay(4))
	replace(rule)
	want(limiter, true, 1) // a shadow counts what fits
	rule.Mode = core.Enforce
	replace(rule)
	o := limiter.Explain(context.Background(), "ann")
	if o.At(0).Remaining != 1 || !o.Allowed() {
		t.Errorf("explained: %v, %d left (%v)", o.Verdict(), o.At(0).Remaining, o.Err())
	}
	want(limiter, true, 0)
	want(limiter, false, 0)
}

// These random histories had been decided otherwise than by the model.
func TestALimitThatChangesFarFromNowIsDecidedAsByTheModel(t *testing.T) {
	t.Parallel()
	testrun.NeedsMiniredis(t)
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { client.Close() })
	for name, history := range map[string][]struct {
		limit limits.Limit
		cost  int64
		later time.Duration
	}{
		"a ban of a shorter period, behind which the clock has stepped back": {
			{limits.Ban(limits.Per(50, 600*time.Hour), time.Millisecond), 3, -20 * time.Hour},
			{limits.Ban(limits.Per(9, 100*time.Millisecond), time.Millisecond), 4, 0},
			{limits.Ban(limits.Per(9, 100*time.Millisecond), time.Millisecond), 1, 0},
		},
		"a ban that stands, under one of a shorter period, behind which the clock has stepped back": {
			{limits.Ban(limits.Per(5, 8784*time.Hour), time.Millisecond), 5, -56 * time.Hour},
			{limits.Ban(limits.Per(9, 100*time.Millisecond), 2*time.Millisecond), 1, 0},
		},
		"a bucket as of its latest taking, which a denied request converts before the clock steps back": {
			{limits.SlidingLog(limits.Per(6672, 5527*time.Hour)), 5379, 0},
			{limits.FixedWindow(limits.Per(60, time.Minute)), 51, time.Minute},
			{limits.TokenBucket(limits.Per(1, 8766*time.Hour), 100), 101, -3 * time.Second},
			{limits.TokenBucket(limits.Per(1, 8766*time.Hour), 100), 1, 0},
		},
		"a bucket that drains until after the last instant": {
			{limits.TokenBucket(limits.Per(1, 3*time.Second), 1_000_000_000), 900_000_000, 24 * time.Hour},
			{limits.TokenBucket(limits.PerSecond(10), 20), 1, time.Minute},
			{limits.TokenBucket(limits.PerSecond(10), 20), 1, 0},
		},
	} {
		now := time.Date(2195, 5, 14, 7, 14, 12, 0, time.UTC)
		clock := func() time.Time { return now }
		b := bareAt(client, clock)
		model := limitstest.NewExact(clock)
		for i, step := range history {
			c := charge("s", "k", step.limit, step.cost)
			got, want := take(t, b, c)[0], take(t, model, c)[0]
			if want.Ticket = 0; got != want {
				t.Errorf("%s, taking %d: got %+v, want %+v", name, i+1, got, want)
			}
			now = now.Add(step.later)
		}
	}
}

// A window that is over has nothing in use, so the limit that follows starts from nothing. A refund of its
// units then leaves a fresh key, although the clock has stepped back.
func TestAnEmptyStateOfAnotherLimitLeavesNoChange(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]func(t *testing.T) string{
		"redis":     func(t *testing.T) string { return startRedis(t).addr },
		"miniredis": func(t *testing.T) string { testrun.NeedsMiniredis(t); return miniredis.RunT(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, addr(t))
			now := time.Date(2028, 1, 18, 12, 0, 0, 0, time.UTC)
			b := redisbackend.WithClock(
				redisbackend.MustNewBare(client, redisbackend.BareOptions{}), func() time.Time { return now },
			)
			var out [1]limits.Decision
			charge := backends.Charge{Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerSecond(7000)), Cost: 7000}
			ok(t, b.Take(t.Context(), []backends.Charge{charge}, out[:]))
			now = now.Add(8 * time.Minute)
			charge.Limit, charge.Cost, charge.Lasts = limits.AnchoredWindow(limits.PerHour(5000)), 1, time.Minute
			ok(t, b.Take(t.Context(), []backends.Charge{charge}, out[:]))
			state, err := client.Get(t.Context(), redisbackend.Name(b, "s", "k")).Result()
			ok(t, err)
			if strings.HasPrefix(state, "<") {
				t.Errorf("the state has a change: %q", state)
			}
			now = now.Add(-36 * time.Second)
			settlements := make([]limits.Settlement, 1)
			ok(t, b.Settle(t.Context(), []backends.Ending{{
				Scope: "s", Key: "k", Limit: charge.Limit, Taken: 1, Ticket: out[0].Ticket, Lasts: charge.Lasts,
			}}, settlements))
			if s := settlements[0]; s.Returned != 1 || s.Err != nil {
				t.Fatalf("settled: %+v, want 1 unit returned", s)
			}
			charge.Cost = 0
			ok(t, b.Peek(t.Context(), []backends.Charge{charge}, out[:]))
			if d := out[0]; d.Remaining != 5000 || d.ResetAfter != 0 {
				t.Errorf("%+v, want a fresh key", d)
			}
		})
	}
}
