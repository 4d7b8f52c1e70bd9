package memory_test

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
)

// Requests that are estimated at 4,000 tokens, take 5 to 15 s and need 1,000 come four
// times a second: a bucket of 60,000 a minute has to let most of that through, since what
// is returned must not have drained away. A limiter that forgets levels lets 16,500 through.
func TestABusyBucketReturnsNearlyAllThatRequestsDidNotNeed(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	limit := limits.TokenBucket(limits.PerMinute(60_000), 60_000)
	random := rand.New(rand.NewPCG(3, 4))
	var running endings
	const minutes = 30
	used := int64(0)
	for end := now.Add(minutes * time.Minute); now.Before(end); now = now.Add(250 * time.Millisecond) {
		for len(running) > 0 && !running[0].at.After(now) {
			e := heap.Pop(&running).(ending)
			at := now
			now = e.at
			asking.Settle(t, store, e.Ending)
			now = at
		}
		charge := backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 4000, Lasts: 20 * time.Second}
		out := make([]limits.Decision, 1)
		if err := store.Take(t.Context(), []backends.Charge{charge}, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Allowed {
			used += 1000
			heap.Push(&running, ending{now.Add(5*time.Second + time.Duration(random.Int64N(10_000))*time.Millisecond),
				backends.Ending{
					Scope: "s", Key: "k", Limit: limit, Taken: 4000, Final: 1000, Ticket: out[0].Ticket, Lasts: charge.Lasts,
				}})
		}
	}
	t.Logf("%d a minute", used/minutes)
	if used/minutes < 55_000 || used/minutes > 62_000 {
		t.Errorf("%d of 60,000 a minute are used, want at least 55,000", used/minutes)
	}
}

type ending struct {
	at time.Time
	backends.Ending
}

type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// Whoever queues behind is told when its turn is, whether its own charge has an end or not,
// and also at the instant of the taking before.
func TestAQueueReturnsNothingOnceARequestWithoutAnEndIsBehind(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	charge := backends.Charge{Scope: "s", Key: "k", Limit: limits.LeakyQueue(limits.PerMinute(10), 10), Cost: 3,
		Lasts: time.Minute}
	first, second := make([]limits.Decision, 1), make([]limits.Decision, 1)
	if err := store.Take(t.Context(), []backends.Charge{charge}, first); err != nil {
		t.Fatal(err)
	}
	charge.Lasts = 0
	if err := store.Take(t.Context(), []backends.Charge{charge}, second); err != nil {
		t.Fatal(err)
	}
	if second[0].Delay != 18*time.Second {
		t.Fatalf("got %+v", second[0])
	}
	ending := backends.Ending{
		Scope: "s", Key: "k", Limit: charge.Limit, Taken: 3, Ticket: first[0].Ticket, Lasts: time.Minute,
	}
	if s := asking.Settle(t, store, ending); s.Returned != 0 {
		t.Errorf("%d units are returned, and the request behind waits for them", s.Returned)
	}
}

// The nodes of the takings that are gone serve other keys.
func TestALogGoesOnAfterItsLatestTakingIsReturned(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	store := memory.MustNew(memory.Options{MaxKeys: 16, Clock: func() time.Time { return now }})
	limit := limits.SlidingLog(limits.PerMinute(10))
	take := func(key string, cost int64, after time.Duration) limits.Decision {
		t.Helper()
		now = now.Add(after)
		out := make([]limits.Decision, 1)
		if err := store.Take(t.Context(),
			[]backends.Charge{{Scope: "s", Key: key, Limit: limit, Cost: cost, Lasts: time.Second}}, out); err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	take("k", 2, 0)
	take("k", 2, time.Second)
	d := take("k", 2, time.Second)
	asking.Settle(t, store,
		backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: 2, Ticket: d.Ticket, Lasts: time.Second})
	take("other", 1, 0)
	take("other", 3, time.Second)
	if d := take("k", 1, 57*time.Second); d.Remaining != 7 { // the first has expired, the second has not
		t.Errorf("%d remain, want 7", d.Remaining)
	}
	if d := take("k", 1, time.Second); d.Remaining != 8 {
		t.Errorf("%d remain, want 8", d.Remaining)
	}
}

