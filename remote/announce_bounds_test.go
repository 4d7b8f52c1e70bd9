package remote_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// Whoever reaches the announcer can say anything. These tests are what it is worth.

// forged returns a denial of "k" that nobody has decided.
func forged(limit limits.Limit, cost int64, wait time.Duration) backends.Announcement {
	return backends.Announcement{
		Scope: "s", Key: "k", Limit: limit, Cost: cost, Asked: time.Now(),
		Decision: limits.Decision{RetryAfter: wait, ResetAfter: wait, EffectiveWindow: wait, At: time.Now().UnixMicro()},
	}
}

func TestADenialThatItsLimitCannotCauseIsNotBelieved(t *testing.T) {
	rate := limits.PerMinute(5)
	for _, test := range []struct {
		limit   limits.Limit
		cost    int64
		longest time.Duration // with a debt, and a clock that has stepped back
	}{
		{limits.TokenBucket(rate, 10), 1, 5 * time.Minute},
		{limits.LeakyBucket(rate, 10), 1, 5 * time.Minute},
		{limits.LeakyQueue(rate, 10), 1, 5 * time.Minute},
		{limits.FixedWindow(rate), 1, 3 * time.Minute},
		{limits.SlidingWindow(rate), 5, 3 * time.Minute},
		{limits.AnchoredWindow(rate), 1, 3 * time.Minute},
		{limits.SlidingLog(rate), 1, 3 * time.Minute},
		{limits.Ban(rate, time.Hour), 1, time.Hour + 3*time.Minute},
		{limits.Ban(rate, time.Hour), 1_000, time.Hour + 3*time.Minute},
		{limits.Ban(rate, time.Hour), 0, time.Hour + 3*time.Minute},
		{limits.TokenBucket(rate, 10), 11, 0},
		{limits.SlidingLog(rate), 6, 0},
	} {
		for _, wait := range []time.Duration{
			1, time.Minute, test.longest, test.longest + time.Microsecond, 95 * 366 * 24 * time.Hour, limits.Never,
		} {
			synctest.Test(t, func(t *testing.T) {
				c := remote.MustNewDenialCache(memory.MustNew(memory.Options{}), remote.DenialCacheOptions{})
				remote.Hear(c, forged(test.limit, test.cost, wait))
				d := asking.Take(t, c, backends.Charge{Scope: "s", Key: "k", Limit: test.limit, Cost: test.cost})
				if heard := d.Source == limits.SourceDenialCache; heard != (wait >= time.Microsecond && wait <= test.longest) {
					t.Errorf("%v, cost %d, a wait of %v: %+v", test.limit, test.cost, wait, d)
				}
			})
		}
	}
}

// The clock of the backend steps back, and requests end that cost more than they took.
func TestEveryDenialThatALimitCausesIsBelieved(t *testing.T) {
	seed, denials := testrun.Seed(t), 0
	for round := range uint64(testrun.Sized(200, 5_000)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, round))
			limit := anyLimit(random)
			if random.IntN(8) == 0 {
				limit = limits.Ban(limit.Rate(), time.Duration(1+random.Int64N(10_000))*time.Millisecond)
			}
			skew := time.Duration(0)
			inner := memory.MustNew(memory.Options{Clock: func() time.Time { return time.Now().Add(skew) }})
			cost := 1 + random.Int64N(limit.Burst())
			for range 50 {
				time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
				if random.IntN(5) == 0 {
					skew = -time.Duration(random.Int64N(int64(3 * limit.Rate().Period)))
				}
				d := asking.Take(t, inner, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: cost})
				if d.Allowed {
					if random.IntN(2) == 0 {
						asking.Settle(
							t, inner,
							backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: cost, Final: random.Int64N(1_000), Ticket: d.Ticket},
						)
					}
					continue
				}
				denials++
				other := remote.MustNewDenialCache(memory.MustNew(memory.Options{}), remote.DenialCacheOptions{})
				remote.Hear(
					other, backends.Announcement{Scope: "s", Key: "k", Limit: limit, Cost: cost, Asked: time.Now(), Decision: d},
				)
				d.Source, d.At = limits.SourceDenialCache, time.Now().UnixMicro()
				if heard := asking.Take(t, other, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: cost}); heard != d {
					t.Fatalf("round %d: %v, cost %d: announced %+v\nheard     %+v", round, limit, cost, d, heard)
				}
			}
		})
	}
	if denials < 1_000 {
		t.Errorf("%d denials, want more", denials)
	}
}

