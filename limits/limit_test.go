package limits_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

func TestEveryIllegalLimitIsRefusedByNameValueAndRange(t *testing.T) {
	for _, tt := range []struct {
		limit limits.Limit
		want  []string // substrings of the error
	}{
		{limits.Limit{}, []string{"not set", "SlidingWindow"}},
		{limits.TokenBucket(limits.PerSecond(0), 1), []string{"units", "1 to 1000000000", "got 0"}},
		{limits.TokenBucket(limits.PerSecond(-1), 1), []string{"units", "got -1"}},
		{limits.FixedWindow(limits.PerSecond(1_000_000_001)), []string{"units", "got 1000000001"}},
		{limits.Concurrent(0), []string{"a concurrency limit must be 1 to 100000", "got 0"}},
		{limits.Concurrent(100_001), []string{"got 100001"}},
		{limits.Ban(limits.PerMinute(0), time.Hour), []string{"units of a ban", "got 0"}},
		{limits.Ban(limits.PerMinute(5), 999*time.Microsecond), []string{"a ban must last 1ms to 366 days", "got 999µs"}},
		{limits.Ban(limits.PerMinute(5), 367*24*time.Hour), []string{"a ban must last"}},
		{limits.Ban(limits.PerMinute(10_000_001), time.Hour).Growing(24 * time.Hour),
			[]string{"units of a growing ban must be 1 to 10000000", "got 10000001"}},
		{limits.Ban(limits.PerMinute(0), 0).Growing(time.Hour), []string{"got 0", "a growing ban must last"}},
		{limits.Ban(limits.PerMinute(5), time.Hour).Growing(59 * time.Minute),
			[]string{"a ban of 1h must grow to as much at least", "got 59m"}},
		{limits.Ban(limits.PerMinute(5), time.Hour).Growing(367 * 24 * time.Hour),
			[]string{"a growing ban must grow to 1ms to 366 days", "got 8808h"}},
		{limits.SlidingLog(limits.PerMinute(5)).Growing(time.Hour),
			[]string{"only a ban grows", "Ban(rate, lasting).Growing(longest)"}},
		{limits.Limit{}.Growing(time.Hour), []string{"got 0", "only a ban grows"}},
		{limits.Distinct(limits.PerDay(1001)), []string{"units of a distinct limit must be 1 to 1000", "got 1001"}},
		{limits.AnchoredWindow(limits.PerSecond(1_000_000_001)), []string{"units of an anchored-window", "got 1000000001"}},
		{limits.SlidingLog(limits.PerDay(10_001)), []string{"sliding-log", "1 to 10000", "got 10001"}},
		{limits.SlidingWindow(limits.Per(1, 0)), []string{"period must be positive", "got 0s"}},
		{limits.SlidingWindow(limits.Per(1, -time.Second)), []string{"period must be positive", "got -1s"}},
		{limits.SlidingWindow(limits.Per(1, 999*time.Microsecond)), []string{"1ms to 8784h", "got 999µs"}},
		{limits.SlidingWindow(limits.Per(1, 367*24*time.Hour)), []string{"1ms to 8784h", "got 8808h0m0s"}},
		{limits.SlidingWindow(limits.Rate{Units: 1, Period: time.Second + time.Nanosecond}),
			[]string{"whole number of microseconds", "got 1.000000001s"}},
		{limits.TokenBucket(limits.PerSecond(1), 0), []string{"burst", "1 to 1000000000", "got 0"}},
		{limits.LeakyBucket(limits.PerSecond(1), -5), []string{"burst", "got -5"}},
		{limits.LeakyQueue(limits.PerSecond(1), 1_000_000_001), []string{"burst", "got 1000000001"}},
		{limits.TokenBucket(limits.Per(1, 366*24*time.Hour), 100),
			[]string{"a burst of 100 at 1 per 366d takes over 100 years"}},
		{limits.TokenBucket(limits.Per(1, 366*24*time.Hour), 1_000_000_000), []string{"100 years"}},
		{limits.TokenBucket(limits.Per(0, 0), 0), []string{"units", "period", "burst"}},
		{limits.Calendar(0, limits.Month.From(32)),
			[]string{"units of a calendar must be 1 to 1000000000", "got 0", "a month begins on a day from 1 to 31",
				`got "32"`}},
		{limits.Calendar(1, "fortnight"),
			[]string{"a period of the calendar is a day, week, month or year", `got "fortnight"`}},
		{limits.Calendar(1, limits.Day.From(2)), []string{"a day begins at midnight", `remove "from 2"`}},
		{limits.Calendar(1, limits.Week.From(8)), []string{"a week begins on a day", `got "8"`}},
		{limits.Calendar(1, limits.Year.From(8)), []string{"a year begins on a date", `got "8"`}},
		{limits.Calendar(1, limits.Year.FromDate(time.February, 30)), []string{`got "february 30"`}},
		{limits.Calendar(1, "month from 015"), []string{`got "015"`}},
		{limits.Calendar(1, limits.Month.In("Europe/Berln")), []string{"unknown time zone", `"Europe/Berln"`}},
		{limits.Calendar(1, limits.Month.In("Local")), []string{"name of the IANA", `got "Local"`}},
		{limits.Calendar(1, limits.Month.In("../../etc/passwd")), []string{"a name of the IANA"}},
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
	for _, limit := range []limits.Limit{
		limits.FixedWindow(limits.Per(1, time.Millisecond)),
		limits.FixedWindow(limits.Per(1_000_000_000, time.Millisecond)),
		limits.SlidingWindow(limits.Per(1_000_000_000, 366*24*time.Hour)),
		limits.SlidingLog(limits.Per(10_000, 366*24*time.Hour)),
		limits.AnchoredWindow(limits.Per(1_000_000_000, 366*24*time.Hour)),
		limits.Concurrent(1),
		limits.Concurrent(100_000),
		limits.Ban(limits.Per(1, time.Millisecond), time.Millisecond),
		limits.Ban(limits.Per(1_000_000_000, 366*24*time.Hour), 366*24*time.Hour),
		limits.Ban(limits.Per(1, time.Millisecond), time.Millisecond).Growing(time.Millisecond),
		limits.Ban(limits.Per(10_000_000, time.Hour), time.Millisecond).Growing(366 * 24 * time.Hour),
		limits.TokenBucket(limits.Per(1_000_000_000, time.Millisecond), 1_000_000_000),
		limits.TokenBucket(limits.Per(1, 365*24*time.Hour), 100),
		limits.LeakyQueue(limits.Per(1_000_000_000, 366*24*time.Hour), 1_000_000_000),
	} {
		if err := limit.Validate(); err != nil {
			t.Errorf("%v: %v", limit, err)
		}
	}
}

func TestParseLimitReadsWhatPeopleWrite(t *testing.T) {
	for _, tt := range []struct {
		text string
		want limits.Limit
	}{
		{"100/minute", limits.SlidingWindow(limits.PerMinute(100))},
		{"100 per hour", limits.SlidingWindow(limits.PerHour(100))},
		{"5/10s", limits.SlidingWindow(limits.Per(5, 10*time.Second))},
		{" 5 / s ", limits.SlidingWindow(limits.PerSecond(5))},
		{"5/ Second", limits.SlidingWindow(limits.PerSecond(5))},
		{"5 PER S", limits.SlidingWindow(limits.PerSecond(5))},
		{"1000/d", limits.SlidingWindow(limits.PerDay(1000))},
		{"1000/7d", limits.SlidingWindow(limits.Per(1000, 7*24*time.Hour))},
		{"20/1m30s", limits.SlidingWindow(limits.Per(20, 90*time.Second))},
		{"token-bucket 100/1m burst 20", limits.TokenBucket(limits.PerMinute(100), 20)},
		{"token-bucket 100/1m", limits.TokenBucket(limits.PerMinute(100), 100)},
		{"Token-Bucket 100 per minute burst 20", limits.TokenBucket(limits.PerMinute(100), 20)},
		{"leaky-bucket 10/s capacity 5", limits.LeakyBucket(limits.PerSecond(10), 5)},
		{"leaky-queue 10/s burst 5", limits.LeakyQueue(limits.PerSecond(10), 5)},
		{"fixed-window 1000/day", limits.FixedWindow(limits.PerDay(1000))},
		{"sliding-window 1/1ms", limits.SlidingWindow(limits.Per(1, time.Millisecond))},
		{"sliding-log 3/5m", limits.SlidingLog(limits.Per(3, 5*time.Minute))},
		{"concurrent 20", limits.Concurrent(20)},
		{"ban 10/10m for 1h", limits.Ban(limits.Per(10, 10*time.Minute), time.Hour)},
		{"Ban 5 per 10m for hour Growing to 1d",
			limits.Ban(limits.Per(5, 10*time.Minute), time.Hour).Growing(24 * time.Hour)},
		{"ban 5/s for 5s growing to 5s", limits.Ban(limits.PerSecond(5), 5*time.Second).Growing(5 * time.Second)},
		{"distinct 5/10m", limits.Distinct(limits.Per(5, 10*time.Minute))},
		{"anchored-window 60/hour", limits.AnchoredWindow(limits.PerHour(60))},
		{"calendar 10000/month", limits.Calendar(10_000, limits.Month)},
		{" Calendar 10000 PER Month FROM 15 IN Europe/Berlin",
			limits.Calendar(10_000, limits.Month.From(15).In("Europe/Berlin"))},
		{"calendar 10000/month from 1 in UTC", limits.Calendar(10_000, limits.Month)},
		{"calendar 5/week from Sunday", limits.Calendar(5, limits.Week.From(7))},
		{"calendar 5/week from monday", limits.Calendar(5, limits.Week)},
		{"calendar 5/year from April 6", limits.Calendar(5, limits.Year.FromDate(time.April, 6))},
		{"calendar 5/year from january 1", limits.Calendar(5, limits.Year.In("UTC"))},
	} {
		got, err := limits.Parse(tt.text)
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
		{"100/month", `write "calendar 1000/month"`},
		{"many/minute", `unknown algorithm "many"`},
		{"1.5/minute", `"1.5" is not a whole number`},
		{"token-bukket 1/s", `unknown algorithm "token-bukket"`},
		{"100/minute burst 20", `a sliding-window has no "burst": remove "burst 20"`},
		{"token-bucket 100/minute burst",
			`want token-bucket units/period [burst n], such as "token-bucket 100/1m burst 20"`},
		{"ban 10/10m", `want ban units/period for duration, such as "ban 10/10m for 1h"`},
		{"ban 10/10m for", "want ban units/period for duration"},
		{"ban for 1h", "want ban units/period for duration"},
		{"ban 10/10m for 1h for 1h", "want ban units/period for duration"},
		{"ban 10/10m for ever", `"ever" is not a period`},
		{"ban 10/10m for 1h burst 5", `a ban has no "burst": remove "burst 5"`},
		{"concurrent", `want concurrent units, such as "concurrent 20"`},
		{"concurrent 20/s", "want concurrent units"},
		{"100/minute for 1h", `a sliding-window has no "for": remove "for 1h"`},
		{"token-bucket 100/minute burst lots", `"lots" is not a whole number`},
		{"0/minute", "got 0"},
		{"-1/minute", "got -1"},
		{"99999999999999999999/minute", "must be 1 to 1000000000 (got 99999999999999999999)"},
		{"1/-1s", "got -1s"},
		{"sliding-log 10001/day", "1 to 10000"},
		{"1 2 3 4/s", "want [algorithm]"},
		{"ban 5/10m", "want ban units/period for duration"},
		{"ban 5/10m growing to 24h", "want ban units/period for duration"},
		{"ban 5/10m for 1h growing", "ban 5/10m for 1h growing to 1d"},
		{"ban 5/10m for 1h growing 24h", "ban 5/10m for 1h growing to 1d"},
		{"ban 5/10m for 1h growing to", "ban 5/10m for 1h growing to 1d"},
		{"ban 5/10m for 1h growing to lots", `"lots" is not a period`},
		{"ban 5/10m for 1h growing to 1m", "a ban of 1h must grow to as much at least (got 1m)"},
		{"100/minute growing to 1h", `a sliding-window has no "growing to"`},
		{"calendar", "want calendar units/period"},
		{"calendar 5", "want calendar units/period"},
		{"calendar 5/month from", "want calendar units/period"},
		{"calendar 5/month 15", "want calendar units/period"},
		{"calendar 5/month in", "want calendar units/period"},
		{"calendar 5/minute", "a day, week, month or year"},
		{"calendar 5/month burst 3", `a calendar has no "burst": remove "burst 3"`},
		{"calendar x/month", `"x" is not a whole number`},
		{"calendar 5/month from 15 in europe/berlin", "unknown time zone"},
		{"calendar 0/month from 0", "got 0"},
	} {
		got, err := limits.Parse(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) || got != (limits.Limit{}) {
			t.Errorf("ParseLimit(%q) = %v, %v, want an error with %q", tt.text, got, err, tt.want)
		}
	}
}

func TestALimitLivesInJSON(t *testing.T) {
	var config struct{ Limits map[string]limits.Limit }
	const text = `{"Limits":{"free":"token-bucket 100/1m burst 20","pro":"sliding-window 5/1.5ms"}}`
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if got, want := config.Limits["free"], limits.TokenBucket(limits.PerMinute(100), 20); got != want {
		t.Errorf("free = %v, want %v", got, want)
	}
	if back, err := json.Marshal(config); err != nil || string(back) != text {
		t.Errorf("back to JSON: %s, %v, want %s", back, err, text)
	}
	if _, err := json.Marshal(limits.Limit{}); err == nil {
		t.Error("the zero Limit was marshalled, want an error")
	}
}

func TestNobodysShareIsMoreThanRoundedUp(t *testing.T) {
	for _, tt := range []struct {
		limit limits.Limit
		n     int
		want  limits.Limit
	}{
		{limits.TokenBucket(limits.PerMinute(100), 20), 0, limits.TokenBucket(limits.PerMinute(100), 20)},
		{limits.TokenBucket(limits.PerMinute(100), 20), 1, limits.TokenBucket(limits.PerMinute(100), 20)},
		{limits.TokenBucket(limits.PerMinute(100), 20), 3, limits.TokenBucket(limits.PerMinute(34), 7)},
		{limits.FixedWindow(limits.PerMinute(10)), 4, limits.FixedWindow(limits.PerMinute(3))},
		{limits.Calendar(10, limits.Month.From(3)), 4, limits.Calendar(3, limits.Month.From(3))},
		{limits.FixedWindow(limits.PerMinute(1)), math.MaxInt, limits.FixedWindow(limits.PerMinute(1))},
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
		limit := limits.TokenBucket(limits.Per(units, time.Duration(micros)*time.Microsecond), burst)
		if limit.Validate() != nil {
			t.Skip()
		}
		if err := limit.Share(n).Validate(); err != nil {
			t.Errorf("%v.Share(%d): %v", limit, n, err)
		}
	})
}

