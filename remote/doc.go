// Package remote is what stands before a backend across a network, such as Redis. From the
// outside in: a [DenialCache] answers those who go on after a denial; a [LeaseCache], if asked
// for, lets busy keys be decided in this process by units that it has taken for a while; a
// [Breaker] answers or fails within a time budget, 50 ms by default, and stops calling a backend
// that keeps failing. [NewStack] puts them together, so remembered denials and held units serve
// on while the backend fails. The limiter then applies the failure policy of each rule, and the
// Source of every decision says who made it.
//
// # The time budget
//
// The breaker calls a backend that honours deadlines, as that of package redisbackend does, on
// the caller's goroutine, with a context that ends when the budget does. It calls any other
// backend on a goroutine of its own, with the caller's context, and abandons the call when
// the budget ends. About 1,000 of these may be under way; then decisions fail with [ErrBusy].
//
// An abandoned call writes to no memory of the caller's, but may read the caller's context
// for as long as it runs. If it takes after all, the breaker releases the units of
// concurrency limits and returns those of charges with Lasts, by [backends.Settle]. Other
// units stay taken, which can only deny early.
//
// # The circuit
//
// The breaker counts the decisions of the last ten seconds, or of ten budgets if that is
// longer. It opens when
//
//   - five in a row have failed, over four budgets or more, or
//   - ten have failed, no fewer than succeeded, over twenty budgets (one second) or more.
//
// Both take time on purpose: one slow command fails every call under way, and that is no
// reason to stop sharing counts with other instances. A process that makes fewer than five
// decisions in ten seconds never opens its breaker.
//
// While it is open, decisions fail at once with [ErrOpen]. After [BreakerOptions].OpenFor, one
// decision at a time is let through as a probe: a success closes the breaker, a failure
// keeps it open for OpenFor. Without decisions there are no probes.
//
// A failure is an error of the backend, a panic in it, or no answer within the budget. These
// are neither failures nor successes:
//
//   - The caller's context ended first. If every caller's deadline is shorter than the
//     budget, a dead backend costs each caller all of its time: make the budget shorter.
//   - An error about charges that are wrong for any backend. The breaker checks them itself
//     when there is an error, so backends need not mark such errors.
//   - An error that is [errors.ErrUnsupported], or that spares the backend: see [Breaker].
//   - [ErrBusy], unless the callers of most calls under way have given up.
//
// # Cost
//
// A closed breaker adds about a microsecond to a decision: a goroutine and no allocation,
// or, for a backend that honours deadlines, no goroutine and the four allocations of [context.WithDeadline].
// An open one adds a tenth of that. No goroutine runs while nothing happens.
package remote
