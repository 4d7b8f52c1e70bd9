package redisbackend

import "time"

// WithClock makes b decide by now instead of the server's clock. States then
// live for a day longer, since that clock may stand still meanwhile.
func WithClock(b *Backend, now func() time.Time) *Backend {
	b.now, b.slack = now, 24*time.Hour
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