// A charge at the end can exceed what the next window has, and more so after a change to
// a lower limit.
func TestAWindowThatOwesSaysWhenAUnitFits(t *testing.T) {
	for _, limit := range []limits.Limit{limits.FixedWindow(limits.PerMinute(10)),
		limits.AnchoredWindow(limits.PerMinute(10))} {
		now := time.UnixMicro(1_700_000_040_000_000)
		store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
		charge := backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 10, Lasts: time.Second}
		out := make([]limits.Decision, 1)
		for _, cost := range []int64{10, 0} {
			if charge.Cost = cost; cost == 0 {
				asking.Settle(t, store,
					backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: 10, Final: 30, Ticket: out[0].Ticket})
			}
			if err := store.Take(t.Context(), []backends.Charge{charge}, out); err != nil {
				t.Fatal(err)
			}
		}
		if got := out[0].EffectiveWindow; got != 2*time.Minute {
			t.Errorf("%v: one unit fits after %v, want two minutes", limit, got)
		}
	}
}

func TestABanThatWasLoweredForgivesWhatIsAboveTwiceItsNumber(t *testing.T) {
	store := memory.MustNew(memory.Options{})
	charge := backends.Charge{Scope: "s", Key: "k", Limit: limits.Ban(limits.PerHour(100), time.Hour), Cost: 50,
		Lasts: time.Second}
	out := make([]limits.Decision, 1)
	if err := store.Take(t.Context(), []backends.Charge{charge}, out); err != nil {
		t.Fatal(err)
	}
	lower := limits.Ban(limits.PerHour(10), time.Hour)
	got := asking.Settle(t, store,
		backends.Ending{Scope: "s", Key: "k", Limit: lower, Taken: 50, Final: 55, Ticket: out[0].Ticket})
	if got.Charged != 0 || got.Forgiven != 5 {
		t.Errorf("got %+v, want 5 forgiven", got)
	}
}

func memoryAt(now *time.Time) *memory.Memory {
	*now = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	return memory.MustNew(memory.Options{Clock: func() time.Time { return *now }})
}

// The nodes of a log whose latest taking was returned were used after they were freed.
func TestALogIsWholeAfterItsLatestTakingWasReturned(t *testing.T) {
	var now time.Time
	m, limit := memoryAt(&now), limits.SlidingLog(limits.PerMinute(10))
	for range 3 {
		asking.Lasting(t, m, "k", limit, 1)
		now = now.Add(time.Second)
	}
	last := asking.Lasting(t, m, "k", limit, 2)
	asking.Settle(t, m, asking.EndingOf(last, "k", limit, 2, 0))
	for range 100 { // more keys, for nodes that were freed
		asking.Lasting(t, m, "other", limit, 1)
		now = now.Add(10 * time.Second)
		if d := asking.Lasting(t, m, "k", limit, 1); !d.Allowed {
			t.Fatalf("denied: %+v", d)
		}
	}
}

// A request that was charged before its key was reset gave away what others took since.
func TestARefundOfWhatWasResetTakesNothingFromOthers(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.FixedWindow(limits.PerHour(10)), limits.SlidingWindow(limits.PerHour(10)),
		limits.AnchoredWindow(limits.PerHour(10)),
		limits.SlidingLog(limits.PerHour(10)), limits.TokenBucket(limits.PerHour(10), 10),
		limits.LeakyQueue(limits.PerHour(10), 10),
		limits.Ban(limits.PerHour(20), time.Hour),
	} {
		var now time.Time
		m := memoryAt(&now)
		before := asking.Lasting(t, m, "k", limit, 8)
		if err := m.Reset(t.Context(), "s", "k"); err != nil {
			t.Fatal(err)
		}
		left := asking.Lasting(t, m, "k", limit, 8).Remaining
		s := asking.Settle(t, m, asking.EndingOf(before, "k", limit, 8, 0))
		if d := asking.Lasting(t, m, "k", limit, 0); d.Remaining != left || s.Returned != 0 {
			t.Errorf("%v: %d remain after a refund of what was reset, which returned %d; want %d and 0", limit.Algorithm(),
				d.Remaining, s.Returned, left)
		}
	}
}

// A leaky queue returned units with others behind them, once the level was what it had been.
func TestALeakyQueueReturnsOnlyTheLast(t *testing.T) {
	var now time.Time
	m, limit := memoryAt(&now), limits.LeakyQueue(limits.PerSecond(1), 10)
	first, second := asking.Lasting(t, m, "k", limit, 4), asking.Lasting(t, m, "k", limit, 1)
	asking.Settle(t, m, asking.EndingOf(second, "k", limit, 1, 0))
	if s := asking.Settle(t, m, asking.EndingOf(first, "k", limit, 4, 0)); s.Returned != 0 && s.Returned != 4 {
		t.Errorf("the last in the queue returns %d of 4", s.Returned)
	}
	first = asking.Lasting(t, m, "k", limit, 4)
	asking.Lasting(t, m, "k", limit, 1)
	if s := asking.Settle(t, m, asking.EndingOf(first, "k", limit, 4, 0)); s.Returned != 0 {
		t.Errorf("%d are returned with one behind", s.Returned)
	}
}

