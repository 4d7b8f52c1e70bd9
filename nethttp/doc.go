// Package nethttp limits the requests of net/http handlers.
//
// A [Limiter] decides each request against its rules before the next handler
// sees it, describes the decision in response header fields, and answers
// requests that are denied. It wraps a whole mux or a single route:
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
// application/problem+json (RFC 9457) or, if the client prefers it, text/plain.
// A request that cannot be decided, and whose rule does not fail open, is
// answered with status 503. A request whose context has ended is not answered at
// all, nor handed on; if it was the server's own deadline that ended it, status
// 503 keeps the client from taking an empty 200 for success.
//
// # Queues
//
// Where a limit is a [core.LeakyQueue], an allowed request waits for its turn
// before the next handler is called, at most [Config].MaxWaiting requests at once,
// of one key fewer than its capacity.
// One whose context has ended by then is not handed on. That is how a client that
// leaves is noticed: net/http watches the streams of HTTP/2, but a connection of
// HTTP/1.1 only once the request's body has been read to its end, and only until
// further bytes arrive. A request with a body that nobody has read is therefore
// served, though its client has left. Where that matters, read the body, up to a
// bound, in a handler outside the limiter.
//
// http.Server.ReadTimeout and WriteTimeout keep running in the queue: make them
// longer than the longest wait, or the handler fails to read a body, or to answer.
// ReadHeaderTimeout ends before it.
//
// Packages chimw, ginmw, echomw and echo5mw do the same for chi, gin and echo. They
// are made of a [Gate].
//
// The ResponseWriter is handed on as it is, so flushing, hijacking and protocol
// upgrades work as without the limiter.
package nethttp
