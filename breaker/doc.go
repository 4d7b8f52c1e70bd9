// Package breaker keeps a slow or dead backend from slowing or stopping the
// requests it limits. [New] puts a [Breaker] around a backend across a network,
// such as Redis: a backend itself, which answers or fails within a time budget,
// 50 ms unless set, and which stops asking one that keeps failing, until a probe
// finds it well again. What becomes of a request without a decision is not its
// business: the limiter applies each rule's [core.Failure], and the Source of
// every decision says so.
//
// # The order of wrapping
//
// From the outside in: limiter, denial cache, breaker, backend. [NewStack] wraps
// in that order. The denial cache is outside, so that a client known to be denied
// stays denied while the backend is away, and costs the breaker nothing.
//
// # The time budget
//
// A backend that implements [DeadlineHonourer], and says that it honours
// deadlines, gets a context that ends when the budget does, and is called on the
// caller's goroutine: its word is taken. Package redisbackend is such a backend. Any other is called on a goroutine of
// its own, with the caller's context, and left behind when the budget is spent.
// At most [Options].MaxCalls are under way at once, those left behind included;
// when none is free, a decision fails at once with [ErrBusy]. A call left
// behind writes to no memory of the caller's; what it takes stays taken, which
// can only deny early. The context of the caller may be looked at by it for as
// long as it runs.
//
// # When it opens
//
// A breaker opens, which means that the backend is not asked any more, when
//
//   - a number of decisions in a row have failed, 5 unless set, and have done so
//     for four time budgets or more, or
//   - half of at least 20 decisions failed within at most ten seconds, but not
//     within less than one.
//
// Both take time on purpose. One slow command holds up every call that is under
// way, so that many fail together; that is one failure, and no reason to count
// apart from all other instances, unless it lasts for more than five budgets.
//
// While it is open every decision fails at once with [ErrOpen], except that after
// a while, 1s unless set, and then again and again, a few are let through as
// probes, 3 unless set. If all of them succeed the breaker closes. If one fails
// it is open for another while. A probe is a decision of a caller, who waits for it
// as long as the budget lasts: without decisions there are no probes.
//
// A failure is an error of the backend, a panic in it, or a budget overrun.
// These are neither failures nor successes:
//
//   - a call whose caller's context ended before there was an answer. Where every
//     caller's time is shorter than the budget, a dead backend therefore costs each
//     all of its time: make the budget shorter;
//   - an error about charges that are wrong for any backend: a negative cost, an
//     invalid limit, one key charged by two limits, decisions that do not match
//     the charges in number. The breaker looks at the charges to know, once there
//     is an error: no error has to say so;
//   - an error that is [errors.ErrUnsupported] from Peek;
//   - an error that spares the backend, see [Sparer]: one of a Cluster's servers is
//     dead and others answer, and the decisions on their keys go on;
//   - [ErrBusy] while no call has overrun its budget: then there are more callers
//     than MaxCalls, and the backend is not to blame.
//
// # Reports
//
// Each time the breaker opens or closes there is exactly one report, in order, to
// [Options].OnChange and to [log/slog]: "weir: backend degraded" as a warning,
// "weir: backend recovered" as information. They are made on a goroutine of their
// own, which lives until all are made: a slow hook or log delays no decision.
// Probes that fail are not reported.
//
// # Concurrency and cost
//
// A Breaker is safe for concurrent use, has no goroutine when nothing happens,
// and needs no closing. While it is closed it adds about a microsecond, either
// way: a goroutine and no allocation, or the four allocations of
// [context.WithDeadline] and no goroutine. While it is open a decision costs a
// tenth of that and allocates nothing.
package breaker
