// Package grpcmw limits the calls of a gRPC server, and makes a client follow the limits of
// servers.
//
//	go get github.com/weir-go/weir/grpcmw google.golang.org/grpc@latest
//
// Without @latest a new program gets the oldest release that works, which is all that weir asks for.
//
// A [Limiter] decides each call against its rules before its handler runs. Install its tap and both
// interceptors: the one for unary calls does not see streams.
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
//		grpc.KeepaliveParams(keepalive.ServerParameters{
//			Time: time.Minute, Timeout: 10 * time.Second,
//		}),
//	)
//
// Rules are those of package core, on a [Call]. Key functions of package keyfuncs apply by [Lift].
//
// # Calls that cannot be decoded
//
// Interceptors never see calls that cannot be decoded, although these cost work: calls with
// garbage, an unknown encoding, or a message that becomes too large. They do not see calls for
// unknown methods either. [Limiter.Tap] decides by peer, metadata and method before the message is
// read, so it counts and denies these calls too.
//
// # Health checks
//
// /grpc.health.v1.Health/Check and Watch pass uncounted unless [Config].CountProbes is set.
//
// # Answers
//
// A denied call ends with codes.ResourceExhausted, and with the details RetryInfo and QuotaFailure.
// A call that could not be decided, or that only rules with DenyAs503 denied, ends with
// codes.Unavailable and RetryInfo. RetryInfo is missing if no wait helps. A call whose context has
// ended gets codes.Canceled or codes.DeadlineExceeded.
//
// The fields of package headers, in lower case, are header metadata of an allowed call, and trailer
// metadata of any other. A denial is a response with trailers only, which a client's retry policy
// requires. It has grpc-retry-pushback-ms: the client waits that long. It does not repeat the call
// if no wait helps, if the call would end before, or, without a deadline, if the wait is above
// MaxRetryAfter of package headers. Several limiters in one chain each add their fields: it is
// better to give all rules to one limiter, and conditions to the rules by [core.When]. In a flood, what
// [Limiter.Tap] denies has the details, but no metadata.
//
// # Streams
//
// A stream is one request, which ends when its handler returns. It holds units of concurrency
// limits until then. A handler may charge for messages by [Spend].
//
// Without a tap, a unary call is decided after its message has arrived: grpc.MaxRecvMsgSize bounds
// the message. A stream is decided before its first message.
package grpcmw
