// Package nethttp limits the requests of net/http handlers.
//
// A [Limiter] decides each request against its rules before the next handler sees it.
// It describes the decision in response header fields and answers requests that are
// denied. It wraps a whole mux or a single route:
//
//	limit := nethttp.MustNew(nethttp.Config{
//		Rules: []nethttp.Rule{{
//			Name:  "per-client",
//			Limit: core.SlidingWindow(core.PerMinute(100)),
//			Key:   keyfuncs.Address(keyfuncs.Peer),
//		}},
//	})
//	mux.Handle("POST /login", limit.Handler(login)) // one route
//	http.ListenAndServe(":8080", limit.Handler(mux)) // everything
//
// A denied request is answered with status 429, Retry-After and a body of type
// application/problem+json (RFC 9457), or text/plain if the client prefers it. A
// request that cannot be decided, and whose rule does not fail open, is answered with
// status 503.
//
// If the client has left, its request is neither answered nor handed on. If the
// server's own deadline has ended the request, the answer is a bare 503, so that the
// client does not take an empty 200 for success.
//
// The ResponseWriter is passed on unchanged, so flushing, hijacking and protocol
// upgrades work as without the limiter.
//
// # Queues
//
// If a limit is a [core.LeakyQueue], an allowed request waits for its turn before the
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
// Packages chimw, ginmw, echomw and echo5mw do the same for chi, gin and echo. They are
// built on a [Gate].
package nethttp
