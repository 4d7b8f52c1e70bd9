package headers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

func TestIETFFieldsOfEachDecision(t *testing.T) {
	tests := []struct {
		name     string
		decision limits.Decision
		want     []string // besides the policy
	}{
		{"half spent", allowed(50, 30*time.Second, time.Minute), []string{`RateLimit: "default";r=50;t=30`}},
		{"untouched", allowed(100, 60*time.Second, 0), []string{`RateLimit: "default";r=100;t=60`}},
		{"seconds round up", allowed(50, 29*time.Second+time.Microsecond, time.Minute),
			[]string{`RateLimit: "default";r=50;t=30`}},
		{"nothing left, yet allowed", allowed(0, 300*time.Millisecond, time.Minute),
			[]string{`RateLimit: "default";r=0;t=1`}},
		{"no window", allowed(5, 0, 0), []string{`RateLimit: "default";r=5;t=0`}},
		{"window that never ends", allowed(5, limits.Never, 0), []string{`RateLimit: "default";r=5`}},
		{"denied", denied(0, 12*time.Second, time.Minute),
			[]string{`RateLimit: "default";r=0;t=12`, "Retry-After: 12"}},
		{"denied for less than a second", denied(0, time.Microsecond, time.Minute),
			[]string{`RateLimit: "default";r=0;t=1`, "Retry-After: 1"}},
		{"denied with units left", denied(7, 12*time.Second, time.Minute),
			[]string{`RateLimit: "default";r=7;t=12`, "Retry-After: 12"}},
		{"denied for ever", denied(100, limits.Never, 0), []string{`RateLimit: "default";r=100`}},
		{"negative numbers of a faulty backend", allowed(-1, -time.Second, 0),
			[]string{`RateLimit: "default";r=0;t=0`}},
		{"huge numbers of a faulty backend", allowed(1<<62, limits.Never-1, 0),
			[]string{`RateLimit: "default";r=999999999999999;t=9223372037`}},
	}
	policies := []published{perMinute}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := written(t, headers.Options{}, policies, decided(t, policies, tt.decision))
			want(t, h, append(tt.want, `RateLimit-Policy: "default";q=100;w=60`)...)
		})
	}
}

func TestAPolicyIsItsLimitsBurstAndTheTimeThatTakes(t *testing.T) {
	tests := []struct {
		limit limits.Limit
		want  string
	}{
		{limits.FixedWindow(limits.PerMinute(100)), "q=100;w=60"},
		{limits.SlidingWindow(limits.PerDay(5000)), "q=5000;w=86400"},
		{limits.SlidingLog(limits.Per(3, 5*time.Minute)), "q=3;w=300"},
		{limits.AnchoredWindow(limits.PerHour(60)), "q=60;w=3600"},
		{limits.TokenBucket(limits.PerSecond(10), 100), "q=100;w=10"},
		{limits.TokenBucket(limits.PerMinute(100), 20), "q=20;w=12"},
		{limits.TokenBucket(limits.PerMinute(7), 20), "q=20;w=172"}, // 171.4
		{limits.LeakyBucket(limits.PerHour(1), 1), "q=1;w=3600"},
		{limits.LeakyQueue(limits.PerSecond(5), 50), "q=50;w=10"},
		{limits.FixedWindow(limits.Per(10, time.Millisecond)), "q=10;w=1"},
		{limits.TokenBucket(limits.PerSecond(1000), 1), "q=1;w=1"},
		{limits.SlidingWindow(limits.Per(1, 1500*time.Millisecond)), "q=1;w=2"},
		{limits.FixedWindow(limits.Per(1_000_000_000, 366*24*time.Hour)), "q=1000000000;w=31622400"},
		{limits.TokenBucket(limits.Per(1_000_000_000, 366*24*time.Hour), 1_000_000_000), "q=1000000000;w=31622400"},
		{limits.TokenBucket(limits.Per(1, 366*24*time.Hour), 99), "q=99;w=3130617600"},
	}
	for _, tt := range tests {
		t.Run(tt.limit.String(), func(t *testing.T) {
			for name, policy := range map[string]published{
				"fixed":       {Name: "p", Limit: tt.limit},
				"per request": {Name: "p"},
			} {
				o := decided(t, []published{{Name: "p", Limit: tt.limit}}, allowed(1, time.Second, time.Second))
				h := written(t, headers.Options{}, []published{policy}, o)
				if got, want := h.Get("RateLimit-Policy"), `"p";`+tt.want; got != want {
					t.Errorf("%s: got %s, want %s", name, got, want)
				}
			}
		})
	}
}

