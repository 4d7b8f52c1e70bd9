package descriptors_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/remote"
)

// distant is a backend across a network: it counts how many charges it is asked for.
type distant struct {
	*memory.Memory
	asked int
	last  backends.Charge
	fails bool
}

func (b *distant) Take(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	b.asked += len(charges)
	b.last = charges[len(charges)-1]
	if b.fails {
		return errors.New("away")
	}
	return b.Memory.Take(ctx, charges, out)
}

const overLimits = `
descriptors:
  - {key: two, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: bucket, rate_limit: {algorithm: token-bucket 2/minute}}
  - {key: ban, rate_limit: {algorithm: ban 2/10m for 1h}}
  - {key: both, rate_limits: [{unit: second, requests_per_unit: 2}, {algorithm: sliding-window 3/10s}]}
  - {key: none, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 1}}
`

// A step is a request, its answer, and for how many charges the backend is asked. Instead of a
// request it may be the time that passes, "reset" of the key that was asked for last, "elsewhere
// REQUEST" by a process of its own, "limits TEXT", "away" or "back".
type step struct {
	does, want string
	asked      int
}

func runSteps(t *testing.T, text string, steps []step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &distant{Memory: memory.MustNew(memory.Options{})}
		cache := remote.MustNewDenialCache(b, remote.DenialCacheOptions{})
		service, elsewhere := newService(t, text, cache), newService(t, text, b)
		for i, s := range steps {
			b.asked = 0
			verb, rest, _ := strings.Cut(s.does, " ")
			switch wait, err := time.ParseDuration(s.does); {
			case err == nil:
				time.Sleep(wait)
				continue
			case verb == "away" || verb == "back":
				b.fails = verb == "away"
				continue
			case verb == "reset":
				if err := cache.Reset(t.Context(), b.last.Scope, b.last.Key); err != nil {
					t.Fatal(err)
				}
				continue
			case verb == "limits":
				config, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte("domain: d\n" + rest)})
				if err != nil {
					t.Fatal(err)
				}
				service.Replace(config)
				continue
			case verb == "elsewhere":
				if got := said(elsewhere.Decide(t.Context(), ask(t, rest))); got != s.want {
					t.Fatalf("step %d, %s: %s, want %s", i, s.does, got, s.want)
				}
				continue
			}
			if got := said(service.Decide(t.Context(), ask(t, s.does))); got != s.want || b.asked != s.asked {
				t.Fatalf("step %d, %s: %s, asked for %d; want %s, %d",
					i, s.does, got, b.asked, s.want, s.asked)
			}
		}
	})
}

const full = "two=1 *2" // the bubble begins with a minute