func TestTheEndOfARequestDoesNotUndoABan(t *testing.T) {
	var now time.Time
	m, ban, rate := memoryAt(&now), limits.Ban(limits.PerHour(3), time.Minute), limits.FixedWindow(limits.PerHour(10))
	failed := asking.Lasting(t, m, "k", ban, 3)
	now = now.Add(2 * time.Minute)
	asking.Settle(t, m, asking.EndingOf(failed, "k", ban, 3, 2)) // the ban is over: there is nothing to lift
	if d := asking.Lasting(t, m, "k", ban, 0); d.Remaining != 3 || d.ResetAfter != 0 {
		t.Errorf("after a ban and a late refund: %+v, want a fresh key", d)
	}
	other := asking.Lasting(t, m, "r", rate, 1)
	asking.Lasting(t, m, "r", ban, 3)
	if s := asking.Settle(t, m, asking.EndingOf(other, "r", rate, 1, 5)); s.Charged != 4 {
		t.Errorf("a charge under a rate beside a ban, which counts apart: %+v", s)
	}
	if d := asking.Lasting(t, m, "r", ban, 0); d.Allowed {
		t.Error("the end of a request under another limit has lifted a ban")
	}
	nine := asking.Lasting(t, m, "n", limits.Ban(limits.PerHour(10), time.Minute), 9)
	s := asking.Settle(t, m, asking.EndingOf(nine, "n", limits.Ban(limits.PerHour(4), time.Minute), 9, 12))
	if s.Charged != 0 || s.Forgiven != 3 {
		t.Errorf("beyond twice a lowered number: %+v, want 3 forgiven", s)
	}
}

// A shadow on a key that is banned denied the rules that are enforced.
func TestAShadowOfABannedKeyStandsInNobodysWay(t *testing.T) {
	var now time.Time
	m, ban := memoryAt(&now), limits.Ban(limits.PerHour(1), time.Hour)
	asking.Lasting(t, m, "k", ban, 1)
	charges := []backends.Charge{
		{Scope: "s", Key: "k", Limit: ban, Cost: 1, Shadow: true},
		{Scope: "rate", Key: "k", Limit: limits.FixedWindow(limits.PerHour(5)), Cost: 1},
	}
	out := make([]limits.Decision, 2)
	if err := m.Take(t.Context(), charges, out); err != nil || out[0].Allowed || !out[1].Allowed || out[1].Remaining != 4 {
		t.Errorf("%+v, %v, want the shadow denied and 4 of 5 left", out, err)
	}
}

// A key that owes a whole window waits for the end of the next.
func TestTheWindowOfADebtEndsWithIt(t *testing.T) {
	for _, limit := range []limits.Limit{limits.FixedWindow(limits.PerMinute(10)),
		limits.AnchoredWindow(limits.PerMinute(10))} {
		var now time.Time
		m := memoryAt(&now)
		asking.Settle(t, m, asking.EndingOf(asking.Lasting(t, m, "k", limit, 10), "k", limit, 10, 1000))
		for _, lasts := range []time.Duration{0, time.Minute} { // each has a path of its own
			out := make([]limits.Decision, 1)
			err := m.Take(t.Context(), []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Lasts: lasts}}, out)
			if err != nil {
				t.Fatal(err)
			}
			if d := out[0]; d.EffectiveWindow != 2*time.Minute || d.ResetAfter != 2*time.Minute {
				t.Errorf("%v, owing 10 of 10: %+v, want 2m", limit.Algorithm(), d)
			}
		}
		changed := limits.AnchoredWindow(limits.PerHour(50))
		if d := asking.Lasting(t, m, "k", changed, 0); limit.Algorithm() == changed.Algorithm() &&
			d.ResetAfter > 2*time.Hour {
			t.Errorf("under another limit: %+v", d)
		}
	}
}

// An ending may come from another process, with any length.
func TestAnEndingWithANegativeLengthIsOneWithoutLength(t *testing.T) {
	for _, lasts := range []time.Duration{-1, -time.Microsecond, -7 * time.Microsecond, -time.Second, math.MinInt64,
		math.MaxInt64} {
		now := time.UnixMicro(1_700_000_000_000_000)
		m := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
		limit := limits.TokenBucket(limits.PerMinute(10), 10)
		for range 3 {
			d := asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1})
			s := asking.Settle(t, m,
				backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: 1, Final: 2, Ticket: d.Ticket, Lasts: lasts})
			if s.Charged != 1 {
				t.Errorf("%v: %+v", lasts, s)
			}
			now = now.Add(time.Second)
		}
	}
}

