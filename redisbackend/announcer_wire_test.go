package redisbackend_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// A denial ends elsewhere as long after it ends where it was decided as its message was on its
// way, whatever the clocks of the processes show.
func TestTheWaitOfAnAnnouncedDenialCountsFromReceipt(t *testing.T) {
	asked := time.Now().Truncate(time.Microsecond)
	a := backends.Announcement{
		Scope: "per user", Key: "ann\x00\xff", Limit: limits.TokenBucket(limits.PerHour(7), 9), Cost: 2,
		Asked: asked, Decision: limits.Decision{RetryAfter: time.Minute, ResetAfter: time.Hour, Remaining: 1},
	}
	over := a
	over.Decision.RetryAfter = time.Second
	message := redisbackend.EncodeAnnouncements([]backends.Announcement{a, over}, asked.Add(10*time.Second))
	arrived := asked.Add(-24 * time.Hour) // on another clock
	all, err := redisbackend.DecodeAnnouncements(message, arrived)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d announcements, %v", len(all), err)
	}
	a.Asked = arrived
	a.Decision = limits.Decision{
		RetryAfter: 50 * time.Second, ResetAfter: time.Hour - 10*time.Second, EffectiveWindow: 50 * time.Second,
		Remaining: 1, At: arrived.UnixMicro(),
	}
	if all[0] != a {
		t.Errorf("got  %+v\nwant %+v", all[0], a)
	}
	if all[1].Decision.RetryAfter != 0 {
		t.Errorf("a denial that is over lasts %v", all[1].Decision.RetryAfter)
	}
}

// The numbers of a message appear in the headers of answers. A forger may write any of them.
func TestNumbersOutOfRangeAreNotPassedOn(t *testing.T) {
	for numbers, possible := range map[string]bool{
		`"cost":1`: true,
		`"cost":1,"retry_after":60000000,"reset_after":60000000,"remaining":9223372036854775807`: true,
		`"cost":1,"remaining":-1`:                    true,
		`"cost":-1`:                                  false,
		`"cost":1,"retry_after":-1`:                  false,
		`"cost":1,"reset_after":-1`:                  false,
		`"cost":1,"retry_after":9223372036854775807`: false,
		`"cost":1,"reset_after":9223372036854775807`: false,
		`"cost":1,"reset_after":1e3`:                 false,
	} {
		all, err := redisbackend.DecodeAnnouncements(
			`{"version":1,"instance":"AAAAAAAAAAA=","denials":[{"limit":"fixed-window 1/s",`+numbers+`}]}`, time.Now())
		if (err == nil) != possible {
			t.Errorf("%s: %+v, %v", numbers, all, err)
		}
		if possible && (all[0].Decision.Remaining < 0 || all[0].Decision.Remaining > 1e9) {
			t.Errorf("%s: %+v", numbers, all)
		}
	}
}

// A message may be as long as Redis takes one, 512 MB.
func TestAHugeMessageIsRefusedUnread(t *testing.T) {
	now := time.Now()
	huge := strings.Repeat("k", 25<<20)
	good := backends.Announcement{
		Scope: "s", Key: "k", Limit: limits.FixedWindow(limits.PerHour(1)), Cost: 1, Asked: now,
		Decision: limits.Decision{RetryAfter: time.Minute},
	}
	encoded := func(all ...backends.Announcement) string {
		return redisbackend.EncodeAnnouncements(all, now)
	}
	long := good
	long.Key = huge
	for name, message := range map[string]string{
		"a key":        encoded(long),
		"bytes behind": encoded(good) + huge,
		"many denials": encoded(slices.Repeat([]backends.Announcement{good}, 500_000)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all, err := redisbackend.DecodeAnnouncements(message, now)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || all != nil || n > 1<<20 {
			t.Errorf("%s: %d announcements, %v, and %d bytes were allocated to read %d", name, len(all), err, n, len(message))
		}
	}
}

func TestManySmallDenialsAreRefusedCheaply(t *testing.T) {
	now := time.Now()
	for _, element := range []string{"0", "{}", "null"} {
		message := `{"version":1,"instance":"AAAAAAAAAAA=","denials":[` +
			strings.Repeat(element+",", 1_000_000/(len(element)+1)) + element + "]}"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := redisbackend.DecodeAnnouncements(message, now)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 16<<20 {
			t.Errorf("%s: %v, %d MiB allocated to refuse %d bytes in %v", element, err, n>>20, len(message), time.Since(now))
		}
	}
}

func TestTheLongestMessageOfAnAnnouncerIsRead(t *testing.T) {
	now := time.UnixMicro(1_800_000_000_000_000)
	limit := limits.TokenBucket(
		limits.Per(999_999_999, 8783*time.Hour+59*time.Minute+59*time.Second+999_999*time.Microsecond), 999_999_998,
	)
	all := slices.Repeat([]backends.Announcement{{
		Scope: strings.Repeat("s", 2<<10), Key: strings.Repeat("k", 2<<10), Limit: limit, Cost: 1e9, Asked: now,
		Decision: limits.Decision{
			RetryAfter: 50 * 365 * 24 * time.Hour, ResetAfter: 99 * 365 * 24 * time.Hour, Remaining: 1e9,
		},
	}}, 128)
	if heard, err := redisbackend.DecodeAnnouncements(redisbackend.EncodeAnnouncements(all, now), now); len(heard) != 128 {
		t.Errorf("%d announcements, %v", len(heard), err)
	}
}

func FuzzDecodeAnnouncements(f *testing.F) {
	now := time.UnixMicro(1_800_000_000_000_000)
	f.Add(redisbackend.EncodeAnnouncements([]backends.Announcement{{
		Scope: "s", Key: "k", Limit: limits.Ban(limits.PerMinute(3), time.Hour), Asked: now,
		Decision: limits.Decision{RetryAfter: time.Hour},
	}}, now))
	f.Add(`{"version":1,"instance":"AAAAAAAAAAA=","denials":[{"limit":"fixed-window 1/s","retry_after":-1}]}`)
	f.Add(`{"version":1,"instance":"AAAAAAAAAAA=","denials":[{}]}`)
	f.Fuzz(func(t *testing.T, message string) {
		all, err := redisbackend.DecodeAnnouncements(message, now)
		if err != nil && all != nil {
			t.Fatal("a message that is refused has announcements")
		}
		for _, a := range all {
			d := a.Decision
			if d.RetryAfter < 0 || d.ResetAfter < 0 || d.Remaining < 0 || d.Remaining > 1e9 || d.Allowed {
				t.Fatalf("%+v", d)
			}
			if err := a.Limit.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