func FuzzParseLimitRoundTrips(f *testing.F) {
	for _, text := range []string{"100/minute", "token-bucket 100/1m burst 20", "sliding-log 3/5m",
		"leaky-queue 7 per 1h0m0.5s", "-1/s", "fixed-window 1/366d", "calendar 5/month from 15 in " +
			"Europe/Berlin", "calendar 5/year from april 6"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := limits.Parse(text)
		if err != nil {
			if limit != (limits.Limit{}) {
				t.Errorf("ParseLimit(%q) = %v and an error", text, limit)
			}
			return
		}
		if err := limit.Validate(); err != nil {
			t.Errorf("ParseLimit(%q) = %v, which is illegal: %v", text, limit, err)
		}
		if again, err := limits.Parse(limit.String()); err != nil || again != limit {
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
		limit := limits.TokenBucket(limits.Per(units, time.Duration(micros)*time.Microsecond), burst)
		if err := limit.Validate(); (err == nil) != legal {
			t.Errorf("%v: %v, want legal = %v", limit, err, legal)
		}
	})
}

// Whatever the float, the rate is legal and as near as can be told, or no limit takes it.
func TestRateOf(t *testing.T) {
	random := rand.New(rand.NewPCG(testrun.Seed(t), 0))
	for range 10_000 {
		perSecond := math.Exp(random.Float64()*36 - 16) // 1e-7 to 5e8
		rate := limits.RateOf(perSecond)
		if err := limits.FixedWindow(rate).Validate(); err != nil {
			t.Fatalf("%v per second: %v: %v", perSecond, rate, err)
		}
		if got := float64(rate.Units) / rate.Period.Seconds(); math.Abs(got-perSecond) > 1e-6*perSecond {
			t.Fatalf("%v per second: %v, which is %v", perSecond, rate, got)
		}
	}
	for _, perSecond := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e10, 1e-9,
		math.SmallestNonzeroFloat64} {
		if rate := limits.RateOf(perSecond); limits.FixedWindow(rate).Validate() == nil {
			t.Errorf("%v per second is %v", perSecond, rate)
		}
	}
}

