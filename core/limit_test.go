package core_test

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

func TestEveryIllegalLimitIsRefusedByNameValueAndRange(t *testing.T) {
	for _, tt := range []struct {
		limit core.Limit
		want  []string // substrings of the error
	}{
		{core.Limit{}, []string{"not set", "SlidingWindow"}},
		{core.TokenBucket(core.PerSecond(0), 1), []string{"units", "1 to 1000000000", "got 0"}},
		{core.TokenBucket(core.PerSecond(-1), 1), []string{"units", "got -1"}},
		{core.FixedWindow(core.PerSecond(1_000_000_001)), []string{"units", "got 1000000001"}},
		{core.Concurrent(0), []string{"a concurrency limit must be 1 to 100000", "got 0"}},
		{core.Concurrent(100_001), []string{"got 100001"}},
		{core.Ban(core.PerMinute(0), time.Hour), []string{"units of a ban", "got 0"}},
		{core.Ban(core.PerMinute(5), 999*time.Microsecond), []string{"a ban must last 1ms to 8784h", "got 999µs"}},
		{core.Ban(core.PerMinute(5), 367*24*time.Hour), []string{"a ban must last"}},
		{core.Ban(core.PerMinute(5), time.Second+time.Nanosecond), []string{"a ban must last", "whole microseconds"}},
		{core.AnchoredWindow(core.PerSecond(1_000_000_001)), []string{"units of an anchored-window", "got 1000000001"}},
		{core.SlidingLog(core.PerDay(10_001)), []string{"sliding-log", "1 to 10000", "got 10001"}},
		{core.SlidingWindow(core.Per(1, 0)), []string{"period must be positive", "got 0s"}},
		{core.SlidingWindow(core.Per(1, -time.Second)), []string{"period must be positive", "got -1s"}},
		{core.SlidingWindow(core.Per(1, 999*time.Microsecond)), []string{"1ms to 8784h", "got 999µs"}},
		{core.SlidingWindow(core.Per(1, 367*24*time.Hour)), []string{"1ms to 8784h", "got 8808h0m0s"}},
		{core.SlidingWindow(core.Per(1, time.Second+time.Nanosecond)), []string{"whole number of microseconds", "got 1.000000001s"}},
		{core.TokenBucket(core.PerSecond(1), 0), []string{"burst", "1 to 1000000000", "got 0"}},
		{core.LeakyBucket(core.PerSecond(1), -5), []string{"burst", "got -5"}},
		{core.LeakyQueue(core.PerSecond(1), 1_000_000_001), []string{"burst", "got 1000000001"}},
		{core.TokenBucket(core.Per(1, 366*24*time.Hour), 100), []string{"a burst of 100 at 1 per 366d takes over 100 years"}},
		{core.TokenBucket(core.Per(1, 366*24*time.Hour), 1_000_000_000), []string{"100 years"}},
		{core.TokenBucket(core.Per(0, 0), 0), []string{"units", "period", "burst"}},
	} {
		err := tt.limit.Validate()
		if err == nil {
			t.Errorf("%v is legal, want an error", tt.limit)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: error %q does not say %q", tt.limit, err, want)
			}
		}
	}
}

func TestTheExtremesAreLegal(t *testing.T) {
	for _, limit := range []core.Limit{
		core.FixedWindow(core.Per(1, time.Millisecond)),
		core.FixedWindow(core.Per(1_000_000_000, time.Millisecond)),
		core.SlidingWindow(core.Per(1_000_000_000, 366*24*time.Hour)),
		core.SlidingLog(core.Per(10_000, 366*24*time.Hour)),
		core.AnchoredWindow(core.Per(1_000_000_000, 366*24*time.Hour)),
		core.Concurrent(1),
		core.Concurrent(100_000),
		core.Ban(core.Per(1, time.Millisecond), time.Millisecond),
		core.Ban(core.Per(1_000_000_000, 366*24*time.Hour), 366*24*time.Hour),
		core.TokenBucket(core.Per(1_000_000_000, time.Millisecond), 1_000_000_000),
		core.TokenBucket(core.Per(1, 365*24*time.Hour), 100),
		core.LeakyQueue(core.Per(1_000_000_000, 366*24*time.Hour), 1_000_000_000),
	} {
		if err := limit.Validate(); err != nil {
			t.Errorf("%v: %v", limit, err)
		}
	}
}