func TestEveryCountedRuleIsListedInOrder(t *testing.T) {
	h := written(t, headers.Options{}, threePolicies, decided(t, threePolicies,
		allowed(99, 10*time.Second, time.Second), denied(0, 30*time.Second, time.Minute),
		allowed(500, 30*time.Minute, time.Hour)))
	want(t, h,
		`RateLimit-Policy: "burst";q=100;w=10, "default";q=100;w=60, "hourly";q=1000;w=3600`,
		`RateLimit: "burst";r=99;t=10, "default";r=0;t=30, "hourly";r=500;t=1800`,
		`Retry-After: 30`,
	)
}

func TestRetryAfterIsTheLongestWaitOfTheRulesThatStoodInTheWay(t *testing.T) {
	h := written(t, headers.Options{}, threePolicies, decided(t, threePolicies,
		denied(0, 100*time.Millisecond, time.Second), denied(3, 30*time.Second, time.Minute),
		allowed(500, 30*time.Minute, time.Hour)))
	want(t, h,
		`RateLimit-Policy: "burst";q=100;w=10, "default";q=100;w=60, "hourly";q=1000;w=3600`,
		`RateLimit: "burst";r=0;t=1, "default";r=3;t=30, "hourly";r=500;t=1800`,
		`Retry-After: 30`,
	)
}

func TestOneRuleThatNeverYieldsLeavesRetryAfterOut(t *testing.T) {
	policies := []published{perMinute, perHour}
	o := decided(t, policies, denied(0, 30*time.Second, time.Minute), denied(1000, limits.Never, 0))
	h := fields("Retry-After: 5") // by whom ever: no wait helps
	writer(t, headers.Options{}, policies...).Write(h, o)
	wellFormed(t, h)
	want(t, h,
		`RateLimit-Policy: "default";q=100;w=60, "hourly";q=1000;w=3600`,
		`RateLimit: "default";r=0;t=30, "hourly";r=1000`,
	)
}

func TestADecisionThatCountedNothingIsNotListed(t *testing.T) {
	notAsked := limits.Decision{Allowed: true, Source: limits.SourceNotAsked}
	open := limits.Decision{Allowed: true, Source: limits.SourceOpen}
	cached := denied(0, 30*time.Second, time.Minute)
	cached.Source = limits.SourceDenialCache
	fallback := allowed(500, 30*time.Minute, time.Hour)
	fallback.Source = limits.SourceFallback

	want(t, written(t, headers.Options{}, threePolicies, decided(t, threePolicies, notAsked, cached, notAsked)),
		`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=0;t=30`, `Retry-After: 30`)
	want(t, written(t, headers.Options{}, threePolicies, decided(t, threePolicies, open, open, fallback)),
		`RateLimit-Policy: "hourly";q=1000;w=3600`, `RateLimit: "hourly";r=500;t=1800`)
	every := headers.Options{Formats: []headers.Format{headers.IETF, headers.Draft6, headers.GitHub}}
	want(t, written(t, every, threePolicies, decided(t, threePolicies, open, open, open)))
}

func TestARuleThatDoesNotApplyIsNotListed(t *testing.T) {
	rules := rulesOf(threePolicies...)
	rules[1].Key = core.When(func(string) bool { return false }, rules[1].Key)
	o := decidedFor(t, "client", rules, allowed(99, 10*time.Second, time.Second),
		allowed(500, 30*time.Minute, time.Hour))
	want(t, written(t, headers.Options{}, threePolicies, o),
		`RateLimit-Policy: "burst";q=100;w=10, "hourly";q=1000;w=3600`,
		`RateLimit: "burst";r=99;t=10, "hourly";r=500;t=1800`,
	)
	want(t, written(t, headers.Options{Formats: []headers.Format{headers.Draft7}}, threePolicies, o),
		"RateLimit-Policy: 100;w=10, 1000;w=3600",
		"RateLimit: limit=100, remaining=99, reset=1",
	)
}