func TestPeriodsAreRoundedToMicroseconds(t *testing.T) {
	for rate, want := range map[limits.Rate]limits.Rate{
		limits.Per(7, time.Second/3):         {Units: 7, Period: 333_333 * time.Microsecond},
		limits.Every(1500 * time.Nanosecond): {Units: 1000, Period: 1500 * time.Microsecond},
		limits.Every(time.Nanosecond):        {Units: 1_000_000, Period: time.Millisecond},
		limits.Every(0):                      {Units: 1},
		limits.Every(-time.Second):           {Units: 1, Period: -time.Second},
	} {
		if rate != want {
			t.Errorf("got %v, want %v", rate, want)
		}
	}
}

func TestAnInstantLiesInItsWindow(t *testing.T) {
	for _, l := range []limits.Limit{
		limits.FixedWindow(limits.PerDay(1)),
		limits.SlidingWindow(limits.Per(1, 7*time.Hour+1*time.Microsecond)),
		limits.FixedWindow(limits.Per(1, 8784*time.Hour)),
		limits.Calendar(1, limits.Day),
		limits.Calendar(1, limits.Week),
		limits.Calendar(1, limits.Month.From(31)),
		limits.Calendar(1, limits.Year.FromDate(time.April, 6)),
	} {
		for _, at := range []time.Time{
			time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(1912, 4, 15, 2, 20, 0, 1000, time.UTC),
			time.Unix(-1, 0),
			time.UnixMicro(-1),
			time.Unix(0, 0),
			time.UnixMicro(1),
			time.Date(1970, 1, 31, 12, 0, 0, 0, time.UTC), // the year from April 6 began in 1969
			time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC),
			time.Date(3000, 12, 31, 23, 59, 59, 0, time.UTC),
		} {
			start, end, ok := l.Window(at)
			if !ok || at.Before(start) || !at.Before(end) {
				t.Errorf("%v: %v lies in %v to %v, %v", l, at.UTC(), start.UTC(), end.UTC(), ok)
				continue
			}
			_, before, _ := l.Window(start.Add(-time.Microsecond))
			after, _, _ := l.Window(end)
			if !before.Equal(start) || !after.Equal(end) {
				t.Errorf("%v: %v to %v, after one that ends at %v and before one that starts at %v",
					l, start.UTC(), end.UTC(), before.UTC(), after.UTC())
			}
			if period := l.Rate().Period.Microseconds(); l.Period() == "" && start.UnixMicro()%period != 0 {
				t.Errorf("%v: %v is no whole multiple of the period since 1970", l, start.UTC())
			}
		}
	}
	start, _, _ := limits.Calendar(1, limits.Year.FromDate(time.April, 6)).Window(time.Unix(0, 0))
	if want := time.Date(1969, 4, 6, 0, 0, 0, 0, time.UTC); !start.Equal(want) {
		t.Errorf("the year that ended in 1970 began at %v, want %v", start.UTC(), want)
	}
}