func TestAKeyOverItsLimitAsksNoBackend(t *testing.T) {
	for name, steps := range map[string][]step{
		"until its window turns": {
			{full, "ok: 0 of 2/minute", 1},
			{"57s", "", 0},
			{"two=1", "OVER: 0 of 2/minute", 1},
			{"two=1", "OVER: 0 of 2/minute", 0},
			{"two=2", "ok: 1 of 2/minute", 1},
			{"2999999us", "", 0},
			{"two=1", "OVER: 0 of 2/minute", 0},
			{"1us", "", 0},
			{"two=1", "ok: 1 of 2/minute", 1},
		},
		"whatever it charges, but for a window that is just full": {
			{full, "ok: 0 of 2/minute", 1},
			{"two=1 +0", "ok: 0 of 2/minute", 1},
			{"two=1 +7", "OVER: 0 of 2/minute", 1},
			{"two=1 +0", "OVER: 0 of 2/minute", 0},
			{"two=1 +4000000000", "OVER: 0 of 2/minute", 0},
			{"*3 two=1", "OVER: 0 of 2/minute", 0},
		},
		"for ten seconds at most": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"9999999us", "", 0},
			{"two=1", "OVER: 0 of 2/minute", 0},
			{"1us", "", 0},
			{"two=1", "OVER: 0 of 2/minute", 1},
		},
		"while other descriptors are charged": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"two=1 ; two=2", "OVER: OVER 0 of 2/minute, ok 1 of 2/minute", 1},
			{"two=2 ; two=1", "OVER: ok 0 of 2/minute, OVER 0 of 2/minute", 1},
			{"two=1 ; two=2 ; two=1", "OVER: OVER 0 of 2/minute, OVER 0 of 2/minute, OVER 0 of 2/minute", 1},
			{"two=2 ; two=1", "OVER: OVER 0 of 2/minute, OVER 0 of 2/minute", 0},
		},
		"nor as a shadow": {
			{"shadow=1 *2", "ok: 0 of 1/minute shadow", 1},
			{"shadow=1", "ok: 0 of 1/minute shadow", 0},
			{"shadow=1 ; two=1", "ok: 0 of 1/minute shadow, 1 of 2/minute", 1},
		},
		"of a rule that is no window": {
			{"bucket=1 *2", "ok: 0 of 2/minute", 1},
			{"bucket=1", "OVER: 0 of 2/minute", 1},
			{"bucket=1", "OVER: 0 of 2/minute", 0},
			{"bucket=1 +2", "OVER: 0 of 2/minute", 1}, // it has a wait of its own
			{"bucket=1 +0", "OVER: 0 of 2/minute", 1},
			{"9s", "", 0},
			{"bucket=1", "OVER: 0 of 2/minute", 0},
			{"bucket=1 ; bucket=1 ; bucket=2", "OVER: OVER 0 of 2/minute, OVER 0 of 2/minute, ok 1 of 2/minute", 1},
			{"21s", "", 0},
			{"bucket=1", "ok: 0 of 2/minute", 1},
		},
		"while it is banned": {
			{"ban=1 +2", "ok: 0 of 2/unknown", 1},
			{"ban=1", "OVER: 0 of 2/unknown", 1},
			{"ban=1", "OVER: 0 of 2/unknown", 0},
			{"ban=1 +0", "OVER: 0 of 2/unknown", 1},
			{"ban=1 +0", "OVER: 0 of 2/unknown", 0},
		},
		"by one limit of two": {
			{"both=1 *2", "ok: 0 of 2/second", 2},
			{"both=1", "OVER: 0 of 2/second", 2},
			{"both=1", "OVER: 0 of 3/unknown", 1},
			{"both=1", "OVER: 0 of 3/unknown", 0},
			{"1s", "", 0},
			{"both=1", "OVER: 0 of 3/unknown", 1},
		},
		"of a limit of nothing": {
			{"none=1", "OVER: 0 of 0/hour", 1},
			{"none=1", "OVER: 0 of 0/hour", 0},
		},
		"until the month turns": {
			{"743h59m55s", "", 0}, // from 1 January 2000
			{"month=1 *2", "OVER: 0 of 1/month", 1},
			{"4999999us", "", 0},
			{"month=1", "OVER: 0 of 1/month", 0},
			{"1us", "", 0},
			{"month=1", "ok: 0 of 1/month", 1},
		},
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, overLimits, steps) })
	}
}

