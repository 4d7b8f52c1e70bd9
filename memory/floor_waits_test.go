package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// anyLimit returns a limit of any algorithm, which is fresh within minutes.
func anyLimit(random *rand.Rand) limits.Limit {
	rate := limits.Per(1+random.Int64N(20), time.Duration(1+random.Int64N(10_000))*time.Millisecond)
	choices := []limits.Limit{
		limits.TokenBucket(rate, 1+random.Int64N(30)), limits.LeakyBucket(rate, 1+random.Int64N(30)),
		limits.LeakyQueue(rate, 1+random.Int64N(30)),
		limits.FixedWindow(rate), limits.SlidingWindow(rate), limits.AnchoredWindow(rate), limits.SlidingLog(rate),
	}
	return choices[random.IntN(len(choices))]
}

// A key that is not found starts from what was displaced under every limit of its
// scope. The waits that it is told are those that work, as they are for a key that
// is found.
func TestTheWaitsOfAKeyThatWasDisplacedWork(t *testing.T) {
	for _, test := range []struct {
		name    string
		choices int
	}{
		{"one limit", 1},
		{"four limits", 4},
		{"more limits than a summary has steps", 60},
	} {
		t.Run(test.name, func(t *testing.T) {
			seed := testrun.Seed(t)
			for round := range uint64(40) {
				random := rand.New(rand.NewPCG(seed, round))
				now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
				m := memory.MustNew(memory.Options{MaxKeys: 1 + random.IntN(20), Clock: func() time.Time { return now }})
				var choices []limits.Limit
				for range test.choices {
					choices = append(choices, anyLimit(random))
				}
				for i := range 400 {
					now = now.Add(time.Duration(random.Int64N(200_000)) * time.Microsecond)
					limit, key := choices[random.IntN(len(choices))], fmt.Sprint(random.IntN(100))
					cost := 1 + random.Int64N(limit.Burst())
					d := asking.Take(t, m, backends.Charge{Scope: "s", Key: key, Limit: limit, Cost: cost})
					if d.Allowed {
						continue
					}
					look := func(wait time.Duration, cost int64) limits.Decision {
						now = now.Add(wait)
						out := make([]limits.Decision, 1)
						if err := m.Peek(t.Context(), []backends.Charge{{Scope: "s", Key: key, Limit: limit, Cost: cost}},
							out); err != nil {
							t.Fatal(err)
						}
						return out[0]
					}
					switch random.IntN(10) {
					case 0:
						if then := look(d.RetryAfter, cost); !then.Allowed {
							t.Fatalf("round %d, step %d: %v denies %d: %+v\nand after RetryAfter %+v", round, i, limit, cost, d, then)
						}
					case 1:
						if then := look(d.ResetAfter, 0); then.Remaining != limit.Burst() || then.ResetAfter != 0 {
							t.Fatalf("round %d, step %d: %v denies %d: %+v\nand after ResetAfter %+v", round, i, limit, cost, d, then)
						}
					}
				}
			}
		})
	}
}

func TestAChangedLimitAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	choices := []limits.Limit{
		limits.TokenBucket(limits.PerMinute(100), 100), limits.SlidingWindow(limits.PerMinute(50)),
		limits.AnchoredWindow(limits.PerDay(30)), limits.FixedWindow(limits.PerDay(7)),
	}
	charges, out := []backends.Charge{{Scope: "s", Cost: 1}}, make([]limits.Decision, 1)
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	for name, keys := range map[string][]string{"of a key": keys[:1], "of keys of a full store": keys} {
		m := memory.MustNew(memory.Options{MaxKeys: 1000})
		next := 0
		take := func() {
			charges[0].Key, charges[0].Limit = keys[next%len(keys)], choices[next%len(choices)]
			next++
			if err := m.Take(context.Background(), charges, out); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 * len(keys) {
			take()
		}
		if n := testing.AllocsPerRun(500, func() {
			for range 16 {
				take()
			}
		}); n != 0 {
			t.Errorf("%v allocations for 16 charges, under limits in turn, %s", n, name)
		}
	}
}

