package turns

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

// midnight is a multiple of all windows of these tests.
var midnight = time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).UnixMicro()

// line returns the waits of requests that are denied one after another at the instant at.
func (t *Table) line(limit limits.Limit, instances int, at int64, wait time.Duration, costs ...int64,
) (waits []time.Duration) {
	for _, cost := range costs {
		waits = append(waits, t.promise(&Denial{Scope: "s", Key: "k", Limit: limit, Cost: cost,
			Instances: instances, At: at, Wait: wait}))
	}
	return waits
}

// promise promises a turn to a request that one rule denies.
func (t *Table) promise(d *Denial) time.Duration {
	denials := t.Of()
	denials.Add(d)
	return denials.Promise()
}

const (
	ms = time.Millisecond
	s  = time.Second
)

func TestATurnIsAtThePaceThatTheLimitAdmits(t *testing.T) {
	ones := []int64{1, 1, 1, 1, 1}
	for name, tt := range map[string]struct {
		limit     limits.Limit
		instances int
		wait      time.Duration // the least
		costs     []int64
		want      []time.Duration
	}{
		"token bucket": {limits.TokenBucket(limits.PerSecond(10), 10), 1, 100 * ms, ones,
			[]time.Duration{100 * ms, 200 * ms, 300 * ms, 400 * ms, 500 * ms}},
		"thirds of a second": {limits.TokenBucket(limits.PerSecond(3), 3), 1, 333334 * time.Microsecond,
			[]int64{1, 1, 1, 3, 1}, []time.Duration{333334 * time.Microsecond,
				666667 * time.Microsecond, 1 * s, 2 * s, 2333334 * time.Microsecond}},
		"cost 5": {limits.TokenBucket(limits.PerSecond(10), 10), 1, 500 * ms, []int64{5, 5, 1, 0},
			[]time.Duration{500 * ms, 1 * s, 1100 * ms, 1200 * ms}},
		"one of three processes": {limits.TokenBucket(limits.PerSecond(10), 10), 3, 100 * ms, ones,
			[]time.Duration{100 * ms, 400 * ms, 700 * ms, 1 * s, 1300 * ms}},
		"a burst below a second's units": {limits.TokenBucket(limits.PerSecond(10), 2), 1, 100 * ms, ones,
			[]time.Duration{100 * ms, 600 * ms, 1100 * ms, 1600 * ms, 2100 * ms}},
		"leaky queue": {limits.LeakyQueue(limits.PerSecond(1), 2), 1, 1 * s, ones,
			[]time.Duration{1 * s, 2 * s, 3 * s, 4 * s, 5 * s}},
		"sliding log": {limits.SlidingLog(limits.Per(2, 10*s)), 1, 7 * s, ones,
			[]time.Duration{7 * s, 12 * s, 17 * s, 22 * s, 27 * s}},
		"sliding window": {limits.SlidingWindow(limits.Per(2, 10*s)), 1, 7 * s, ones,
			[]time.Duration{7 * s, 12 * s, 17 * s, 22 * s, 27 * s}},
		"distinct": {limits.Distinct(limits.Per(2, 10*s)), 1, 7 * s, []int64{9, 9},
			[]time.Duration{7 * s, 12 * s}},
		"fixed window": {limits.FixedWindow(limits.Per(2, 10*s)), 1, 7 * s, ones,
			[]time.Duration{7 * s, 7 * s, 17 * s, 17 * s, 27 * s}},
		"fixed window, cost 2 of 3": {limits.FixedWindow(limits.Per(3, 10*s)), 1, 7 * s, []int64{2, 2, 1, 1},
			[]time.Duration{7 * s, 17 * s, 17 * s, 27 * s}},
		"fixed window, one of two processes": {limits.FixedWindow(limits.Per(4, 10*s)), 2, 7 * s, ones,
			[]time.Duration{7 * s, 7 * s, 17 * s, 17 * s, 27 * s}},
		"fixed window, more processes than units": {limits.FixedWindow(limits.Per(2, 10*s)), 3, 7 * s, ones,
			[]time.Duration{7 * s, 17 * s, 37 * s, 47 * s, 67 * s}},
		"fixed window below a second": {limits.FixedWindow(limits.Per(2, 100*ms)), 1, 70 * ms, ones,
			[]time.Duration{70 * ms, 70 * ms, 1070 * ms, 1070 * ms, 2070 * ms}},
		"anchored window": {limits.AnchoredWindow(limits.Per(2, 10*s)), 1, 7 * s, ones,
			[]time.Duration{7 * s, 7 * s, 18 * s, 18 * s, 29 * s}},
		"a ban has no turns": {limits.Ban(limits.PerMinute(2), time.Hour), 1, 7 * s, ones,
			slices.Repeat([]time.Duration{7 * s}, 5)},
		"requests at once have no turns": {limits.Concurrent(2), 1, s, ones,
			slices.Repeat([]time.Duration{s}, 5)},
		"no wait helps": {limits.TokenBucket(limits.PerSecond(10), 10), 1, limits.Never, ones,
			slices.Repeat([]time.Duration{limits.Never}, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			at := midnight + (10*s - tt.wait).Microseconds()
			got := New(10*time.Minute).line(tt.limit, tt.instances, at, tt.wait, tt.costs...)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// On 29 March 2026 a day in Berlin has 23 hours.
func TestADailyQuotaPromisesTheDaysThatFollow(t *testing.T) {
	berlin := limits.Calendar(2, limits.Day.In("Europe/Berlin"))
	at := time.Date(2026, 3, 28, 22, 30, 0, 0, time.UTC).UnixMicro() // a day begins in half an hour
	got := New(24*time.Hour).line(berlin, 1, at, 30*time.Minute, 1, 1, 1, 1, 1)
	day := 23*time.Hour + 30*time.Minute
	if want := []time.Duration{30 * time.Minute, 30 * time.Minute, day, day, 24 * time.Hour}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestARequestBeyondTheReachIsToldTheReach(t *testing.T) {
	bucket, at := limits.TokenBucket(limits.PerSecond(1), 1), midnight
	got := New(4*s).line(bucket, 1, at, s, 1, 1, 1, 1, 1)
	if want := []time.Duration{s, 2 * s, 3 * s, 4 * s, 4 * s}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	long := limits.FixedWindow(limits.PerHour(1))
	if got := New(4*s).line(long, 1, at, time.Hour, 1, 1); got[0] != time.Hour || got[1] != time.Hour {
		t.Errorf("a least wait of an hour: got %v", got)
	}
}

func TestATurnThatIsPastIsForgotten(t *testing.T) {
	table, bucket := New(time.Minute), limits.TokenBucket(limits.PerSecond(1), 1)
	table.line(bucket, 1, midnight, s, 1, 1, 1)
	at := midnight + (3 * s).Microseconds()
	if got := table.line(bucket, 1, at, s, 1)[0]; got != s {
		t.Errorf("when the last turn is due: got %v, want 1s", got)
	}
}

// A client that comes at its turn is alone again, also where units come back faster than at the pace.
func TestAClientThatComesAtItsTurnHearsTheLeastWait(t *testing.T) {
	for name, limit := range map[string]limits.Limit{
		"sliding log":    limits.SlidingLog(limits.Per(2, 10*s)),
		"sliding window": limits.SlidingWindow(limits.Per(2, 10*s)),
		"small burst":    limits.TokenBucket(limits.PerSecond(10), 1),
	} {
		table := New(time.Minute)
		table.line(limit, 1, midnight, 7*s, 1)
		at := midnight + (7 * s).Microseconds()
		if got := table.line(limit, 1, at, 100*ms, 1)[0]; got != 100*ms {
			t.Errorf("%s: got %v, want 100ms", name, got)
		}
	}
}

func TestAClockThatStepsBackForgetsTurns(t *testing.T) {
	table, bucket := New(time.Minute), limits.TokenBucket(limits.PerSecond(1), 1)
	table.line(bucket, 1, midnight, s, 1, 1, 1)
	if got := table.line(bucket, 1, midnight-(2*time.Minute).Microseconds(), s, 1)[0]; got != s {
		t.Errorf("two minutes before: got %v, want 1s", got)
	}
}

// Two requests are decided in one order and get here in the other one.
func TestADenialThatArrivesLateForgetsNoTurn(t *testing.T) {
	table, bucket := New(4*s), limits.TokenBucket(limits.PerSecond(1), 1)
	table.line(bucket, 1, midnight, s, 1, 1, 1) // up to the last second
	for _, late := range []time.Duration{time.Microsecond, s} {
		if got := table.line(bucket, 1, midnight-late.Microseconds(), s, 1)[0]; got != 4*s {
			t.Errorf("%v late: got %v, want 4s", late, got)
		}
	}
	if got := table.line(bucket, 1, midnight, s, 1)[0]; got != 4*s {
		t.Errorf("then: got %v, want 4s", got)
	}
}

func TestLinesOfBeforeAStepBackGiveWay(t *testing.T) {
	const latest = 100
	var s set
	for i := range s.lines {
		s.lines[i] = line{uint64(1 + i), turn{at: latest + 1 + int64(i)}}
	}
	for hash := uint64(10); hash < 10+ways; hash++ {
		*s.find(hash, latest) = line{hash, turn{at: latest - int64(hash)}}
	}
	for hash := uint64(10); hash < 10+ways; hash++ {
		if s.find(hash, latest).hash != hash {
			t.Errorf("key %d has no line", hash)
		}
	}
}

// For each flood of denials of one key, the waits are bounded and other keys do not see it.
func TestAClientThatHammersDelaysItsOwnKeyAlone(t *testing.T) {
	table, bucket := New(time.Minute), limits.TokenBucket(limits.PerSecond(10), 10)
	of := func(key string, at int64) time.Duration {
		return table.promise(&Denial{Scope: "s", Key: key, Limit: bucket, Cost: 1, At: at, Wait: 100 * ms})
	}
	at := midnight
	for range 100_000 { // a thousand a second
		if got := of("hammer", at); got > time.Minute {
			t.Fatalf("a wait of %v", got)
		}
		at += 1000
	}
	if got := of("other", at); got != 100*ms {
		t.Errorf("another key waits for %v", got)
	}
	at += time.Minute.Microseconds()
	if got := of("hammer", at); got != 100*ms {
		t.Errorf("a minute later it waits for %v", got)
	}
}

func TestAFloodOfKeysMakesNoWaitLonger(t *testing.T) {
	table, bucket := New(time.Minute), limits.TokenBucket(limits.PerSecond(10), 10)
	denial := func(key string) *Denial {
		return &Denial{Scope: "s", Key: key, Limit: bucket, Cost: 1, At: midnight, Wait: 100 * ms}
	}
	table.promise(denial("own"))
	for i := range 100_000 {
		if got := table.promise(denial(string(binary(i)))); got != 100*ms {
			t.Fatalf("key %d waits for %v", i, got)
		}
	}
	if got := table.promise(denial("own")); got > 200*ms {
		t.Errorf("then its own wait is %v", got)
	}
}

func binary(i int) []byte { return []byte{byte(i), byte(i >> 8), byte(i >> 16)} }

// The slow rule's turn is the latest, so the line of the fast one stays empty.
func TestOfSeveralDenialsTheLatestTurnIsPromised(t *testing.T) {
	table := New(time.Minute)
	fast := Denial{Scope: "fast", Key: "k", Limit: limits.TokenBucket(limits.PerSecond(10), 10), Cost: 1,
		At: midnight, Wait: 100 * ms}
	slow := Denial{Scope: "slow", Key: "k", Limit: limits.TokenBucket(limits.PerSecond(1), 10), Cost: 1,
		At: midnight, Wait: s}
	for i, want := range []time.Duration{s, 2 * s, 3 * s} {
		denials := table.Of()
		denials.Add([]*Denial{&fast, &slow}[i%2])
		denials.Add([]*Denial{&slow, &fast}[i%2])
		if got := denials.Promise(); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if got := table.promise(&fast); got != 100*ms {
		t.Errorf("the fast rule alone: got %v, want 100ms", got)
	}
	if none := table.Of(); none.Promise() != 0 {
		t.Error("no denials have a turn")
	}
}

// No legal limit, cost, wait or number of instances overflows.
func FuzzTurnsAreNeverBeforeTheLeastWait(f *testing.F) {
	f.Add(uint8(0), int64(10), int64(1000), int64(10), int64(1), 1, int64(100_000))
	f.Add(uint8(3), int64(1), (365 * 24 * time.Hour).Microseconds(), int64(1), int64(math.MaxInt64), math.MaxInt, int64(1))
	f.Fuzz(func(t *testing.T, algorithm uint8, units, period, burst, cost int64, instances int, wait int64) {
		rate := limits.Per(units, time.Duration(period)*time.Microsecond)
		limit := []limits.Limit{limits.TokenBucket(rate, burst), limits.LeakyQueue(rate, burst), limits.FixedWindow(rate),
			limits.SlidingWindow(rate), limits.SlidingLog(rate), limits.AnchoredWindow(rate), limits.Distinct(rate),
			limits.Calendar(units, limits.Day)}[algorithm%8]
		if limit.Validate() != nil || wait < 0 || wait > math.MaxInt64/2000 {
			t.Skip()
		}
		table, least := New(time.Minute), time.Duration(wait)*time.Microsecond
		before := time.Duration(0)
		for range 10 {
			got := table.line(limit, instances, midnight, least, cost)[0]
			if got < least || got < before || got > max(least, time.Minute) {
				t.Fatalf("%v: least %v, before %v: got %v", limit, least, before, got)
			}
			before = got
		}
	})
}

func TestRequestsAtOnceGetATurnEach(t *testing.T) {
	table, bucket := New(time.Minute), limits.TokenBucket(limits.PerSecond(10), 10)
	var all sync.WaitGroup
	told := make([]time.Duration, 200)
	for i := range told {
		all.Go(func() {
			told[i] = table.promise(&Denial{Scope: "s", Key: "k", Limit: bucket, Cost: 1, At: midnight, Wait: 100 * ms})
		})
	}
	all.Wait()
	slices.Sort(told)
	for i, wait := range told {
		if want := time.Duration(i+1) * 100 * ms; wait != want {
			t.Fatalf("turn %d is in %v, want %v", i, wait, want)
		}
	}
}
