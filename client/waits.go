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

// observe notes a denial that asks for a wait. A little is added at random, so that requests of
// several processes do not come back together.
func (w *waits) observe(now instant, a *answer) {
	if until := now + a.wait + rand.N(min(a.wait/16, time.Second)+1); until > w.until {
		w.until, w.source = until, a.source
	}
}

func (w *waits) next() (instant, string) { return w.until, w.source }

// backoff is how long a client waits after denials that ask for no wait.
type backoff struct {
	until   instant
	strikes int // denials in a row
}

// observe notes a denial. Requests that were sent together and are denied together are one strike.
// every is the time between two requests at the pace that was learned; 0 if none is.
//
// The first wait is a second. If the server takes nothing after it, other processes use the limit
// as well, and the more of them there are the longer the waits have to be: they grow eightfold, and
// are spread over as much again.
//
// They double if the client is alone with its limit: in the dialects, or if the server was busy with it.
func (o *backoff) observe(now instant, anew, alone bool, every time.Duration) {
	if anew || o.strikes == 0 {
		o.strikes++
	}
	switch {
	case every >= slow:
		o.until = now + every*3/4 + rand.N(every/2)
	case every > 0:
		// Requests go on at that pace, as far as the server takes them. If it is too fast, the one
		// that was denied would be denied again after the time of a single request.
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

func (o *backoff) next() instant { return o.until }
