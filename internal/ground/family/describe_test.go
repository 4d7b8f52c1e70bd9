package family

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

func TestDescribe(t *testing.T) {
	const s, us, never = time.Second, time.Microsecond, limits.Never
	bucket, third := limits.TokenBucket(limits.Per(5, 10*s), 5), limits.TokenBucket(limits.Per(3, time.Millisecond), 3)
	window, held := limits.FixedWindow(limits.Per(5, 10*s)), limits.Concurrent(5)
	ban := limits.Ban(limits.Per(5, 10*s), time.Minute)
	for _, test := range []struct {
		name  string
		limit limits.Limit
		n     int64
		told  Told // in seconds
		fits  bool

		remaining            int64
		retry, reset, window time.Duration
	}{
		{"allowed: what is left is spread over the time in which as much drains", bucket, 1, Told{3, 6, 0}, true, 2, 0, 6 * s,
			4 * s},
		{"allowed: that time is rounded up", third, 1, Told{InUse: 2}, true, 1, 0, 0, 334 * us},
		{"allowed, and nothing is left: until a unit fits", bucket, 1, Told{5, 9, 1}, true, 0, 0, 9 * s, s},
		{"allowed, and the key owes", bucket, 0, Told{8, 16, 8}, true, 0, 0, 16 * s, 8 * s},
		{"denied", bucket, 3, Told{5, 9, 5}, false, 0, 5 * s, 9 * s, 5 * s},
		{"denied, and less would fit", bucket, 3, Told{3, 6, 2}, false, 2, 2 * s, 6 * s, 2 * s},
		{"denied: it never fits", bucket, 6, Told{3, 6, 2}, false, 2, never, 6 * s, never},
		{"a window ends at one instant, with units left", window, 1, Told{3, 8, 8}, true, 2, 0, 8 * s, 8 * s},
		{"a window ends at one instant, with none left", window, 1, Told{5, 8, 8}, true, 0, 0, 8 * s, 8 * s},
		{"a window that owes is fresh later", window, 0, Told{7, 18, 8}, true, 0, 0, 18 * s, 8 * s},
		{"a window denies", window, 3, Told{5, 8, 8}, false, 0, 8 * s, 8 * s, 8 * s},
		{"a window that never has room", window, 6, Told{0, 0, 8}, false, 5, never, 0, never},
		{"a ban that is near", ban, 1, Told{3, 8, 8}, true, 2, 0, 8 * s, 8 * s},
		{"a charge that bans", ban, 9, Told{9, 60, 60}, true, 0, 0, 60 * s, 60 * s},
		{"a ban denies any charge until it ends", ban, 9, Told{9, 59, 59}, false, 0, 59 * s, 59 * s, 59 * s},
		{"units that are held have no window", held, 1, Told{3, 0, 1}, true, 2, 0, 0, never},
		{"units that are held deny for a guess", held, 3, Told{3, 0, 1}, false, 2, s, 0, never},
		{"more units than may be held", held, 6, Told{3, 0, 1}, false, 2, never, 0, never},
	} {
		_, l := Compile(test.limit)
		test.told.Reset *= 1_000_000
		test.told.Wait *= 1_000_000
		got := limits.Decision{Source: limits.SourceLease, Transient: true, Delay: s, Ticket: 7, At: 8}
		l.Describe(&got, test.n, test.told, test.fits)
		want := limits.Decision{
			Allowed: test.fits, Remaining: test.remaining, RetryAfter: test.retry, ResetAfter: test.reset,
			EffectiveWindow: test.window,
			Delay:           s, Ticket: 7, At: 8,
		}
		if got != want {
			t.Errorf("%s:\n%+v, want\n%+v", test.name, got, want)
		}
	}
}

// Waits that are longer than a Duration are the longest.
func TestDescribeTheLongestWaits(t *testing.T) {
	_, l := Compile(limits.FixedWindow(limits.PerHour(5)))
	var d limits.Decision
	l.Describe(&d, 1, Told{5, math.MaxInt64, math.MaxInt64}, false)
	if most := limits.Never.Truncate(time.Microsecond); d.RetryAfter != most || d.ResetAfter != most {
		t.Errorf("%+v", d)
	}
}