func TestAConcurrencyLimitThatOwesTheMostAdmitsNoMore(t *testing.T) {
	for name, m := range map[string]interface {
		backends.Backend
		backends.Settler
	}{"exact": limitstest.NewExact(time.Now), "memory": memory.MustNew(memory.Options{})} {
		limit := limits.Concurrent(2)
		asking.Settle(t, m, backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: 0, Final: math.MaxInt64})
		if d := asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}); d.Allowed {
			t.Errorf("%s: %+v", name, d)
		}
		if d := asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}); d.Allowed {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// What a displaced key owes is not forgiven when it owes more.
func TestADisplacedKeyThatOwesMoreOwesAllOfIt(t *testing.T) {
	rate := limits.PerMinute(10)
	for _, limit := range []limits.Limit{
		limits.TokenBucket(rate, 10), limits.LeakyBucket(rate, 10), limits.LeakyQueue(rate, 10), limits.FixedWindow(rate),
		limits.AnchoredWindow(rate), limits.SlidingWindow(rate), limits.SlidingLog(rate),
	} {
		now := time.UnixMicro(1_700_000_040_000_000)
		clock := func() time.Time { return now }
		m, exact := memory.MustNew(memory.Options{MaxKeys: 1, Clock: clock}), limitstest.NewExact(clock)
		both := func(taken, final int64, ticket int64) {
			e := backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: taken, Final: final, Ticket: ticket}
			if got, want := asking.Settle(t, m, e), asking.Settle(t, exact, e); got != want {
				t.Errorf("%v: %+v, should be %+v", limit, got, want)
			}
		}
		d := asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 10})
		asking.Take(t, exact, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 10})
		both(10, 16, d.Ticket)
		long := limits.FixedWindow(limits.PerDay(1000))
		for i := range 100 {
			asking.Take(t, m, backends.Charge{Scope: fmt.Sprint(i), Key: "other", Limit: long, Cost: 1})
		}
		both(0, 1, 0)
		for range 200 {
			now = now.Add(time.Second)
			a, b := asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}), limits.Decision{}
			if a.Allowed {
				if b = asking.Take(t, exact, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1}); !b.Allowed {
					t.Errorf("%v: %+v, should be %+v", limit, a, b)
					break
				}
			}
		}
	}
}

func TestAQueueReturnsNothingOnceAShadowIsBehind(t *testing.T) {
	for _, together := range []bool{false, true} {
		now := time.UnixMicro(1_700_000_000_000_000)
		store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
		first := backends.Charge{Scope: "s", Key: "k", Limit: limits.LeakyQueue(limits.PerMinute(10), 10), Cost: 3,
			Lasts: time.Minute}
		behind := first
		behind.Lasts, behind.Shadow = 0, true
		out := make([]limits.Decision, 2)
		var err error
		if together {
			err = store.Take(t.Context(), []backends.Charge{first, behind}, out)
		} else if err = store.Take(t.Context(), []backends.Charge{first}, out[:1]); err == nil {
			other := behind
			other.Key = "other"
			both := make([]limits.Decision, 2)
			err = store.Take(t.Context(), []backends.Charge{behind, other}, both)
			out[1] = both[0]
		}
		if err != nil || out[1].Delay != 18*time.Second {
			t.Fatal(err, out)
		}
		got := asking.Settle(t, store,
			backends.Ending{Scope: "s", Key: "k", Limit: first.Limit, Taken: 3, Final: 1, Ticket: out[0].Ticket,
				Lasts: time.Minute})
		if got.Returned != 0 {
			t.Errorf("in one call: %v: %+v", together, got)
		}
	}
}

// A key that is not found may owe less than it is taken to owe. Then its next window starts with a
// taking of its own, and ends later than one that starts with the debt.
func TestAnAnchoredWindowThatIsNotFoundEndsNoSoonerForADebt(t *testing.T) {
	now := time.UnixMicro(1_700_000_040_000_000)
	clock := func() time.Time { return now }
	m, exact := memory.MustNew(memory.Options{MaxKeys: 1, Clock: clock}), limitstest.NewExact(clock)
	limit := limits.AnchoredWindow(limits.PerMinute(10))
	for i := range 20 {
		asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: limit, Cost: 10})
	}
	for _, s := range []backends.Settler{m, exact} {
		asking.Settle(t, s, backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: 0, Final: 4})
	}
	now = now.Add(90 * time.Second)
	for _, b := range []backends.Backend{m, exact} {
		asking.Allowed(t, b, "k", limit, 6)
	}
	now = now.Add(40 * time.Second)
	asking.Denied(t, exact, "k", limit, 5)
	asking.Denied(t, m, "k", limit, 5)
}