func TestTheNumbersOfAnAnnouncedDenialAreThoseOfItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := remote.MustNewDenialCache(memory.MustNew(memory.Options{}), remote.DenialCacheOptions{})
		limit := limits.FixedWindow(limits.PerMinute(5))
		now := time.Now()
		for _, at := range []int64{
			math.MinInt64, -1, now.Add(-25 * time.Hour).UnixMicro(), now.Add(25 * time.Hour).UnixMicro(), 9e15,
			math.MaxInt64,
		} {
			for _, other := range []int64{math.MinInt64, -1, math.MaxInt64} {
				what := forged(limit, 3, time.Minute)
				what.Decision.At, what.Decision.Remaining = at, other
				forged, wait := &what.Decision, time.Duration(other)
				forged.ResetAfter, forged.EffectiveWindow, forged.Delay = wait, wait, wait
				what.Decision.Ticket = other
				remote.Hear(c, what)
				d := asking.Take(t, c, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 3})
				if d.Source != limits.SourceDenialCache || d.At != now.UnixMicro() || d.Remaining < 0 || d.Remaining > 2 ||
					d.ResetAfter < 0 || d.ResetAfter > 3*time.Minute || d.EffectiveWindow != time.Minute || d.Delay != 0 ||
					d.Ticket != 0 {
					t.Errorf("at %d, else %d: %+v", at, other, d)
				}
			}
		}
	})
}

func TestAShorterDenialThatIsHeardErasesNoLongerOne(t *testing.T) {
	limit := limits.Ban(limits.PerMinute(1), time.Hour)
	for name, test := range map[string]struct {
		begin    func(t *testing.T, c *remote.DenialCache)
		believed time.Duration // while the inner backend fails
	}{
		"of its own": {func(t *testing.T, c *remote.DenialCache) {
			asking.Allowed(t, c, "k", limit, 1)
			asking.Denied(t, c, "k", limit, 1)
		}, time.Hour},
		"of another": {
			func(_ *testing.T, c *remote.DenialCache) { remote.Hear(c, forged(limit, 1, time.Hour)) }, 10 * time.Second,
		},
	} {
		for _, short := range []time.Duration{time.Microsecond, time.Second, 30 * time.Minute} {
			t.Run(fmt.Sprint(name, short), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inner := &faltering{counted: counted{Memory: memory.MustNew(memory.Options{})}}
					c := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{})
					test.begin(t, c)
					began := time.Now()
					inner.err = errBroken
					for time.Since(began) < test.believed {
						remote.Hear(c, forged(limit, 1, min(short, (time.Hour-time.Since(began))/2)))
						d := asking.Take(t, c, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1})
						if d.RetryAfter != time.Hour-time.Since(began) {
							t.Fatalf("after %v: %+v", time.Since(began), d)
						}
						time.Sleep(test.believed / 50)
					}
				})
			})
		}
	}
}

