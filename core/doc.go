// Package core decides whether a request may go on. It knows no HTTP and no
// framework: a request is a value of any type R.
//
// A [limits.Limit] is an algorithm with a rate: data and no behaviour. A [Rule] is a named
// limit with the functions that find the key and the cost of a request. A [Limiter]
// decides each request against all of its rules in one atomic step, and returns an
// [Outcome]: a [limits.Decision] for each rule, and what they come to.
//
//	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
//		Name:  "mails",
//		Limit: limits.TokenBucket(limits.PerMinute(10), 5),
//		Key:   func(recipient string) (string, error) { return recipient, nil },
//	}}})
//	outcome := limiter.Decide(ctx, "ann@example.com")
//	if !outcome.Allowed() {
//		// retry in outcome.RetryAfter()
//	}
//
// A [limits.Backend] keeps the state and takes the units. Package memory has the one that
// lives in the process. Package redisbackend has one that processes share; what belongs in
// front of such a backend is in package remote.
//
// Time is counted in whole microseconds, and no float decides anything. A denied
// request takes nothing. A limit never admits more than its definition in
// docs/DESIGN.md, section 5, whatever runs at once.
package core
