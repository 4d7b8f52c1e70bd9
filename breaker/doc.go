// Package breaker protects requests from a slow or dead backend. [New] wraps a backend
// that is reached over a network, such as Redis, in a [Breaker]. The Breaker is a
// backend itself. It answers or fails within a time budget, by default 50 ms. It stops
// calling a backend that keeps failing, until a probe finds that the backend works
// again. A request without a decision is left to the limiter, which applies the
// [core.Failure] of each rule and reports in the Source of every decision who made it.
//
// # The order of wrapping
//
// From the outside in: limiter, denial cache, breaker, backend. [NewStack] wraps in
// that order. The denial cache is outside the breaker, so that a client known to be
// denied stays denied while the backend fails, and costs the breaker nothing. With
// [Options].Lease there is a lease cache between the two, so that units that are held serve
// on while the backend fails.
//
// # The time budget
//
// A backend may implement [DeadlineHonourer] and report that it honours deadlines, as
// package redisbackend does. The breaker relies on that report. It calls such a backend
// on the caller's goroutine, with a context that ends when the budget does.
//
// The breaker calls any other backend on a goroutine of its own, with the caller's
// context, and abandons the call when the budget ends. [Options].MaxCalls bounds
// the calls under way, abandoned ones included; above it, a decision fails at once with
// [ErrBusy]. An abandoned call writes to no memory of the caller's, but may read the
// caller's context for as long as it runs. If it takes after all, the breaker ends that
// by [limits.Settle] with the inner backend: units of concurrency limits are released, and
// those of charges with Lasts are returned. Other units stay taken, which can only deny
// early.
//
// # When it opens
//
// An open breaker does not call the backend. A breaker opens when
//
//   - a number of decisions in a row, by default 5, have failed over four time budgets
//     or more, or
//   - within one to ten seconds at least 20 decisions were made and at least half of
//     them failed.
//
// Both conditions take time on purpose. One slow command delays every call that is
// under way, and many decisions fail together. That is one failure. Unless it lasts for
// more than five budgets, it is no reason for this instance to stop sharing its counts
// with the others.
//
// While the breaker is open, every decision fails at once with [ErrOpen]. After
// [Options].OpenFor, by default 1s, the breaker lets a few decisions through as probes,
// by default 3. If all of them succeed, it closes. If one fails, it stays open for
// OpenFor and then probes again. A probe is a decision of a caller, who waits for it
// until the budget ends. Without decisions there are no probes.
//
// A failure is an error of the backend, a panic in it, or a decision that exceeds the
// budget. These are neither failures nor successes:
//
//   - The caller's context ended before the answer. If every caller's deadline is
//     shorter than the budget, a dead backend therefore costs each caller all of its
//     time: make the budget shorter.
//   - An error about charges that are wrong for any backend: a negative cost, an
//     invalid limit, one key charged by two limits, or a number of decisions that
//     differs from the number of charges. The breaker checks the charges itself when
//     there is an error, so backends need not mark such errors.
//   - An error from Peek that is [errors.ErrUnsupported].
//   - An error that spares the backend, see [Sparer]: one server of a Cluster is dead,
//     say, while decisions on the keys of the others succeed.
//   - [ErrBusy] while no call has exceeded its budget. There are more callers than
//     MaxCalls then, and the backend is not to blame.
//
// # Reports
//
// The breaker reports each opening and closing exactly once, in order, to
// [Options].OnChange and to [log/slog]: "weir: backend degraded" as a warning, "weir:
// backend recovered" as information. It does not report failed probes. Reports are made
// on a goroutine of their own, which ends when all are made, so a slow hook or log
// delays no decision.
//
// # Concurrency and cost
//
// A Breaker is safe for concurrent use. It has no goroutine while nothing happens, and
// needs no closing. While it is closed it adds about a microsecond to a decision: a
// goroutine and no allocation, or, if the backend honours deadlines, the four
// allocations of [context.WithDeadline] and no goroutine. While it is open a decision
// costs a tenth of that and allocates nothing.
package breaker