// Units that are held, and the limit of a ban, take no part in the summary of what was
// displaced: held units stay, and nobody inherits a ban.
func TestWhatIsHeldIsNotDisplacedAndBansAreNotInherited(t *testing.T) {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{MaxKeys: 4, Clock: func() time.Time { return now }})
	held, ban := limits.Concurrent(2), limits.Ban(limits.PerHour(3), 24*time.Hour)
	asking.Take(t, m, backends.Charge{Scope: "held", Key: "k", Limit: held, Cost: 2})
	for i := range 200 {
		if d := asking.Take(t, m, backends.Charge{Scope: "ban", Key: fmt.Sprint(i), Limit: ban, Cost: 3}); !d.Allowed {
			t.Fatalf("key %d inherits a ban: %+v", i, d)
		}
	}
	if d := asking.Take(t, m, backends.Charge{Scope: "held", Key: "k", Limit: held, Cost: 1}); d.Allowed {
		t.Errorf("more than 2 are held after 200 new keys: %+v", d)
	}
}

// What others have used denies a key for the rest of their period at most. Only its own units ban
// it: a flood of keys would otherwise ban every newcomer at its first mistake.
func TestAFloodOfKeysBansNoNewcomer(t *testing.T) {
	const number, period, lasts = 10, 10 * time.Minute, time.Hour
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	begun := now
	m := memory.MustNew(memory.Options{MaxKeys: 1 << 13, Clock: func() time.Time { return now }})
	ban := limits.Ban(limits.Per(number, period), lasts)
	flood := func() {
		for i := range 3 << 13 {
			asking.Take(t, m, backends.Charge{Scope: "log-in", Key: fmt.Sprint(now, i), Limit: ban, Cost: number})
		}
	}
	flood()
	denied := 0
	for i := range 1000 {
		key := fmt.Sprint("newcomer ", i)
		now = begun.Add(time.Duration(i) * time.Millisecond)
		if d := asking.Take(t, m, backends.Charge{Scope: "log-in", Key: key, Limit: ban, Cost: 1}); !d.Allowed {
			t.Fatalf("%s is denied at its first request: %+v", key, d)
		}
		d := asking.Take(t, m, backends.Charge{Scope: "log-in", Key: key, Limit: ban, Cost: 1})
		if !d.Allowed {
			denied++
		}
		if d.RetryAfter > period || d.ResetAfter > period {
			t.Fatalf("%s is banned: %+v", key, d)
		}
	}
	if denied == 0 {
		t.Error("nobody inherits anything: the test shows nothing")
	}
	now = begun.Add(period + time.Second)
	for i := range number {
		d := asking.Take(t, m, backends.Charge{Scope: "log-in", Key: "newcomer 7", Limit: ban, Cost: 1})
		if !d.Allowed || i == number-1 && d.ResetAfter != lasts {
			t.Errorf("unit %d of its own: %+v", i, d)
		}
	}
	flood()
	asking.Take(t, m, backends.Charge{Scope: "log-in", Key: "another", Limit: ban, Cost: 1})
	if d := asking.Take(t, m, backends.Charge{Scope: "log-in", Key: "another", Limit: ban, Cost: number}); d.Allowed ||
		d.RetryAfter > period {
		t.Errorf("another is denied by what others have used: %+v", d)
	}
}

// A newcomer's own period begins with its own units, not with those of others.
func TestAFloodOfKeysGivesNoNewcomerTwoPeriods(t *testing.T) {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{MaxKeys: 8, Clock: func() time.Time { return now }})
	ban := limits.Ban(limits.PerMinute(10), time.Hour)
	for i := range 49 {
		asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: ban, Cost: 1})
	}
	now = now.Add(59 * time.Second)
	admitted := 0
	for i := range 28 {
		if i == 8 {
			now = now.Add(2 * time.Second)
		}
		if asking.Take(t, m, backends.Charge{Scope: "s", Key: "ann", Limit: ban, Cost: 1}).Allowed {
			admitted++
		}
	}
	if admitted > 10 {
		t.Errorf("%d are admitted within 2 s, of 10 a minute", admitted)
	}
}

