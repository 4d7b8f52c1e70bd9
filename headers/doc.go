// Package headers turns a [core.Outcome] into response header fields.
//
//	writer, err := headers.New(headers.Options{}, headers.Policies(config.Rules))
//	...
//	outcome := limiter.Decide(ctx, request)
//	writer.Write(w.Header(), &outcome)
//
// By default a [Writer] emits the fields of draft-ietf-httpapi-ratelimit-headers-11,
// on every answer, and Retry-After on those that are not allowed:
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=50;t=30
//
// [Options.Formats] chooses older and vendors' fields instead or besides, and
// [Options.Custom] adds one's own.
//
// # Numbers
//
// Seconds are rounded up and units down, so that a client that trusts them is
// never early and never over. A policy's quota is the most its limit allows at
// one instant, the burst, and its window the time that so many units take at
// the limit's rate: 10 per second with a burst of 100 reads q=100;w=10.
//
// Retry-After is the longest wait of the rules that stood in the way, at least
// 1, and left out if no wait helps. It is never less than t of those rules.
// [Options.RetryAfter] pins it to the window instead.
//
// A decision that rests on no count, because its rule failed open or was not
// asked, appears nowhere. With [OnDenial], neither does one that allowed.
//
// # Stacked limiters
//
// Where an outer limiter has already written to the header, policies and quotas
// are merged into one list. Rules of limiters that stack should have different
// names, since a name is what joins a quota to its policy. Fields that hold a
// single policy cannot be merged: they show, as one set, the policy that binds.
// A denial binds before what an outer limiter allowed, then the lower remaining,
// then the longer reset, then the outer. A field whose value is of another
// format than the one to be written is replaced.
package headers
