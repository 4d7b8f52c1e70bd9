package backends

import "time"

// BreakerStatus is the state of a circuit breaker, for health checks and metrics.
type BreakerStatus struct {
	State  string    // "open" or "closed"
	Since  time.Time // when the breaker entered State
	Opened int64     // how often it has opened
}
