package headers

import (
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// RetryAfter selects the value of Retry-After on a denial. In each case the value is at least the
// shortest wait that works, and Retry-After is omitted if no wait helps.
type RetryAfter uint8

const (
	// LeastWait is the longest wait among the rules that denied. A client that comes
	// back after it is allowed, unless it has sent other requests meanwhile.
	LeastWait RetryAfter = iota
	// Window is the longest window of the rules that denied (w of their policies), or LeastWait if
	// that is longer. A concurrency limit has no window. Window suits clients that expect the same
	// number in all denials, as httprate sends it. They wait longer than necessary. The parameter t
	// of IETF stays the least wait. The reset of Draft6 and Draft7 equals Retry-After on denials,
	// as always.
	Window
)

// retry returns Retry-After in seconds for o, which is a denial, or 0 if no wait helps.
func (w *Writer) retry(o *core.Outcome, jitter time.Duration) int64 {
	wait := o.RetryAfter()
	if wait == limits.Never {
		return 0
	}
	if w.retryAfter == Window && o.Verdict() == core.Denied {
		wait = max(wait, w.longestWindow(o))
	}
	return max(1, ceilSeconds(plus(wait, jitter)))
}

// longestWindow returns the longest window among the rules that denied o.
func (w *Writer) longestWindow(o *core.Outcome) time.Duration {
	longest := int64(0)
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.Mode() == core.Enforce {
			longest = max(longest, w.allowance(d).window)
		}
	}
	return time.Duration(min(longest, maxSeconds)) * time.Second
}
