package redisbackend_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// server is a server whose clock is ahead of this process.
type server struct{ ahead time.Duration }

// asked returns what a process knows that has asked at an instant: the server answers after
// there, and the answer arrives after back.
func (s server) asked(at time.Time, there, back time.Duration) redisbackend.ClockOffset {
	return redisbackend.NewClockOffset(at, at.Add(there+back), at.Add(there).Add(s.ahead).UnixMicro())
}

// However long the ways are, a denial ends nowhere after it ends where it was decided, and
// at most the two questions for the clock before.
func TestAnAnnouncedDenialEndsWhenItEndsAndNoLater(t *testing.T) {
	const runs = 10_000
	random := testrun.Random(t)
	upTo := func(most time.Duration) time.Duration {
		return time.Duration(random.Int64N(int64(most/time.Microsecond))) * time.Microsecond
	}
	base := time.Now().Truncate(time.Microsecond)
	for range runs {
		s := server{upTo(48*time.Hour) - 24*time.Hour}
		there, back, thereB, backB := upTo(time.Second), upTo(time.Second), upTo(time.Second), upTo(time.Second)
		questions := there + back + thereB + backB
		here := s.asked(base.Add(upTo(10*time.Second)), there, back)
		elsewhere := s.asked(base.Add(upTo(10*time.Second)), thereB, backB)
		asked := base.Add(10 * time.Second).Add(upTo(time.Second))
		sent := asked.Add(upTo(time.Second))
		arrived := sent.Add(upTo(5 * time.Second))
		d := limits.Decision{RetryAfter: time.Second + upTo(time.Hour), Remaining: 3, At: 12}
		d.ResetAfter, d.EffectiveWindow = d.RetryAfter+time.Second, d.RetryAfter
		a := limits.Announcement{Scope: "per user", Key: "ann\x00\xff", Limit: limits.TokenBucket(limits.PerHour(7), 9), Cost: 2, Asked: asked, Decision: d}
		all, err := redisbackend.DecodeAnnouncements(string(redisbackend.EncodeAnnouncements([]limits.Announcement{a, a}, here, sent)), elsewhere, arrived)
		if err != nil || len(all) != 2 {
			t.Fatalf("%d announcements, %v", len(all), err)
		}
		late := all[0].Asked.Sub(asked)
		if late > 0 || late < -questions {
			t.Fatalf("the denial ends %v late, want 0 to -%v", late, questions)
		}
		if all[0].Asked = asked; all[0] != a {
			t.Fatalf("got  %+v\nwant %+v", all[0], a)
		}
	}
}

// A server whose clock has been set back, or whose place a replica has taken, makes a
// denial last longer than it does by the way of its message at most.
func TestAClockThatIsSetMakesNoDenialLongerThanItsWait(t *testing.T) {
	base := time.Now()
	before, after := server{0}.asked(base, 0, 0), server{-time.Hour}.asked(base, 0, 0)
	a := limits.Announcement{
		Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(1)), Cost: 1,
		Asked: base, Decision: limits.Decision{RetryAfter: 10 * time.Minute},
	}
	sent := base.Add(time.Minute)
	arrived := sent.Add(time.Second)
	all, err := redisbackend.DecodeAnnouncements(string(redisbackend.EncodeAnnouncements([]limits.Announcement{a}, before, sent)), after, arrived)
	if err != nil {
		t.Fatal(err)
	}
	if until := all[0].Asked.Add(all[0].Decision.RetryAfter); until.After(base.Add(10*time.Minute + time.Second)) {
		t.Errorf("the denial ends %v late, want 1s at most", until.Sub(base.Add(10*time.Minute)))
	}
}

// What is announced stands in the headers of answers. It fits there, whoever has published it.
func TestNumbersOutOfRangeAreNotPassedOn(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	offset := server{}.asked(now, 0, 0)
	a := limits.Announcement{
		Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(1)), Cost: 1, Asked: now,
		Decision: limits.Decision{RetryAfter: time.Minute, Remaining: math.MaxInt64, At: now.UnixMicro()},
	}
	decode := func() ([]limits.Announcement, error) {
		return redisbackend.DecodeAnnouncements(string(redisbackend.EncodeAnnouncements([]limits.Announcement{a}, offset, now)), offset, now)
	}
	if all, err := decode(); err != nil || all[0].Decision.Remaining > 1e9 {
		t.Errorf("remaining %d: %+v, %v", int64(math.MaxInt64), all, err)
	}
	for _, a.Decision.At = range []int64{-1, math.MinInt64, math.MaxInt64} {
		if all, err := decode(); err == nil {
			t.Errorf("at %d: %+v", a.Decision.At, all)
		}
	}
	a.Decision.At, a.Cost = 0, -1
	if all, err := decode(); err == nil {
		t.Errorf("cost %d: %+v", a.Cost, all)
	}
}