func TestADenialIsForgottenThatMayBeWrong(t *testing.T) {
	for name, steps := range map[string][]step{
		"a refund": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"two=1 -2", "ok: 1 of 2/minute", 1},
			{"two=1", "ok: 0 of 2/minute", 1},
		},
		"a refund beside a charge": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"two=1 ; two=1 -3", "OVER: OVER 0 of 2/minute, ok 1 of 2/minute", 2},
			{"two=1", "ok: 0 of 2/minute", 1},
		},
		"a refund elsewhere, for ten seconds": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"elsewhere two=1 -2", "ok: 1 of 2/minute", 0},
			{"two=1", "OVER: 0 of 2/minute", 0},
			{"10s", "", 0},
			{"two=1", "ok: 0 of 2/minute", 1},
		},
		"a reset": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"two=1", "OVER: 0 of 2/minute", 0},
			{"reset", "", 0},
			{"two=1", "ok: 1 of 2/minute", 1},
		},
		"a higher limit that comes with the request": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"two=1 !5/minute", "ok: 1 of 5/minute", 1},
			{"two=1 !4/minute", "OVER: 0 of 4/minute", 1},
			{"two=1 !4/minute", "OVER: 0 of 4/minute", 0},
			{"two=1 !3/minute", "OVER: 0 of 3/minute", 0},
			{"two=1", "OVER: 0 of 2/minute", 0},
			{"two=1 !6/minute", "ok: 0 of 6/minute", 1},
			{"two=1 !4/hour", "ok: 3 of 4/hour", 1},
		},
		"a file with a higher limit": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"bucket=1 *2", "ok: 0 of 2/minute", 1},
			{"bucket=1", "OVER: 0 of 2/minute", 1},
			{"limits " + strings.ReplaceAll(overLimits, "2", "5"), "", 0},
			{"two=1", "ok: 1 of 5/minute", 1},
			{"bucket=1", "ok: 2 of 5/minute", 1},
			{"limits " + strings.ReplaceAll(overLimits, "2", "1"), "", 0},
			{"two=1", "OVER: 0 of 1/minute", 0}, // more is used than that
			{"bucket=1", "OVER: 0 of 1/minute", 1},
		},
		"a file that has another rule in its place": {
			{"two=1 *3", "OVER: 0 of 2/minute", 1},
			{"limits " + strings.ReplaceAll(overLimits, "minute", "hour"), "", 0},
			{"two=1", "ok: 1 of 2/hour", 1},
			{"limits descriptors: [{key: one}]", "", 0},
			{"two=1", "ok: -", 0},
		},
	} {
		t.Run(name, func(t *testing.T) { runSteps(t, overLimits, steps) })
	}
}

// The fallback has not counted, so it would begin anew.
func TestAKeyOverItsLimitStaysSoWhileTheBackendFails(t *testing.T) {
	runSteps(t, overLimits, []step{
		{"two=1 *3", "OVER: 0 of 2/minute", 1},
		{"20s", "", 0}, // it would have asked anew
		{"away", "", 0},
		{"two=1", "OVER: 0 of 2/minute", 1},
		{"two=1 ; two=2", "OVER: OVER 0 of 2/minute, ok 1 of 2/minute", 2},
		{"two=1 !9/minute", "ok: 8 of 9/minute", 1},
		{"39999999us", "", 0},
		{"two=1", "OVER: 0 of 2/minute", 1},
		{"1us", "", 0},
		{"two=1", "ok: 1 of 2/minute", 1},
	})
}

func TestAllOrNothingIsDeniedByTheCacheItself(t *testing.T) {
	runSteps(t, "all_or_nothing: true"+overLimits, []step{
		{full, "ok: 0 of 2/minute", 1},
		{"two=1", "OVER: 0 of 2/minute", 1},
		{"two=1", "OVER: 0 of 2/minute", 0},
		{"two=1 +0", "OVER: 0 of 2/minute", 1},
	})
}

// The denial of one limit says nothing of the others: they are not over, nor nearly so.
func TestLimitsThatWereNotAskedSayNothing(t *testing.T) {
	runSteps(t, "all_or_nothing: true"+overLimits, []step{
		{full, "ok: 0 of 2/minute", 1},
		{"two=2 ; two=1", "OVER: ok 2 of 2/minute, OVER 0 of 2/minute", 2},
		{"two=2 ; two=1", "OVER: ok -, OVER 0 of 2/minute", 0},
		{"two=2 +0 ; two=1", "OVER: ok -, OVER 0 of 2/minute", 0},
		{"both=1 *2", "ok: 0 of 2/second", 2},
		{"1s", "", 0},
		{"both=1 *2", "OVER: 0 of 3/unknown", 2},
		{"both=1 *2", "OVER: 0 of 3/unknown", 0},
		{"two=2", "ok: 1 of 2/minute", 1},
	})
}

