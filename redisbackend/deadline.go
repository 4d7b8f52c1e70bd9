package redisbackend

// HonoursDeadline reports that [Backend.Take] and [Backend.Peek] fail as soon as
// the deadline of their context has passed, whatever the client then does: it does
// so on goroutines of the backend. Package breaker asks, and spares the backend a
// goroutine for each decision.
//
// The one exception is a process that runs late: one whose goroutines wait for five
// milliseconds and more until they run. It does not read replies in time, so while
// it is late and other replies come in, Take waits longer, for a second at most. A
// call on the caller's own goroutine that ends so is made once more.
func (b *Backend) HonoursDeadline() bool { return true }