func TestALimitFoundPerRequestIsShownAsFound(t *testing.T) {
	policies := []published{{Name: "plan"}, perHour}
	rules := rulesOf(policies...)
	rules[0].LimitFor = func(plan string, _ string) (limits.Limit, error) {
		if plan == "gold" {
			return limits.SlidingWindow(limits.PerMinute(500)), nil
		}
		return limits.SlidingWindow(limits.PerMinute(50)), nil
	}
	for plan, q := range map[string]int{"gold": 500, "bronze": 50} {
		o := decidedFor(t, plan, rules, allowed(5, 6*time.Second, time.Minute), allowed(500, 30*time.Minute, time.Hour))
		want(t, written(t, headers.Options{}, policies, o),
			fmt.Sprintf(`RateLimit-Policy: "plan";q=%d;w=60, "hourly";q=1000;w=3600`, q),
			`RateLimit: "plan";r=5;t=6, "hourly";r=500;t=1800`,
		)
	}
}

func TestAPolicyThatCountsBytesSaysSo(t *testing.T) {
	fixed := published{
		Name: "upload", Limit: limits.TokenBucket(limits.PerHour(1_000_000), 1_000_000), Unit: core.ContentBytes,
	}
	found := published{Name: "plan", Unit: core.ContentBytes}
	room := allowed(400, 6*time.Second, time.Minute)
	o := decided(t, []published{fixed, perHour}, room, room)
	want(t, written(t, headers.Options{}, []published{fixed, perHour}, o),
		`RateLimit-Policy: "upload";q=1000000;qu="content-bytes";w=3600, "hourly";q=1000;w=3600`,
		`RateLimit: "upload";r=400;t=6, "hourly";r=400;t=6`,
	)
	rules := rulesOf(found)
	rules[0].LimitFor = func(string, string) (limits.Limit, error) { return perHour.Limit, nil }
	o = decidedFor(t, "client", rules, room)
	want(t, written(t, headers.Options{}, []published{found}, o),
		`RateLimit-Policy: "plan";q=1000;qu="content-bytes";w=3600`,
		`RateLimit: "plan";r=400;t=6`,
	)
}