// The message of a later denial by the same ban may be quicker than that of the first. It says the
// same, so the denial is believed on, until the end that it had.
func TestADenialThatIsAnnouncedAgainIsBelievedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counted{Memory: memory.MustNew(memory.Options{})}
		c := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{})
		limit := limits.Ban(limits.PerMinute(2), time.Minute)
		began := time.Now()
		remote.Hear(c, forged(limit, 1, time.Minute))
		for time.Since(began) < time.Minute {
			d := asking.Take(t, c, backends.Charge{Scope: "s", Key: "k", Limit: limit, Cost: 1})
			if d.Source != limits.SourceDenialCache || d.RetryAfter != time.Minute-time.Since(began) {
				t.Fatalf("after %v: %+v", time.Since(began), d)
			}
			time.Sleep(5 * time.Second)
			remote.Hear(c, forged(limit, 1, time.Minute-time.Since(began)-300*time.Millisecond))
		}
		inner.askedTimes(t, 0)
		asking.Allowed(t, c, "k", limit, 1)
	})
}

// What others say is believed for MaxAge, even if the backend fails, or has denied the key before.
func TestADenialOfAnotherProcessIsBelievedForMaxAge(t *testing.T) {
	limit := limits.Ban(limits.PerMinute(2), time.Hour)
	synctest.Test(t, func(t *testing.T) {
		inner := &faltering{counted: counted{Memory: memory.MustNew(memory.Options{})}}
		c := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{})
		remote.Hear(c, forged(limit, 1, time.Hour))
		time.Sleep(10*time.Second - time.Microsecond)
		asking.Denied(t, c, "k", limit, 1)
		time.Sleep(time.Microsecond)
		inner.err = errBroken
		gives(t, c, "k", limit, 1, errBroken)
		inner.err = nil
		asking.Allowed(t, c, "k", limit, 1)
	})
	outage(t, aDay, func(t *testing.T, inner *faltering, c *remote.DenialCache) {
		time.Sleep(time.Minute)
		inner.asked = 0
		remote.Hear(c, forged(aDay, 1, 24*time.Hour-time.Minute))
		asking.Denied(t, c, "k", aDay, 1)
		time.Sleep(9 * time.Second)
		asking.Denied(t, c, "k", aDay, 1)
		inner.askedTimes(t, 0)
		time.Sleep(time.Second)
		asking.Denied(t, c, "k", aDay, 1)
		inner.askedTimes(t, 1)
	})
}

// A reset elsewhere is seen by MaxAge, although denials go on there.
func TestALongDenialIsForgottenByMaxAgeWhileShorterOnesAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counted{Memory: memory.MustNew(memory.Options{})}
		c := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{})
		limit := limits.SlidingLog(limits.PerHour(2))
		remote.Hear(c, forged(limit, 1, time.Hour))
		for range 9 {
			time.Sleep(time.Second)
			remote.Hear(c, forged(limit, 1, time.Minute))
			asking.Denied(t, c, "k", limit, 1)
		}
		time.Sleep(time.Second)
		asking.Allowed(t, c, "k", limit, 1)
		remote.Hear(c, forged(limit, 1, time.Minute))
		asking.Denied(t, c, "k", limit, 1)
		inner.askedTimes(t, 1)
	})
}

func TestWhatIsHeardTakesNoPlaceOfWhatThisProcessHasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counted{Memory: memory.MustNew(memory.Options{})}
		c := remote.MustNewDenialCache(inner, remote.DenialCacheOptions{MaxEntries: 4})
		limit := limits.Ban(limits.PerMinute(1), time.Hour)
		flood := func() {
			for i := range 1_000 {
				what := forged(limit, 1, time.Hour)
				what.Key = fmt.Sprint("forged", i)
				remote.Hear(c, what)
			}
		}
		flood()
		for _, key := range []string{"a", "b", "c", "d"} {
			asking.Allowed(t, c, key, limit, 1)
			asking.Denied(t, c, key, limit, 1)
		}
		inner.asked = 0
		flood()
		for range 9 {
			for _, key := range []string{"a", "b", "c", "d"} {
				asking.Denied(t, c, key, limit, 1)
			}
			inner.askedTimes(t, 0)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		flood() // those of its own are too old, and have room
		asking.Denied(t, c, "forged999", limit, 1)
		inner.askedTimes(t, 0)
	})
}

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
