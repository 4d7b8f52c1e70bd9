package headers

import (
	"time"

	"github.com/weir-go/weir/core"
)

// RetryAfter says what Retry-After is on a denial. It is never less than the least
// wait that works, and is left out if no wait helps, whichever is chosen.
type RetryAfter uint8

const (
	// LeastWait is the longest wait of the rules that denied: a client that comes
	// back then is allowed, unless it has asked for something else meanwhile.
	LeastWait RetryAfter = iota
	// Window is the longest window of the rules that denied, w of their policies,
	// or the least wait if that is longer. It is for clients that expect the same
	// number in all denials, as httprate sends it. They wait longer than they have
	// to. The parameter t of IETF stays the least wait; the reset of Draft6 and
	// Draft7 follows Retry-After on denials, as always.
	Window
)

// retry returns the seconds of Retry-After for o, which is not allowed; 0 if no
// wait helps.
func (w *Writer) retry(o *core.Outcome, jitter time.Duration) int64 {
	wait := o.RetryAfter()
	if wait == core.Never {
		return 0
	}
	if w.retryAfter == Window && o.Verdict() == core.Denied {
		wait = max(wait, w.longestWindow(o))
	}
	return max(1, ceilSeconds(plus(wait, jitter)))
}

// longestWindow returns the longest window of the rules that denied o.
func (w *Writer) longestWindow(o *core.Outcome) time.Duration {
	longest := int64(0)
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed {
			longest = max(longest, w.terms(&d).window)
		}
	}
	return time.Duration(min(longest, maxSeconds)) * time.Second
}
