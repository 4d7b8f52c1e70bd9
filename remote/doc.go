// Package remote wraps a backend across a network, so that a slow or failing one does not hold
// requests up. Users of Redis need not import it: redisbackend.Open returns a backend with all
// of this around it. Import it to wrap a backend of your own.
//
// From the outside in, [NewStack] wraps a backend in
//
//   - a [DenialCache], which answers clients that go on after a denial;
//   - a [LeaseCache], if asked for, which takes units of busy keys in advance, so that this
//     process decides them;
//   - a [Breaker], which answers or fails within a time budget, 50 ms by default, and stops
//     calling a backend that keeps failing.
//
// While the backend fails, remembered denials and leased units still answer. For the rest the
// limiter applies the failure policy of each rule. The Source of a decision says who made it.
//
// # The time budget
//
// The breaker calls a backend that honours deadlines, as redisbackend does, on the caller's
// goroutine, with a context that ends when the budget does. It calls any other backend on a
// goroutine of its own, with the caller's context, and abandons the call when the budget ends.
// About 1,000 such calls may be under way. Beyond that decisions fail with [ErrBusy].
//
// An abandoned call writes to no memory of the caller's, but may read the caller's context for as
// long as it runs. If it takes units after all, the breaker returns those of charges with Lasts
// and of concurrency limits, by [backends.Settle]. Other units stay taken, which can only deny
// early.
//
// # The circuit
//
// The breaker counts the decisions of the last ten seconds, or of ten budgets if that is longer.
// It opens when
//
//   - five in a row have failed, over four budgets or more, or
//   - ten have failed, no fewer than succeeded, over twenty budgets (one second) or more.
//
// Both take time on purpose: one slow command fails every call under way, and that is no reason to
// stop sharing counts with other instances. A process that makes fewer than five decisions in ten
// seconds never opens its breaker.
//
// While it is open, decisions fail at once with [ErrOpen]. After [BreakerOptions].OpenFor it lets
// one decision through at a time, the probe. A success closes the breaker; a failure keeps it open
// for another OpenFor. Without decisions there are no probes.
//
// A failure is an error of the backend, a panic in it, or no answer within the budget. These count
// neither as failures nor as successes:
//
//   - The caller's context ended first. If every caller's deadline is shorter than the budget,
//     a dead backend costs each caller all of its time: make the budget shorter.
//   - The charges are wrong for any backend. The breaker checks them itself after an error, so
//     backends need not mark such errors.
//   - The error is [errors.ErrUnsupported], or spares the backend: see [Breaker].
//   - The error is [ErrBusy], unless the callers of most calls under way have given up.
//
// # Cost
//
// A closed breaker adds about a microsecond to a decision: a goroutine and no allocation, or for a
// backend that honours deadlines no goroutine and the four allocations of [context.WithDeadline].
// An open one adds a tenth of that. No goroutine runs while nothing happens.
package remote
