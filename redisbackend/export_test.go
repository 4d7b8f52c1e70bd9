package redisbackend

import "time"

// WithClock makes b decide by now instead of the server's clock. States then
// live for a day longer, since that clock may stand still meanwhile.
func WithClock(b *Backend, now func() time.Time) *Backend {
	b.now, b.slack = now, 24*time.Hour
	return b
}