func TestParseLimitReadsWhatPeopleWrite(t *testing.T) {
	for _, tt := range []struct {
		text string
		want core.Limit
	}{
		{"100/minute", core.SlidingWindow(core.PerMinute(100))},
		{"100 per hour", core.SlidingWindow(core.PerHour(100))},
		{"5/10s", core.SlidingWindow(core.Per(5, 10*time.Second))},
		{" 5 / s ", core.SlidingWindow(core.PerSecond(5))},
		{"5/ Second", core.SlidingWindow(core.PerSecond(5))},
		{"5 PER S", core.SlidingWindow(core.PerSecond(5))},
		{"1000/d", core.SlidingWindow(core.PerDay(1000))},
		{"1000/7d", core.SlidingWindow(core.Per(1000, 7*24*time.Hour))},
		{"20/1m30s", core.SlidingWindow(core.Per(20, 90*time.Second))},
		{"token-bucket 100/1m burst 20", core.TokenBucket(core.PerMinute(100), 20)},
		{"token-bucket 100/1m", core.TokenBucket(core.PerMinute(100), 100)},
		{"Token-Bucket 100 per minute burst 20", core.TokenBucket(core.PerMinute(100), 20)},
		{"leaky-bucket 10/s capacity 5", core.LeakyBucket(core.PerSecond(10), 5)},
		{"leaky-queue 10/s burst 5", core.LeakyQueue(core.PerSecond(10), 5)},
		{"fixed-window 1000/day", core.FixedWindow(core.PerDay(1000))},
		{"sliding-window 1/1ms", core.SlidingWindow(core.Per(1, time.Millisecond))},
		{"sliding-log 3/5m", core.SlidingLog(core.Per(3, 5*time.Minute))},
		{"concurrent 20", core.Concurrent(20)},
		{"ban 10/10m for 1h", core.Ban(core.Per(10, 10*time.Minute), time.Hour)},
		{"anchored-window 60/hour", core.AnchoredWindow(core.PerHour(60))},
	} {
		got, err := core.ParseLimit(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseLimit(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
	}
}

func TestParseLimitSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "want [algorithm]"},
		{"100", "want [algorithm]"},
		{"100/", "want [algorithm]"},
		{"100/fortnight", `"fortnight" is not a period`},
		{"many/minute", `unknown algorithm "many"`},
		{"1.5/minute", `"1.5" is not a whole number`},
		{"token-bukket 1/s", `unknown algorithm "token-bukket"`},
		{"100/minute burst 20", "sliding-window has no burst"},
		{"token-bucket 100/minute burst", "want [algorithm]"},
		{"token-bucket 100/minute burst lots", `"lots" is not a whole number`},
		{"0/minute", "got 0"},
		{"-1/minute", "got -1"},
		{"99999999999999999999/minute", "must be 1 to 1000000000 (got 99999999999999999999)"},
		{"1/-1s", "got -1s"},
		{"sliding-log 10001/day", "1 to 10000"},
		{"1 2 3 4/s", "want [algorithm]"},
	} {
		got, err := core.ParseLimit(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) || got != (core.Limit{}) {
			t.Errorf("ParseLimit(%q) = %v, %v, want an error with %q", tt.text, got, err, tt.want)
		}
	}
}

