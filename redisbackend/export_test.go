package redisbackend

import "time"

// WithClock makes b decide by now instead of the server's clock, by 2255 at the
// latest, which is 2^53 microseconds. States then live for a day longer, since
// that clock may stand still meanwhile.
func WithClock(b *Backend, now func() time.Time) *Backend {
	latest := time.UnixMicro(1<<53 - 1)
	b.now = func() time.Time {
		if t := now(); t.Before(latest) {
			return t
		}
		return latest
	}
	b.slack = (24 * time.Hour).Milliseconds()
	return b
}

// Settle waits until b has given back what it has to.
func Settle(b *Backend) { b.background.Wait() }

// SlotOf is the hash slot of a name.
var SlotOf = slotOf

// Name is the name of a state in Redis.
func Name(b *Backend, scope, key string) string { return b.name(scope, key) }

// Judge is what Check makes of a server's INFO.
var Judge = judge
