package remote

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// Hear has a denial cache hear an announcement.
func Hear(c *DenialCache, a limits.Announcement) { c.hear(a) }

// Repeated returns how many denials are announced again.
func Repeated(maxAge time.Duration) int { return repeatTicks * newRepeats(maxAge).perTick }
