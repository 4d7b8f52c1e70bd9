// Package connectmw limits the calls of a Connect server, in its protocols Connect, gRPC and gRPC-Web, and
// keeps the calls of a client to the limits of servers.
//
// A [Limiter] decides each call against its rules before its handler runs:
//
//	limiter := connectmw.MustNew(connectmw.Config{
//		Rules: []connectmw.Rule{{
//			Name:  "per-client",
//			Limit: limits.SlidingWindow(limits.PerMinute(100)),
//			Key:   keyfuncs.Address(connectmw.Peer),
//		}},
//	})
//	path, handler := ordersv1connect.NewOrdersHandler(orders,
//		connect.WithInterceptors(limiter.Interceptor()),
//		connect.WithReadMaxBytes(64<<10), // also of what a compressed message becomes
//	)
//	mux.Handle(path, handler)
//	server.Handler = flood.Handler(mux) // a limiter of package nethttp
//
// Rules are those of package core, on a [Call]. Key functions of package keyfuncs apply by [Lift]. Calls that no rule
// applies to pass: [core.Otherwise] makes a last rule for them, and [Limiter.Unlimited] lists them.
//
// # Calls that cannot be decoded
//
// Calls that cannot be decoded are never counted by interceptors, however much work they make: those
// with garbage, an unknown encoding, or a message that becomes too large. Requests for paths that no
// handler has reach no interceptor either. A limiter of package nethttp around the mux counts all of
// them, and denies requests before their messages are read. Let it allow more than this one does, so
// that it denies floods alone. It answers in the form of HTTP, or by a connect.ErrorWriter in its
// Denied. Without connect.WithReadMaxBytes, a message of 64 kB may become a gigabyte.
//
// # Answers
//
// A denied call ends with connect.CodeResourceExhausted, and with the details RetryInfo and QuotaFailure. A
// call that could not be decided, and one that is denied by rules with DenyAs503 alone, ends with
// connect.CodeUnavailable and RetryInfo. RetryInfo is missing if no wait helps. In the Connect protocol these are
// the statuses 429 and 503 for a unary call. A call whose context has ended gets connect.CodeCanceled or
// connect.CodeDeadlineExceeded.
//
// The fields of package headers are in the response header of every call, as over plain HTTP.
//
// # Streams
//
// A stream is one request, which ends when its handler does. Concurrency limits hold it until then. A
// handler may say what messages have cost by [Spend].
//
// A unary call is decided once its message has arrived: connect.WithReadMaxBytes bounds what that takes. A
// stream is decided before its first message, but where the server alone streams, which reads one first.
package connectmw