// A message may be as long as Redis takes one, 512 MB.
func TestAHugeMessageIsRefusedUnread(t *testing.T) {
	now := time.Now()
	offset := server{}.asked(now, 0, 0)
	huge := strings.Repeat("k", 25<<20)
	good := limits.Announcement{
		Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(1)), Cost: 1, Asked: now, Decision: limits.Decision{RetryAfter: time.Minute},
	}
	encoded := func(all ...limits.Announcement) string {
		return string(redisbackend.EncodeAnnouncements(all, offset, now))
	}
	long := good
	long.Key = huge
	for name, message := range map[string]string{
		"a key":        encoded(long),
		"bytes behind": encoded(good) + huge,
		"many denials": encoded(slices.Repeat([]limits.Announcement{good}, 500_000)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all, err := redisbackend.DecodeAnnouncements(message, offset, now)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || all != nil || n > 1<<20 {
			t.Errorf("%s: %d announcements, %v, and %d bytes were allocated to read %d", name, len(all), err, n, len(message))
		}
	}
}

func TestManySmallDenialsAreRefusedCheaply(t *testing.T) {
	now := time.Now()
	offset := server{}.asked(now, 0, 0)
	for _, element := range []string{"0", "{}", "null"} {
		message := `{"version":1,"instance":"AAAAAAAAAAA=","denials":[` + strings.Repeat(element+",", 1_000_000/(len(element)+1)) + element + "]}"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := redisbackend.DecodeAnnouncements(message, offset, now)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 16<<20 {
			t.Errorf("%s: %v, %d MiB allocated to refuse %d bytes in %v", element, err, n>>20, len(message), time.Since(now))
		}
	}
}

func TestTheLongestMessageOfAnAnnouncerIsRead(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	offset := server{}.asked(now, 0, 0)
	limit := limits.TokenBucket(limits.Per(999_999_999, 8783*time.Hour+59*time.Minute+59*time.Second+999_999*time.Microsecond), 999_999_998)
	all := slices.Repeat([]limits.Announcement{{
		Scope: strings.Repeat("s", 2<<10), Key: strings.Repeat("k", 2<<10), Limit: limit, Cost: 1e9, Asked: now,
		Decision: limits.Decision{RetryAfter: 50 * 365 * 24 * time.Hour, ResetAfter: 99 * 365 * 24 * time.Hour, Remaining: 1e9, At: 9e15},
	}}, 128)
	if heard, err := redisbackend.DecodeAnnouncements(string(redisbackend.EncodeAnnouncements(all, offset, now)), offset, now); len(heard) != 128 {
		t.Errorf("%d announcements, %v", len(heard), err)
	}
}

func FuzzDecodeAnnouncements(f *testing.F) {
	now := time.UnixMicro(1_800_000_000_000_000)
	offset := server{time.Minute}.asked(now, time.Millisecond, time.Millisecond)
	f.Add(string(redisbackend.EncodeAnnouncements([]limits.Announcement{{
		Scope: "s", Key: "k", Limit: limits.Ban(limits.PerMinute(3), time.Hour), Asked: now, Decision: limits.Decision{RetryAfter: time.Hour},
	}}, offset, now)))
	f.Add(`{"version":1,"instance":"AAAAAAAAAAA=","denials":[{"limit":"fixed-window 1/s","asked":-1}]}`)
	f.Add(`{"version":1,"instance":"AAAAAAAAAAA=","denials":[{}]}`)
	f.Fuzz(func(t *testing.T, message string) {
		all, err := redisbackend.DecodeAnnouncements(message, offset, now)
		if err != nil && all != nil {
			t.Fatal("a message that is refused has announcements")
		}
		for _, a := range all {
			if a.Asked.After(now) {
				t.Fatalf("asked %v after it arrived", a.Asked.Sub(now))
			}
			if a.Decision.RetryAfter < 0 || a.Decision.ResetAfter < 0 || a.Decision.Remaining < 0 || a.Decision.Remaining > 1e9 || a.Decision.At < 0 || a.Decision.At > 9e15 || a.Decision.Allowed {
				t.Fatalf("%+v", a.Decision)
			}
			if err := a.Limit.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
