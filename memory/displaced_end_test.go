package memory_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
)

// What ends late is charged to a key that was displaced under another limit. It must not hide what the
// store remembers of the key, or lift a ban.

var day = limits.FixedWindow(limits.PerDay(10))

// displacedStore has a key k that has used 9 of 10 a day and was then displaced.
func displacedStore(t *testing.T, now *time.Time) *memory.Memory {
	t.Helper()
	*now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{MaxKeys: 1, Clock: func() time.Time { return *now }})
	ask(t, m, day, 9)
	for i := 0; m.Displaced() == 0; i++ {
		asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: day, Cost: 10})
	}
	return m
}

func ask(t *testing.T, m *memory.Memory, l limits.Limit, n int64) limits.Decision {
	t.Helper()
	return asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: n})
}

func late(t *testing.T, m *memory.Memory, l limits.Limit, taken, final, ticket int64) {
	t.Helper()
	out := make([]limits.Settlement, 1)
	if err := m.Settle(t.Context(),
		[]backends.Ending{{Scope: "s", Key: "k", Limit: l, Taken: taken, Final: final, Ticket: ticket}}, out); err != nil {
		t.Fatal(err)
	}
}

func deniedToday(t *testing.T, m *memory.Memory) {
	t.Helper()
	if d := ask(t, m, day, 2); d.Allowed {
		t.Errorf("11 of 10 a day: %+v", d)
	}
}

func TestALateEndOfABanHidesNoDisplacedUnits(t *testing.T) {
	var now time.Time
	m := displacedStore(t, &now)
	late(t, m, limits.Ban(limits.PerSecond(100), time.Second), 1, 2, 0)
	deniedToday(t, m)
}

func TestTwoLateEndsOfAnAnchoredWindowHideNoDisplacedUnits(t *testing.T) {
	var now time.Time
	m := displacedStore(t, &now)
	for range 2 {
		late(t, m, limits.AnchoredWindow(limits.PerSecond(100)), 1, 2, 0)
		now = now.Add(3 * time.Second)
	}
	deniedToday(t, m)
}

func TestATakingUnderTheFormerLimitHidesNoDisplacedUnits(t *testing.T) {
	for _, former := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(10), 10), limits.LeakyQueue(limits.PerSecond(10), 10),
		limits.SlidingWindow(limits.PerSecond(100)),
		limits.SlidingLog(limits.PerSecond(100)), limits.AnchoredWindow(limits.PerSecond(100)),
		limits.FixedWindow(limits.PerSecond(100)),
	} {
		for _, refunded := range []bool{false, true} {
			t.Run(fmt.Sprint(former, refunded), func(t *testing.T) {
				var now time.Time
				m := displacedStore(t, &now)
				late(t, m, former, 1, 2, 0)
				now = now.Add(3 * time.Second)
				if d := ask(t, m, former, 1); refunded {
					late(t, m, former, 1, 0, d.Ticket) // it has cost nothing
				}
				deniedToday(t, m)
			})
		}
	}
}

func TestAnotherLimitLiftsNoBan(t *testing.T) {
	ban, changed := limits.Ban(limits.PerMinute(10), time.Hour), limits.Ban(limits.PerMinute(11), time.Hour)
	for _, look := range []bool{false, true} {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		m := memory.MustNew(memory.Options{MaxKeys: 1, Clock: func() time.Time { return now }})
		for i := range 60 {
			asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: ban, Cost: 3})
		}
		late(t, m, ban, 1, 20, 0) // bans k
		if d := ask(t, m, ban, 1); d.Allowed || d.RetryAfter != time.Hour {
			t.Fatalf("%+v", d)
		}
		under := changed
		if look {
			_ = m.Peek(t.Context(), []backends.Charge{{Scope: "s", Key: "k", Limit: changed, Cost: 1}},
				make([]limits.Decision, 1))
			under = ban
		}
		if d := ask(t, m, under, 1); d.Allowed {
			t.Errorf("look %v: the ban of an hour is lifted: %+v", look, d)
		}
	}
}

func TestAPeekChangesNoWait(t *testing.T) {
	var now time.Time
	m := displacedStore(t, &now)
	former := limits.TokenBucket(limits.PerSecond(10), 10)
	late(t, m, former, 1, 2, 0)
	told := ask(t, m, former, 5)
	_ = m.Peek(t.Context(), []backends.Charge{{Scope: "s", Key: "k", Limit: day, Cost: 1}}, make([]limits.Decision, 1))
	now = now.Add(told.RetryAfter)
	if d := ask(t, m, former, 5); !d.Allowed {
		t.Errorf("told to wait %v; then told to wait %v", told.RetryAfter, d.RetryAfter)
	}
}

