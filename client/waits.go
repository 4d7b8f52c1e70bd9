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

// observe notes a denial. Denials of requests in flight together are one strike; anew begins
// another. every is the time between two requests at the learned pace, 0 without one.
//
// The first wait is a second. If the server denies again after it, other processes use the limit,
// too. The more there are, the longer the waits have to be: they grow eightfold twice and then
// double, and up to as much again is added at random. If alone, the client shares the limit with no
// other: waits double, and up to a half is added.
//
//	strikes     1      2      3       4        5
//	alone       1.5 s  3 s    6 s     12 s     24 s at most
//	not alone   1.5 s  16 s   128 s   256 s    512 s at most
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
	case o.strikes <= 1 || alone:
		wait := time.Second << min(o.strikes-1, 12)
		o.until = max(o.until, now+wait+rand.N(wait/2))
	default:
		wait := time.Second << min(3*(o.strikes-1), o.strikes+3, 12)
		o.until = max(o.until, now+wait+rand.N(wait))
	}
}