func TestAFallbacksShareIsShownAsWhatItIs(t *testing.T) {
	policies := []published{perMinute}
	limiter, err := core.New(core.Config[string]{Rules: rulesOf(policies...), Backend: broken{}, Instances: 4,
		Fallback: prepared{allowed(20, 48*time.Second, time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	o := limiter.Decide(context.Background(), "client")
	want(t, written(t, headers.Options{}, policies, &o), `RateLimit-Policy: "default";q=25;w=60`,
		`RateLimit: "default";r=20;t=48`)
}

func TestNamesAreEscaped(t *testing.T) {
	policies := []published{{Name: `say "hi"\ ;r=1, ~`, Limit: perMinute.Limit}}
	h := written(t, headers.Options{}, policies, decided(t, policies, allowed(50, 30*time.Second, time.Minute)))
	for _, key := range []string{"Ratelimit", "Ratelimit-Policy"} {
		list, err := httpsfv.UnmarshalList(h[key])
		if err != nil || len(list) != 1 || list[0].(httpsfv.Item).Value != policies[0].Name {
			t.Errorf("%s: %q: got %v, %v", key, h[key], list, err)
		}
	}
}

func TestAWriterMadeWithoutPoliciesWritesTheSame(t *testing.T) {
	o := decided(t, threePolicies, allowed(99, 10*time.Second, time.Second), denied(0, 30*time.Second, time.Minute),
		allowed(500, 30*time.Minute, time.Hour))
	all := []headers.Format{headers.IETF, headers.Draft6, headers.Discord}
	with := written(t, headers.Options{Formats: all}, threePolicies, o)
	for name, policies := range map[string][]published{
		"none":          nil,
		"fewer":         threePolicies[:1],
		"another order": {threePolicies[2], threePolicies[0], threePolicies[1]},
	} {
		t.Run(name, func(t *testing.T) {
			without := written(t, headers.Options{Formats: all}, policies, o)
			for key := range with {
				if with.Get(key) != without.Get(key) {
					t.Errorf("%s: got %q, want %q", key, without.Get(key), with.Get(key))
				}
			}
		})
	}
}

func TestThePartitionKeyIsADigestOnRateLimitAlone(t *testing.T) {
	policies := []published{perMinute}
	options := headers.Options{PartitionKey: headers.Digest}
	decision := allowed(50, 30*time.Second, time.Minute)
	rules := rulesOf(policies...)
	want(t, written(t, options, policies, decidedFor(t, "client", rules, decision)),
		`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=50;t=30;pk=:lI/mA/YdwDY=:`)

	t.Run("not for a request without a key", func(t *testing.T) {
		rules[0].Key = func(string) (string, error) { return "", core.ErrAbsent }
		want(t, written(t, options, policies, decidedFor(t, "client", rules, decision)),
			`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=50;t=30`)
	})
	t.Run("not if it is empty", func(t *testing.T) {
		options := headers.Options{PartitionKey: func(string) []byte { return nil }}
		want(t, written(t, options, policies, decided(t, policies, decision)),
			`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=50;t=30`)
	})
	t.Run("as long as it likes", func(t *testing.T) {
		long := make([]byte, 1000)
		options := headers.Options{PartitionKey: func(string) []byte { return long }}
		h := written(t, options, policies, decided(t, policies, decision))
		list, err := httpsfv.UnmarshalList(h["Ratelimit"])
		if err != nil {
			t.Fatal(err)
		}
		if pk, _ := list[0].(httpsfv.Item).Params.Get("pk"); string(pk.([]byte)) != string(long) {
			t.Errorf("got %v", pk)
		}
	})
}

func TestCapPaceRaisesTUntilNoPaceIsHigherThanThePolicys(t *testing.T) {
	policies := []published{{Name: "p", Limit: limits.FixedWindow(limits.Per(10000, 1000*time.Second))}}
	tests := []struct {
		name     string
		decision limits.Decision
		want     []string
	}{
		{"the draft's bad example", allowed(10000, 10*time.Second, 10*time.Second),
			[]string{`RateLimit: "p";r=10000;t=1000`}},
		{"rounded up", allowed(11, time.Second, time.Second), []string{`RateLimit: "p";r=11;t=2`}},
		{"slow enough already", allowed(10, 500*time.Second, 500*time.Second), []string{`RateLimit: "p";r=10;t=500`}},
		{"nothing left", allowed(0, 10*time.Second, 10*time.Second), []string{`RateLimit: "p";r=0;t=10`}},
		{"denied", denied(0, 10*time.Second, 10*time.Second), []string{`RateLimit: "p";r=0;t=10`, "Retry-After: 10"}},
		{"denied with units left", denied(5000, 10*time.Second, 10*time.Second),
			[]string{`RateLimit: "p";r=5000;t=500`, "Retry-After: 500"}},
		{"never", denied(5000, limits.Never, 10*time.Second), []string{`RateLimit: "p";r=5000`}},
		{"huge numbers of a faulty backend", allowed(1<<62, time.Second, 0),
			[]string{`RateLimit: "p";r=999999999999999;t=9223372036`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := written(t, headers.Options{CapPace: true}, policies, decided(t, policies, tt.decision))
			want(t, h, append(tt.want, `RateLimit-Policy: "p";q=10000;w=1000`)...)
		})
	}
}

func TestCapPaceOfAFaultyBackendIsHeldToWhatFits(t *testing.T) {
	for _, limit := range []limits.Limit{
		limits.FixedWindow(limits.Per(1, 366*24*time.Hour)), limits.FixedWindow(limits.Per(7, 366*24*time.Hour)),
		limits.FixedWindow(limits.Per(1_000_000, 366*24*time.Hour)),
	} {
		policies := []published{{Name: "p", Limit: limit}}
		for r := int64(1); r > 0; r *= 7 {
			written(t, headers.Options{CapPace: true}, policies, decided(t, policies, allowed(r, time.Second, 0)))
		}
	}
}

func TestAnErrorIsNotShown(t *testing.T) {
	rules := rulesOf(perMinute, perHour)
	rules[0].Key = func(string) (string, error) { return "", errors.New("secret") }
	rules[0].OnFailure = core.FailOpen
	o := decidedFor(t, "client", rules, allowed(500, 30*time.Minute, time.Hour))
	want(t, written(t, headers.Options{}, []published{perMinute, perHour}, o),
		`RateLimit-Policy: "hourly";q=1000;w=3600`, `RateLimit: "hourly";r=500;t=1800`)
}
