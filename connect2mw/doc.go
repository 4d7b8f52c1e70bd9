// Package connect2mw limits the calls of a server of Connect v2 (connectrpc.com/connect/v2), in its
// protocols Connect, gRPC and gRPC-Web and within a process, and makes a client follow the limits of
// servers. Package connectmw is for Connect v1.
//
//	go get github.com/weir-go/weir/connect2mw connectrpc.com/connect/v2@latest
//
// Without @latest a new program gets the oldest release that works, which is all that weir asks for.
//
// A [Limiter] decides each call against its rules before its message is read:
//
//	limiter := connect2mw.MustNew(connect2mw.Config{
//		Rules: []connect2mw.Rule{{
//			Name:  "per-client",
//			Limit: limits.SlidingWindow(limits.PerMinute(100)),
//			Key:   keyfuncs.Address(connect2mw.Peer),
//		}},
//	})
//	server := connect.NewServer(limiter.Interceptor())
//	ordersv1connect.RegisterOrdersHandler(server, orders)
//	connecthttp.Mount(mux, server)
//
// Rules are those of package core, on a [Call]. Key functions of package keyfuncs apply by [Lift].
// Calls that no rule applies to pass: [core.Otherwise] makes a last rule for them, and
// [Limiter.Unlimited] lists them.
//
// # What counts
//
// Interceptors of v2 go around a whole call. So calls whose messages are garbage, or too large,
// count, and a denied call costs no decoding. No second limiter is needed outside. Interceptors do
// not see requests that are refused before they are calls: with an unknown content type, encoding or
// path, or another method than POST. These cost as little as a denial. Calls of unknown methods of a
// known service are seen if the server has a handler for them:
//
//	server.SetUnknownHandler(func(_ context.Context, spec connect.Spec, _ connect.ServerStream) error {
//		return connect.Errorf(connect.CodeUnimplemented, "no method %s", spec.Procedure)
//	})
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
// denial over gRPC has grpc-retry-pushback-ms in its trailer, which gRPC's own retries obey. Fields
// of a limiter of package nethttp around the mux are sent besides them.
//
// # Streams
//
// A stream is one request, which ends when its handler returns. It holds units of concurrency
// limits until then, as a unary call does until its response is written. A handler may charge for
// messages by [Spend].
//
// # Queues
//
// Over HTTP/1.1 a server notices that a client has left once it has read the message, so a call of
// such a client waits in a queue until its turn or its deadline. Over HTTP/2 it leaves at once.
package connect2mw
