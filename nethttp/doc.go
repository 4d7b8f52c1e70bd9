// Package nethttp limits the requests of net/http handlers.
//
// A [Limiter] decides each request against its rules before the next handler sees it. It describes
// the decision in response header fields and answers requests that are denied. It wraps a whole mux
// or a single route:
//
//	limiter := nethttp.MustPerAddress(limits.PerMinute(100), keyfuncs.Peer)
//	mux.Handle("POST /login", limiter.Handler(login)) // one route
//	handler := limiter.Handler(mux)                   // everything
//
// [New] takes a [Config], for any rules:
//
//	limiter := nethttp.MustNew(nethttp.Config{
//		Rules: []nethttp.Rule{{
//			Name:  "per-user",
//			Limit: limits.TokenBucket(limits.PerMinute(100), 20),
//			Key:   keyfuncs.FromContext(userFrom),
//		}},
//	})
//
// A denied request is answered with status 429, Retry-After and a body of type
// application/problem+json (RFC 9457), or text/plain if the client prefers it. The status is 503 if
// only rules with DenyAs503 denied the request, or if a rule could not decide and does not fail
// open. An answer with status 503 names no rule, and its only number is Retry-After.
//
// If the context of a request has ended, the next handler is not called and the answer is a bare
// 503. A client that has left does not see the answer, but logs do. If a deadline or the shutdown
// of the server ended the context, the client still listens, and does not mistake an empty 200 for
// success.
//
// The ResponseWriter is passed on unchanged, so flushing, hijacking and protocol upgrades work as
// without the limiter. There are two exceptions. If a rule has a FinalCost, it is wrapped in a
// writer that records status and bytes. If a handler has lost or changed the header fields, as a
// cache and a proxy may, later answers get a writer that writes the fields again when the status is
// written. The wrapper is an http.Flusher, Hijacker, Pusher or CloseNotifier if the server's own
// writer is, and works with http.ResponseController. It lacks only combinations that no server has,
// such as a Pusher that is also a Hijacker.
//
// # The end of a request
//
// Rules with a concurrency limit or a FinalCost act at the end of a request: they release its
// units, or charge its final cost. The request ends when the next handler returns or panics.
// [Detach] makes it end later or earlier, and [Spend] adds to its final cost. If a handler hijacks
// its connection and returns, the request ends unless the handler called Detach. Callers of
// [Controls.Decide] must call [core.Outcome.End].
//
// The [core.Result] has the status of the answer: 200 if nothing was written, 101 if the connection
// was hijacked without a status. Other informational answers (1xx) do not count. It is 0 if nothing
// was written and the handler panicked or the request's context had ended. Left is true if that
// context was canceled, or ended in a queue. The handler that answers after a deadline of the
// server still has a client.
//
// # Rules that change
//
// [Controls.Replace] replaces the rules while the program runs, and [Controls.Override] changes one
// rule for a time. Requests in flight end under their old rules, and used units stay used. A rule
// with the Mode [core.Shadow] counts without denying; answers do not show it. [Controls.Explain]
// returns the outcome that a request would have.
//
// # Queues
//
// If a limit is a [limits.LeakyQueue], an allowed request waits for its turn before the next
// handler is called. At most [Config].MaxWaiting requests wait at once. For each key, at most one
// fewer than the capacity of the queue wait.
//
// If the context of a request ends while it waits, the next handler is not called. net/http ends
// the context when it notices that the client has left. It watches every stream of HTTP/2. It
// watches a connection of HTTP/1.1 only after the request's body has been read to its end, and only
// until further bytes arrive. A request with an unread body is therefore served even if its client
// has left. If that matters, read the body, up to a bound, in a handler outside the limiter.
//
// http.Server.ReadTimeout and WriteTimeout continue to run in the queue. Make them longer than the
// longest wait; otherwise the handler cannot read the body or write the answer. ReadHeaderTimeout
// ends before the queue.
//
// # Other frameworks
//
// Packages chimw, ginmw, echomw, echo5mw and fibermw do the same for chi, gin, echo and Fiber, and
// packages grpcmw, connectmw, connect2mw and mcpmw for remote procedure calls. Do not put a limiter
// of this package with rules that have an end into echo.WrapMiddleware, Fiber's
// adaptor.HTTPMiddleware or another bridge: see [Limiter.Handler].
package nethttp
