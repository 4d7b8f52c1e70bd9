// Package connectmw limits the calls of a Connect server, in its protocols Connect, gRPC and
// gRPC-Web, and makes a client follow the limits of servers.
//
//	go get github.com/weir-go/weir/connectmw connectrpc.com/connect@latest
//
// Without @latest a new program gets the oldest release that works, which is all that weir asks for.
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
// Rules are those of package core, on a [Call]. Key functions of package keyfuncs apply by [Lift].
// Calls that no rule applies to pass: [core.Otherwise] makes a last rule for them, and
// [Limiter.Unlimited] lists them.
//
// # Calls that cannot be decoded
//
// Interceptors never see calls that cannot be decoded, although these cost work: calls with
// garbage, an unknown encoding, or a message that becomes too large. They do not see requests for
// unknown paths either. A limiter of package nethttp around the mux counts all of them, and denies
// requests before their messages are read. Give it a higher limit than this one, so that it denies
// only floods. It answers in the form of HTTP, or by a connect.ErrorWriter in its Denied. Without
// connect.WithReadMaxBytes, a message of 64 kB may become a gigabyte.
//
// # Answers
//
// A denied call ends with connect.CodeResourceExhausted, and with the details RetryInfo and
// QuotaFailure. A call that could not be decided, or that only rules with DenyAs503 denied, ends
// with connect.CodeUnavailable and RetryInfo. RetryInfo is missing if no wait helps. In the Connect
// protocol these are the statuses 429 and 503 for a unary call. A call whose context has ended gets
// connect.CodeCanceled or connect.CodeDeadlineExceeded.
//
// The fields of package headers are in the response header of every call, as over plain HTTP. A
// denial over gRPC has grpc-retry-pushback-ms in its trailer, which gRPC's own retries obey.
//
// # Streams
//
// A stream is one request, which ends when its handler returns. It holds units of concurrency
// limits until then. A handler may charge for messages by [Spend].
//
// A unary call is decided after its message has arrived: connect.WithReadMaxBytes bounds the
// message. A stream is decided before its first message; if only the server streams, after the
// client's message.
package connectmw