func TestALimitLivesInJSON(t *testing.T) {
	var config struct{ Limits map[string]core.Limit }
	const text = `{"Limits":{"free":"token-bucket 100/1m burst 20","pro":"sliding-window 5/1.5ms"}}`
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if got, want := config.Limits["free"], core.TokenBucket(core.PerMinute(100), 20); got != want {
		t.Errorf("free = %v, want %v", got, want)
	}
	if back, err := json.Marshal(config); err != nil || string(back) != text {
		t.Errorf("back to JSON: %s, %v, want %s", back, err, text)
	}
	if _, err := json.Marshal(core.Limit{}); err == nil {
		t.Error("the zero Limit was marshalled, want an error")
	}
}

func TestNobodysShareIsMoreThanRoundedUp(t *testing.T) {
	for _, tt := range []struct {
		limit core.Limit
		n     int
		want  core.Limit
	}{
		{core.TokenBucket(core.PerMinute(100), 20), 0, core.TokenBucket(core.PerMinute(100), 20)},
		{core.TokenBucket(core.PerMinute(100), 20), 1, core.TokenBucket(core.PerMinute(100), 20)},
		{core.TokenBucket(core.PerMinute(100), 20), 3, core.TokenBucket(core.PerMinute(34), 7)},
		{core.FixedWindow(core.PerMinute(10)), 4, core.FixedWindow(core.PerMinute(3))},
		{core.FixedWindow(core.PerMinute(1)), math.MaxInt, core.FixedWindow(core.PerMinute(1))},
	} {
		if got := tt.limit.Share(tt.n); got != tt.want {
			t.Errorf("%v.Share(%d) = %v, want %v", tt.limit, tt.n, got, tt.want)
		}
	}
}

func FuzzTheShareOfALegalLimitIsLegal(f *testing.F) {
	f.Add(int64(100), int64(10_050), int64(366*24*3600*1e6), 100)
	f.Add(int64(1), int64(1), int64(1000), 7)
	f.Fuzz(func(t *testing.T, units, burst, micros int64, n int) {
		limit := core.TokenBucket(core.Per(units, time.Duration(micros)*time.Microsecond), burst)
		if limit.Validate() != nil {
			t.Skip()
		}
		if err := limit.Share(n).Validate(); err != nil {
			t.Errorf("%v.Share(%d): %v", limit, n, err)
		}
	})
}

func FuzzParseLimitRoundTrips(f *testing.F) {
	for _, text := range []string{"100/minute", "token-bucket 100/1m burst 20", "sliding-log 3/5m", "leaky-queue 7 per 1h0m0.5s", "-1/s", "fixed-window 1/366d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := core.ParseLimit(text)
		if err != nil {
			if limit != (core.Limit{}) {
				t.Errorf("ParseLimit(%q) = %v and an error", text, limit)
			}
			return
		}
		if err := limit.Validate(); err != nil {
			t.Errorf("ParseLimit(%q) = %v, which is illegal: %v", text, limit, err)
		}
		if again, err := core.ParseLimit(limit.String()); err != nil || again != limit {
			t.Errorf("ParseLimit(%q) = %v, whose String reads back as %v, %v", text, limit, again, err)
		}
	})
}

// A bucket's refill time must be judged without overflow.
func FuzzTheRefillTimeIsJudgedExactly(f *testing.F) {
	f.Add(int64(1), int64(1_000_000_000), int64(366*24*3600*1e6))
	f.Fuzz(func(t *testing.T, units, burst, micros int64) {
		if units < 1 || units > 1e9 || burst < 1 || burst > 1e9 || micros < 1000 || micros > 366*24*3600*1e6 {
			t.Skip()
		}
		fill := new(big.Int).Mul(big.NewInt(burst), big.NewInt(micros))
		most := new(big.Int).Mul(big.NewInt(36_525*24*3600*1e6), big.NewInt(units))
		legal := fill.Cmp(most) <= 0
		limit := core.TokenBucket(core.Per(units, time.Duration(micros)*time.Microsecond), burst)
		if err := limit.Validate(); (err == nil) != legal {
			t.Errorf("%v: %v, want legal = %v", limit, err, legal)
		}
	})
}
