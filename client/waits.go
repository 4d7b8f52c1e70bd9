package client

import (
	"math/rand/v2"
	"time"
)

// waits is how long denials and refused connections ask to wait.
type waits struct {
	until  instant
	source string
}

// observe notes a denial that asks for a wait. It adds up to a sixteenth at random, a second at
// most, so that requests of several processes do not come back together.
func (w *waits) observe(now instant, a *answer) {
	if until := now + a.wait + rand.N(min(a.wait/16, time.Second)+1); until > w.until {
		w.until, w.source = until, a.source
	}
}

// backoff is how long a client waits after denials that ask for no wait.
type backoff struct {
	until   instant
	strikes int // denials in a row
}

// silences are the waits after silent denials in a row, and how much is added at random. If a
// request is denied again after the first wait, other processes use the limit, too. The third wait
// is the longest: a hundred processes must not come back at once. Processes that are denied again
// have starved, and come back more often.
var silences = [...]struct{ wait, more time.Duration }{
	{time.Second, time.Second / 2},
	{8 * time.Second, 20 * time.Second},
	{90 * time.Second, 3 * time.Minute},
	{time.Minute, time.Minute}, // and all later ones
}

// observe notes a denial. Denials of requests in flight together are one strike; anew begins
// another. alone says that no other process uses the limit, as far as is known. every is the time
// between two requests at the learned pace, 0 without one.
//
//	strikes     1             2             3              4
//	alone       1 to 1.5 s    2 to 3 s      4 to 6 s       8 to 12 s
//	not alone   1 to 1.5 s    8 to 28 s     90 to 270 s    60 to 120 s
func (o *backoff) observe(now instant, anew, alone bool, every time.Duration) {
	if anew || o.strikes == 0 {
		o.strikes++
	}
	switch {
	case every >= slow:
		o.until = now + every*3/4 + rand.N(every/2)
	case every > 0:
		// Requests go on at that pace, as far as the server takes them. If the pace is too fast,
		// the denied request would be denied again after the time of a single request.
		wait := every << min(o.strikes, 12)
		o.until = now + min(wait+rand.N(wait/4+1), time.Hour)
	case alone:
		wait := time.Second << min(o.strikes-1, 12)
		o.until = max(o.until, now+wait+rand.N(wait/2))
	default:
		s := silences[min(o.strikes, len(silences))-1]
		o.until = max(o.until, now+s.wait+rand.N(s.more))
	}
}
