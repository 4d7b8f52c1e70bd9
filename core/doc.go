// Package core decides whether a request may go on. It knows no HTTP and no
// framework: a request is a value of any type R.
//
// A [Rule] is a named [limits.Limit] with the functions that find the key and the cost of a
// request. A [Limiter] decides each request against all of its rules in one atomic step. It returns
// an [Outcome]: the decision of each rule and the verdict on the request.
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
// A [backends.Backend] keeps the state. Package memory has one for one process; package
// redisbackend, with package remote, has one for several. A denied request takes nothing. A limit
// never admits more than its definition in docs/DESIGN.md, section 5, under any concurrency.
package core
