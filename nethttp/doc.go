// Package nethttp limits the requests of net/http handlers.
//
// A [Limiter] decides each request against its rules before the next handler sees it.
// It describes the decision in response header fields and answers requests that are
// denied. It wraps a whole mux or a single route:
//
//	limiter := nethttp.MustNew(nethttp.Config{
//		Rules: []nethttp.Rule{{
//			Name:  "per-client",
//			Limit: limits.SlidingWindow(limits.PerMinute(100)),
//			Key:   keyfuncs.Address(keyfuncs.Peer),
//		}},
//	})
//	mux.Handle("POST /login", limiter.Handler(login)) // one route
//	handler := limiter.Handler(mux)                   // everything
//
// A denied request is answered with status 429, Retry-After and a body of type
// application/problem+json (RFC 9457), or text/plain if the client prefers it. The
// status is 503 if only rules with DenyAs503 denied the request, or if it cannot be
// decided and its rule does not fail open. An answer with status 503 names no rule and
// has no numbers but Retry-After.
//
// A request whose context has ended is not handed on. The answer is a bare 503. A client that
// has left does not see it, but logs do. One that listens, because a deadline of
// the server or its shutdown has ended the context, does not take an empty 200 for success.
//
// The ResponseWriter is passed on unchanged, so flushing, hijacking and protocol
// upgrades work as without the limiter. Only if a rule has a FinalCost is it wrapped, in a
// writer that records status and bytes. That one is an http.Flusher, Hijacker, Pusher or
// CloseNotifier if the server's own is, and works with http.ResponseController. It loses
// only what no server combines, such as the Pusher of a writer that is also a Hijacker.
//
// # The end of a request
//
// Rules with a concurrency limit or a FinalCost have work to do at the end of a request:
// they release what it held, or charge what it has really cost. The request ends when the
// next handler returns, with or without a panic. [Detach] ends it later or earlier, and
// [Spend] says what it has cost. A handler that returns after hijacking its connection has
// ended the request unless it has called Detach. Whoever calls [Limiter.Decide] must call
// [core.Outcome.End].
//
// The [core.Result] has the status of the answer: 200 if nothing was written, 101 if the
// connection was hijacked without a status. Informational answers (1xx) but 101 do not
// count. It is 0 if nothing was written and the handler panicked or the client left. Left
// is true if the request's context had ended, by the client or a deadline.
//
// # Rules that change
//
// [Limiter.Replace] puts other rules into force while the program runs, and
// [Limiter.Override] changes one rule for a time. Requests under way end as they began, and
// what keys have used stays used. A rule with the Mode [core.Shadow] counts and denies
// nothing; answers do not show it. [Limiter.Explain] says what a request would get.
//
// # Queues
//
// If a limit is a [limits.LeakyQueue], an allowed request waits for its turn before the
// next handler is called. At most [Config].MaxWaiting requests wait at once, and of
// each key at most one fewer than the capacity of the queue.
//
// A request whose context ends while it waits is not handed on. net/http ends the
// context when it notices that the client has left, which it does not always do. It
// watches every stream of HTTP/2. It watches a connection of HTTP/1.1 only after the
// request's body has been read to its end, and only until further bytes arrive. So a
// request with an unread body is served although its client has left. If that matters,
// read the body, up to a bound, in a handler outside the limiter.
//
// http.Server.ReadTimeout and WriteTimeout continue to run in the queue. Make them
// longer than the longest wait, otherwise the handler cannot read the body, or cannot
// answer. ReadHeaderTimeout ends before the queue.
//
// # Other frameworks
//
// Packages chimw, ginmw, echomw and echo5mw do the same for chi, gin and echo, and packages
// grpcmw and connectmw for remote procedure calls.
package nethttp
