package redisbackend

// HonoursDeadline reports that [Backend.Take] and [Backend.Peek] fail as soon as
// the deadline of their context has passed, whatever the client is doing: the client
// works on goroutines of the backend. Package breaker asks, and then needs no goroutine
// of its own for a decision.
//
// The one exception is a process that runs late: its goroutines wait for five
// milliseconds or more until they run, so it does not read replies in time. While it is
// late and other replies come in, Take waits longer, for a second at most. A call on the
// caller's own goroutine that fails for this reason is repeated once.
func (b *Backend) HonoursDeadline() bool { return true }