func TestLimitsThatWereNotAskedAreCountedAsWithin(t *testing.T) {
	b := &distant{Memory: memory.MustNew(memory.Options{})}
	service := newService(t, "all_or_nothing: true"+overLimits,
		remote.MustNewDenialCache(b, remote.DenialCacheOptions{}))
	for _, text := range []string{"two=1 *2", "two=1", "month=1 +0 ; two=1"} {
		if _, err := service.Decide(t.Context(), ask(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	const want = `requests_total d allowed backend 1
requests_total d denied backend 2
hits_total d month within 1
hits_total d two near 2
hits_total d two over 2
`
	if got := metricsOf(service); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// herald passes on what a test announces.
type herald struct{ hear func(backends.Announcement) }

func (*herald) Announce(backends.Announcement)         {}
func (h *herald) Listen(f func(backends.Announcement)) { h.hear = f }

// The clock of the server, by which windows turn, is 3 seconds behind.
func TestAnAnnouncedDenialEndsWithItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := &distant{Memory: memory.MustNew(memory.Options{})}, new(herald)
		cache := remote.MustNewDenialCache(b, remote.DenialCacheOptions{Announcer: h})
		service := newService(t, overLimits, cache)
		if _, err := service.Decide(t.Context(), ask(t, "two=1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(58 * time.Second)
		const units = 1_000_000_000
		h.hear(backends.Announcement{
			Scope: b.last.Scope, Key: b.last.Key, Limit: b.last.Limit, Cost: units, Asked: time.Now(),
			Decision: limits.Decision{Remaining: units - 3, RetryAfter: 5 * time.Second},
		})
		for _, want := range []time.Duration{5 * time.Second, 2 * time.Second} {
			a, err := service.Decide(t.Context(), ask(t, "two=1"))
			if err != nil || !a.Over || a.Statuses[0].Reset != want {
				t.Errorf("%+v, %v; want a reset after %v", a, err, want)
			}
			time.Sleep(3 * time.Second)
		}
	})
}

// In memory a charge counts whether it fits or not, as before.
func TestAMemoryIsAskedForEachCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService(t, overLimits, nil)
		for _, s := range []step{
			{"two=1 *3", "OVER: 0 of 2/minute", 0},
			{"two=1", "OVER: 0 of 2/minute", 0},
			{"two=1 -2", "ok: 0 of 2/minute", 0},
			{"two=1 !3/minute", "ok: 0 of 3/minute", 0},
		} {
			if got := said(service.Decide(t.Context(), ask(t, s.does))); got != s.want {
				t.Errorf("%s: %s, want %s", s.does, got, s.want)
			}
		}
	})
}

// Without refunds and changes of limits a service that remembers denials answers as one that does
// not. A wait that is no window's may be too short, if the key was charged less since.
func TestAnswersAreTheSameWithDenialsRemembered(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			b := &distant{Memory: memory.MustNew(memory.Options{})}
			remembers := newService(t, overLimits, remote.MustNewDenialCache(b, remote.DenialCacheOptions{}))
			asks := newService(t, overLimits, nil)
			random, charges := rand.New(rand.NewPCG(seed, 1)), 0
			for range 2000 {
				time.Sleep(time.Duration(random.ExpFloat64() * float64(400*time.Millisecond)))
				r := &descriptors.Request{Domain: "d", Hits: random.Uint64N(3)}
				for range 1 + random.IntN(3) {
					key := []string{"two", "shadow", "bucket", "ban", "none", "month"}[random.IntN(6)]
					d := descriptors.Descriptor{Entries: []descriptors.Entry{{Key: key, Value: fmt.Sprint(random.IntN(2))}}}
					if hits := random.Uint64N(4); random.IntN(3) == 0 {
						d.Hits = &hits
					}
					r.Descriptors, charges = append(r.Descriptors, d), charges+1
				}
				got, err := remembers.Decide(t.Context(), r)
				want, err2 := asks.Decide(t.Context(), r)
				if err != nil || err2 != nil || said(got, nil) != said(want, nil) {
					t.Fatalf("seed %d: %+v: %s, want %s", seed, r, said(got, err), said(want, err2))
				}
				for i := range got.Statuses {
					got, want := got.Statuses[i], want.Statuses[i]
					native := strings.Contains("bucket ban", r.Descriptors[i].Entries[0].Key)
					short := want.Over && native && got.Reset < want.Reset
					if got.Reset != want.Reset && !short {
						t.Fatalf("seed %d: %+v: resets after %v, want %v", seed, r, got.Reset, want.Reset)
					}
				}
			}
			if b.asked > charges*2/3 {
				t.Errorf("seed %d: asked for %d of %d charges", seed, b.asked, charges)
			}
		})
	}
}
