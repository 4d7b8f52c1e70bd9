// Package grpcmw limits the calls of a gRPC server, and keeps the calls of a client to the limits of
// servers.
//
// A [Limiter] decides each call against its rules before its handler runs. Install its tap and both
// of its interceptors: that of unary calls does not see streams.
//
//	limiter := grpcmw.MustNew(grpcmw.Config{
//		Rules: []grpcmw.Rule{{
//			Name:  "per-client",
//			Limit: limits.SlidingWindow(limits.PerMinute(100)),
//			Key:   keyfuncs.Address(grpcmw.Peer),
//		}},
//	})
//	var server *grpc.Server
//	server = grpc.NewServer(
//		grpc.InTapHandle(limiter.Tap(func() *grpc.Server { return server })),
//		grpc.ChainUnaryInterceptor(limiter.Unary()),
//		grpc.ChainStreamInterceptor(limiter.Stream()),
//		grpc.MaxRecvMsgSize(64<<10), // 4 MB unless set, also of what a compressed message becomes
//		grpc.MaxConcurrentStreams(100),
//		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 10 * time.Second}),
//	)
//
// Rules are those of package core, on a [Call]. Key functions of package keyfuncs apply by [Lift].
//
// # Calls that cannot be decoded
//
// Calls that cannot be decoded are never counted by interceptors, however much work they make: those
// with garbage, an unknown encoding, or a message that becomes too large. Calls for methods that the
// server does not have reach no interceptor either. [Limiter.Tap] decides by peer, metadata and method
// before the message is read, so it counts and denies these calls too.
//
// # Answers
//
// A denied call ends with codes.ResourceExhausted, and with the details RetryInfo and QuotaFailure. A
// call that could not be decided, and one that is denied by rules with DenyAs503 alone, ends with
// codes.Unavailable and RetryInfo. RetryInfo is missing if no wait helps. A call whose context has
// ended gets codes.Canceled or codes.DeadlineExceeded.
//
// The fields of package headers, in lower case, are header metadata of a call that is allowed, and
// trailer metadata of any other. So a denial is a response of trailers alone, as a client has to see
// it to repeat the call by its retry policy, and it has grpc-retry-pushback-ms: the client waits that long,
// and does not repeat the call if no wait helps. Several limiters in one chain each add their fields:
// better give all rules to one limiter, and conditions to the rules by [core.When]. A denial by
// [Limiter.Tap] has the details, and no metadata.
//
// # Streams
//
// A stream is one request, which ends when its handler does. Concurrency limits hold it until then. A
// handler may say what messages have cost by [Spend].
//
// Without a tap, a unary call is decided once its message has arrived: grpc.MaxRecvMsgSize bounds
// what that takes. A stream is decided before its first message.
package grpcmw
