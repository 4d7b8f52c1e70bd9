package memory_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/memory"
)

func FuzzTokenBucket(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, burst int64) limits.Limit { return limits.TokenBucket(r, burst) })
}

func FuzzLeakyBucket(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, burst int64) limits.Limit { return limits.LeakyBucket(r, burst) })
}

func FuzzLeakyQueue(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, burst int64) limits.Limit { return limits.LeakyQueue(r, burst) })
}

func FuzzFixedWindow(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, _ int64) limits.Limit { return limits.FixedWindow(r) })
}

func FuzzSlidingWindow(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, _ int64) limits.Limit { return limits.SlidingWindow(r) })
}

func FuzzSlidingLog(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, _ int64) limits.Limit { return limits.SlidingLog(r) })
}

func FuzzAnchoredWindow(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, _ int64) limits.Limit { return limits.AnchoredWindow(r) })
}

func FuzzBan(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, burst int64) limits.Limit {
		return limits.Ban(r, time.Duration(max(burst, 1000))*time.Microsecond)
	})
}

func FuzzGrowingBan(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, burst int64) limits.Limit {
		lasting := time.Duration(max(burst, 1000)) * time.Microsecond
		return limits.Ban(r, lasting).Growing(time.Duration(r.Units%9+1) * lasting)
	})
}

func FuzzCalendar(f *testing.F) {
	fuzzLimit(f, func(r limits.Rate, burst int64) limits.Limit {
		periods := [...]limits.Period{limits.Day, limits.Week, limits.Month.From(int(1 + uint64(burst)%31)), limits.Year,
			limits.Day.In("Europe/Berlin"), limits.Month.In("America/St_Johns")}
		return limits.Calendar(r.Units, periods[uint64(burst)%uint64(len(periods))])
	})
}

func FuzzConcurrent(f *testing.F) {
	fuzzLimit(f, func(_ limits.Rate, burst int64) limits.Limit { return limits.Concurrent(min(burst, 64)) })
}

// fuzzLimit plays a script against the memory backend and against the slow exact
// one, which must agree on every field. Each step of the script is two bytes: how
// far the clock moves, as a part of the period or to the edge of the last wait,
// and the cost, as a part of the maximum.
func fuzzLimit(f *testing.F, limitOf func(limits.Rate, int64) limits.Limit) {
	f.Add(int64(100), int64(20), int64(60_000_000), []byte{0, 255, 1, 128, 250, 1, 251, 1, 30, 0, 0, 3})
	f.Add(int64(7), int64(3), int64(3000), []byte{16, 64, 250, 64, 251, 64, 252, 64})
	f.Add(int64(1_000_000_000), int64(1_000_000_000), int64(1000), []byte{0, 255, 3, 255, 251, 7})
	f.Add(int64(1), int64(90), int64(366*24*3600*1e6), []byte{0, 255, 255, 255, 250, 4, 251, 4})
	f.Add(int64(100), int64(20), int64(60_000_000),
		[]byte{0, 100, 249, 16, 0, 100, 249, 255, 10, 1, 10, 1, 0, 60, 249, 0, 0, 3})
	f.Fuzz(func(t *testing.T, units, burst, micros int64, script []byte) {
		limit := limitOf(limits.Per(units, time.Duration(micros)*time.Microsecond), burst)
		if limit.Validate() != nil || len(script) > 200 {
			t.Skip()
		}
		now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		store, exact := memory.MustNew(memory.Options{MaxKeys: 8, Clock: clock}), limitstest.NewExact(clock)
		charge := []backends.Charge{{Scope: "s", Key: "k", Limit: limit, Lasts: time.Second}}
		got, want := make([]limits.Decision, 1), make([]limits.Decision, 1)
		var last [2]backends.Ending // of the latest taking, in memory and in exact
		for ; len(script) >= 2; script = script[2:] {
			now = now.Add(advance(script[0], limit, want[0]))
			if now.Year() > 2250 {
				t.Skip() // instants end in 2255
			}
			if script[0] == 249 && last[0].Taken > 0 { // its end: a fourth to three times of it
				settled := make([]limits.Settlement, 2)
				for i, s := range []backends.Settler{store, exact} {
					last[i].Final = last[i].Taken * int64(script[1]) / 64
					if err := s.Settle(t.Context(), last[i:i+1], settled[i:i+1]); err != nil {
						t.Fatal(err)
					}
				}
				if settled[0] != settled[1] {
					t.Fatalf("%+v of %v at %v:\ngot  %+v\nwant %+v", last[0], limit, now, settled[0], settled[1])
				}
				last = [2]backends.Ending{}
				continue
			}
			charge[0].Cost = limit.Burst() * int64(script[1]) / 200
			if script[1] < 16 {
				charge[0].Cost = int64(script[1])
			}
			if err := store.Take(t.Context(), charge, got); err != nil {
				t.Fatal(err)
			}
			if err := exact.Take(t.Context(), charge, want); err != nil {
				t.Fatal(err)
			}
			if last = [2]backends.Ending{}; want[0].Allowed && charge[0].Cost > 0 {
				e := backends.Ending{Scope: "s", Key: "k", Limit: limit, Taken: charge[0].Cost, Lasts: time.Second}
				last = [2]backends.Ending{e, e}
				last[0].Ticket, last[1].Ticket = got[0].Ticket, want[0].Ticket
			}
			got[0].Ticket, want[0].Ticket = 0, 0 // the backend's own business
			if limit.Algorithm().Holds() && got[0].RetryAfter > 0 && want[0].RetryAfter > 0 {
				got[0].RetryAfter, want[0].RetryAfter = 0, 0 // a guess
			}
			if got[0] != want[0] {
				t.Fatalf("%d of %v at %v:\ngot  %+v\nwant %+v", charge[0].Cost, limit, now, got[0], want[0])
			}
		}
	})
}

func advance(code byte, limit limits.Limit, last limits.Decision) time.Duration {
	switch {
	case code == 255 && last.ResetAfter < 100*366*24*time.Hour:
		return last.ResetAfter
	case code >= 252:
		return time.Microsecond
	case code == 251 && last.RetryAfter != limits.Never:
		return last.RetryAfter
	case code == 250 && last.RetryAfter != limits.Never:
		return max(0, last.RetryAfter-time.Microsecond)
	default:
		return (limit.Rate().Period * time.Duration(code) / 100).Truncate(time.Microsecond)
	}
}