// What ends under a former limit is charged to a key that has been displaced under the present one.
// It must not hide what the store remembers of the key.
func TestWhatEndsLateGivesADisplacedKeyNoFreshBudget(t *testing.T) {
	for _, former := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(10), 10), limits.LeakyQueue(limits.PerSecond(10), 10),
		limits.SlidingWindow(limits.PerSecond(100)),
		limits.SlidingLog(limits.PerSecond(100)), limits.AnchoredWindow(limits.PerSecond(100)),
		limits.FixedWindow(limits.PerSecond(100)),
	} {
		for _, later := range []time.Duration{0, time.Second / 2, 3 * time.Second} {
			for _, together := range []bool{false, true} {
				now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
				m := memory.MustNew(memory.Options{MaxKeys: 1, Clock: func() time.Time { return now }})
				present := limits.FixedWindow(limits.PerDay(10))
				// the least of all: it is displaced first
				asking.Take(t, m, backends.Charge{Scope: "s", Key: "k", Limit: present, Cost: 9})
				for i := 0; m.Displaced() == 0; i++ {
					asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: present, Cost: 10})
				}
				settled := asking.Settle(t, m, backends.Ending{Scope: "s", Key: "k", Limit: former, Taken: 1, Final: 2})
				now = now.Add(later)
				charges := []backends.Charge{{Scope: "s", Key: "k", Limit: present, Cost: 2}}
				if together {
					charges = append(charges, backends.Charge{Scope: "s2", Key: "k", Limit: present, Cost: 1})
				}
				out := make([]limits.Decision, len(charges))
				if err := m.Take(t.Context(), charges, out); err != nil {
					t.Fatal(err)
				}
				if out[0].Allowed || out[0].RetryAfter < 11*time.Hour {
					t.Errorf("%v settled %+v: %v later %+v, want a denial until midnight", former, settled, later, out[0])
				}
			}
		}
	}
}

// In a full store, what ends late under any limit makes it admit nothing that Exact, which has seen
// all that was admitted, would not, and tell no shorter wait.
func TestAFullStoreAdmitsNoMoreThanExactWhateverEndsLate(t *testing.T) {
	seed := testrun.Seed(t)
	for round := range uint64(testrun.Sized(100, 5000)) {
		random := rand.New(rand.NewPCG(seed, round))
		now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		full := memory.MustNew(memory.Options{MaxKeys: 1 + random.IntN(20), MaxLogEntries: 1, Clock: clock})
		exact := limitstest.NewExact(clock)
		// Of an anchored window, what has ended opens it earlier, and so closes it earlier (DESIGN 5).
		present := []limits.Limit{anyLimit(random), anyLimit(random)}
		for i := range present {
			for present[i].Algorithm() == limits.AlgorithmAnchoredWindow {
				present[i] = anyLimit(random)
			}
		}
		anyCharge := func() backends.Charge {
			scope, keys := random.IntN(len(present)), 3
			if random.IntN(2) == 0 {
				keys = 60
			}
			limit := present[scope]
			return backends.Charge{Scope: fmt.Sprint(scope), Key: fmt.Sprint(random.IntN(keys)), Limit: limit,
				Cost: 1 + random.Int64N(limit.Burst())}
		}
		for range 300 {
			now = now.Add(time.Duration(random.Int64N([]int64{10, 200_000, 3_000_000}[random.IntN(3)])) * time.Microsecond)
			charges := []backends.Charge{anyCharge(), anyCharge()}[:1+random.IntN(2)]
			if random.IntN(4) == 0 {
				former := anyLimit(random)
				if random.IntN(4) == 0 {
					former = limits.Ban(limits.PerMinute(1+random.Int64N(9)), time.Minute)
				}
				asking.Settle(t, full,
					backends.Ending{Scope: charges[0].Scope, Key: charges[0].Key, Limit: former, Taken: 1,
						Final: 2 + random.Int64N(30)})
				continue
			}
			got, want := make([]limits.Decision, len(charges)), make([]limits.Decision, len(charges))
			if err := full.Take(t.Context(), charges, got); err != nil {
				t.Fatal(err)
			}
			if err := exact.Peek(t.Context(), charges, want); err != nil {
				t.Fatal(err)
			}
			admitted := true
			for i := range got {
				admitted = admitted && got[i].Allowed
				if !got[i].Allowed && got[i].RetryAfter < want[i].RetryAfter {
					t.Fatalf("round %d of seed %d: %+v is told %v, want at least %v", round, seed, charges[i], got[i].RetryAfter,
						want[i].RetryAfter)
				}
			}
			if !admitted {
				continue
			}
			for i := range want {
				if !want[i].Allowed {
					t.Fatalf("round %d of seed %d: admitted %+v, Exact says %+v", round, seed, charges, want[i])
				}
			}
			if err := exact.Take(t.Context(), charges, want); err != nil {
				t.Fatal(err)
			}
		}
	}
}