// A ban by more than the number stays, though a part of it is returned, whoever knows of the rest.
func TestARefundLiftsNoBanByWhatWasDisplaced(t *testing.T) {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	m := memory.MustNew(memory.Options{MaxKeys: 8, Clock: func() time.Time { return now }})
	ban := limits.Ban(limits.PerHour(10), time.Hour)
	asking.Take(t, m, backends.Charge{Scope: "s", Key: "ann", Limit: ban, Cost: 9})
	for i := range 200 { // ann is displaced
		asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: ban, Cost: 9})
	}
	d := asking.Take(t, m, backends.Charge{Scope: "s", Key: "ann", Limit: ban, Cost: 10})
	refund(t, m, "ann", ban, 10, 5, d.Ticket)
	if d := asking.Take(t, m, backends.Charge{Scope: "s", Key: "ann", Limit: ban, Cost: 1}); d.Allowed {
		t.Errorf("the ban is lifted at 14 of 10: %+v", d)
	}
}

// A key in a full store that gets units back has more left by as many, not what displaced keys have left.
func TestARefundInAFullStoreComesBack(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerHour(10), 10), limits.LeakyQueue(limits.PerHour(10), 10),
		limits.FixedWindow(limits.PerHour(10)),
		limits.SlidingWindow(limits.PerHour(10)), limits.AnchoredWindow(limits.PerHour(10)),
		limits.SlidingLog(limits.PerHour(10)),
		limits.Ban(limits.PerHour(11), time.Hour),
	} {
		now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
		m := memory.MustNew(memory.Options{MaxKeys: 1, Clock: func() time.Time { return now }})
		d := asking.Take(t, m, backends.Charge{Scope: "s", Key: "ann", Limit: limit, Cost: 10})
		for i := range 12 {
			asking.Take(t, m, backends.Charge{Scope: "s", Key: fmt.Sprint(i), Limit: limit, Cost: 8})
		}
		before := asking.Take(t, m, backends.Charge{Scope: "s", Key: "ann", Limit: limit, Cost: 0}).Remaining
		s := refund(t, m, "ann", limit, 10, 0, d.Ticket)
		after := asking.Take(t, m, backends.Charge{Scope: "s", Key: "ann", Limit: limit, Cost: 0}).Remaining
		if after-before != s.Returned {
			t.Errorf("%v: %d more remain, and %d are returned", limit, after-before, s.Returned)
		}
	}
}

func refund(t *testing.T, m *memory.Memory, key string, limit limits.Limit, taken, final,
	ticket int64) limits.Settlement {
	t.Helper()
	out := make([]limits.Settlement, 1)
	ending := backends.Ending{Scope: "s", Key: key, Limit: limit, Taken: taken, Final: final, Ticket: ticket}
	if err := m.Settle(t.Context(), []backends.Ending{ending}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// A key that was displaced under one ban, and is not found under another with a longer
// period, is fresh when it would be if it had not been displaced.
func TestWhatADisplacedBanCountedEndsWithItsOwnPeriod(t *testing.T) {
	for _, test := range []struct {
		name      string
		displaced []limits.Limit
		reset     time.Duration
	}{
		{"one ban", []limits.Limit{limits.Ban(limits.PerMinute(10), time.Hour)}, time.Minute},
		{"two bans",
			[]limits.Limit{limits.Ban(limits.Per(10, 2*time.Minute), time.Hour), limits.Ban(limits.PerMinute(10), time.Hour)},
			2 * time.Minute},
		{"a longer period", []limits.Limit{limits.Ban(limits.PerDay(10), time.Hour)}, 24 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
			m := memory.MustNew(memory.Options{MaxKeys: 4, Clock: func() time.Time { return now }})
			for i := range 200 {
				asking.Take(t, m, backends.Charge{Scope: "ban", Key: fmt.Sprint(i), Limit: test.displaced[i%len(test.displaced)],
					Cost: 2})
			}
			ban := limits.Ban(limits.PerHour(20), time.Hour) // 9 units are inherited: one less than 10
			look := func(remaining int64, reset time.Duration) {
				t.Helper()
				d := asking.Take(t, m, backends.Charge{Scope: "ban", Key: "new", Limit: ban, Cost: 0})
				if d.Remaining != remaining || d.ResetAfter != reset {
					t.Errorf("remaining %d, reset after %v, want %d, %v", d.Remaining, d.ResetAfter, remaining, reset)
				}
			}
			look(11, test.reset)
			now = now.Add(test.reset - time.Microsecond)
			look(11, time.Microsecond)
			now = now.Add(time.Microsecond)
			look(20, 0)
		})
	}
}
