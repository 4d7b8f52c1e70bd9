package shed

import "time"

// instant is the time since the limiter was made, by the monotonic clock.
type instant = time.Duration
