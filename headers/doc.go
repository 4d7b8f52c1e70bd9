// Package headers turns a [core.Outcome] into response header fields.
//
//	writer, err := headers.New(headers.Options{}, config.Rules)
//	...
//	outcome := limiter.Decide(ctx, request)
//	writer.Write(w.Header(), &outcome)
//
// By default a [Writer] emits the fields of draft-ietf-httpapi-ratelimit-headers-11 on every
// answer, and Retry-After on the answer to every request that is not allowed:
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=50;t=30
//
// [Options.Formats] chooses older or vendor-specific fields, instead of these or beside them.
// [Options.Custom] adds fields of your own.
//
// # Numbers
//
// Seconds are rounded up and units are rounded down, so a client that follows them never comes too
// early and never sends too much. The quota of a policy is the burst of the limit: the most that
// the limit allows at one instant. The window of a policy is the time in which the limit's rate
// yields that many units: 10 per second with a burst of 100 reads q=100;w=10. With
// [Options.BurstParameter] the policy shows the rate and the burst apart.
//
// Retry-After is the longest wait among the rules that did not allow the request. It is at least 1,
// and omitted if no wait helps. It is never less than t of those rules. [Options.RetryAfter] can
// make it the window instead.
//
// The fields omit a rule that failed open or was not asked, because nothing was counted. [OnDenial]
// also omits the rules that allowed the request.
//
// A concurrency limit has no window, so its policy has no w and its quota no t:
//
//	RateLimit-Policy: "uploads";q=10;qu="concurrent-requests"
//	RateLimit: "uploads";r=3
//
// Formats that require a reset show one second. RateLimit-Policy of Draft6 and Draft7, which
// require w, omits the limit. The policy of a ban is its number in its period; on a denial, t and
// Retry-After are the rest of the ban.
//
// An answer with status 503 has Retry-After and no other field: see [Writer.Write].
//
// # Stacked limiters
//
// A header may already have the fields of an outer limiter. Fields that hold a list are merged: the
// list names the policies and quotas of both limiters. Give the rules of stacked limiters different
// names, because the name connects a quota with its policy. Fields that hold a single policy cannot
// be merged. They show, as one set, the policy that binds: a denial before an allowance of the
// outer limiter, then the lower remaining, then the longer reset, then the outer limiter. An
// existing value in another format is replaced.
package headers
