package redisbackend

// HonoursDeadline reports that [Backend.Take] and [Backend.Peek] fail as soon as
// the deadline of their context has passed, whatever the client then does: it does
// so on goroutines of the backend. Package breaker asks, and spares the backend a
// goroutine for each decision.
//
// The one exception is a process that does not run in time: a deadline that is
// noticed late is late for the reply, too, so that Take waits for it for up to
// twenty times the delay longer, or as long as others are answered, and for a
// second at most, all in all, or two while others are answered. A call that ends
// with its deadline while the server answers others may be made once more, for as
// long as the budget.
func (b *Backend) HonoursDeadline() bool { return true }
