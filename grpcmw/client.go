package grpcmw

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/http/callclient"
)

// Client returns the interceptors of a client that follows the limits of servers, as a
// [client.Transport] does. It reads RetryInfo of codes.ResourceExhausted and codes.Unavailable, and
// the fields of limits in header and trailer. After a denial it holds back all calls of the same
// bucket. It spreads calls if few units are left. It never sends a call earlier than the server
// allows. If a call would have to wait longer than [client.Options].MaxWait or its deadline, it
// ends with codes.ResourceExhausted and a [*client.WaitError]. Use both interceptors.
//
// A unary call that is denied with codes.ResourceExhausted is repeated, within the budget of a
// Transport. One that ends with codes.Unavailable is repeated if the server sent a wait and the
// call has metadata idempotency-key. Streams are never repeated: the caller has to do so. Do not
// set a retry policy of gRPC for codes.ResourceExhausted as well.
//
// Functions in options see a call as a POST for its full method, with its metadata as the header.
// The default bucket is the target of the connection and a digest of the metadata authorization,
// without that of credentials.PerRPCCredentials. gRPC calls [client.Options].Observe for answers to
// streams on its own goroutines, and a panic there is dropped. A stream without an answer for ten
// seconds counts as allowed. The error reports every mistake in o, including a Base.
func Client(o client.Options) (grpc.UnaryClientInterceptor, grpc.StreamClientInterceptor, error) {
	c, err := callclient.New(o)
	if err != nil {
		return nil, nil, err
	}
	unary := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		var err error
		held := c.Do(ctx, describe(ctx, conn, method), func() callclient.Answer {
			var header, trailer metadata.MD
			// The caller owns the slice of options, and each attempt has metadata of its own.
			err = invoke(ctx, method, request, reply, conn,
				append(options[:len(options):len(options)], grpc.Header(&header),
					grpc.Trailer(&trailer))...)
			return answerOf(err, header, trailer)
		})
		return errorOf(held, err)
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
		streamer grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		var opened grpc.ClientStream
		s, err := c.Stream(ctx, describe(ctx, conn, method),
			func(s *callclient.Stream) (err error) {
				var header, trailer metadata.MD
				// A stream also ends when its connection closes or a message cannot be sent.
				ended := grpc.OnFinish(func(err error) {
					s.Answer(func() callclient.Answer { return answerOf(err, header, trailer) })
					s.End()
				})
				opened, err = streamer(ctx, desc, conn, method,
					append(options[:len(options):len(options)], grpc.Header(&header),
						grpc.Trailer(&trailer), ended)...)
				return err
			})
		switch {
		case s == nil:
			return nil, errorOf(err, nil)
		case err != nil:
			return nil, err
		}
		return &clientStream{opened, s, desc.ServerStreams}, nil
	}
	return unary, stream, nil
}

// MustClient is [Client] for options that the program sets. It panics if they have a mistake.
func MustClient(o client.Options) (grpc.UnaryClientInterceptor, grpc.StreamClientInterceptor) {
	unary, stream, err := Client(o)
	if err != nil {
		panic(err)
	}
	return unary, stream
}

// describe returns the call for functions in options.
func describe(ctx context.Context, conn *grpc.ClientConn, method string) callclient.Call {
	md, _ := metadata.FromOutgoingContext(ctx)
	return callclient.Call{
		Scheme: "grpc", Target: conn.Target(), Method: method, Header: headerOf(md),
	}
}

func headerOf(mds ...metadata.MD) http.Header {
	h := make(http.Header)
	for _, md := range mds {
		for name, values := range md {
			name = http.CanonicalHeaderKey(name)
			h[name] = append(h[name], values...)
		}
	}
	return h
}

func answerOf(err error, header, trailer metadata.MD) callclient.Answer {
	a := callclient.Answer{Fields: headerOf(header, trailer)}
	if err == nil {
		return a
	}
	s := status.Convert(err)
	a.Code = uint32(s.Code())
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			a.Retry = max(0, info.GetRetryDelay().AsDuration())
		}
	}
	return a
}

// errorOf returns the error of a call that was held back, otherwise the error of its last attempt.
func errorOf(held, err error) error {
	var wait *client.WaitError
	switch {
	case held == nil:
		return err
	case errors.As(held, &wait):
		return &heldBack{wait}
	case errors.Is(held, context.Canceled) || errors.Is(held, context.DeadlineExceeded):
		return status.FromContextError(held).Err()
	}
	return held
}

// heldBack is a [*client.WaitError] with a status.
type heldBack struct{ wait *client.WaitError }

func (e *heldBack) Error() string { return e.wait.Error() }
func (e *heldBack) Unwrap() error { return e.wait }

// GRPCStatus returns codes.ResourceExhausted, with the wait.
func (e *heldBack) GRPCStatus() *status.Status {
	return refusal(codes.ResourceExhausted, e.wait.Error(), max(e.wait.Wait, time.Microsecond), nil)
}

// clientStream reads the limits in the answers to a stream.
type clientStream struct {
	grpc.ClientStream
	of   *callclient.Stream
	many bool // the server streams
}

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err == nil && md != nil { // nil: only a trailer, which RecvMsg reads
		s.of.Answer(func() callclient.Answer { return answerOf(nil, md, nil) })
	}
	return md, err
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.of.Answer(func() callclient.Answer {
		header, _ := s.ClientStream.Header()
		switch {
		case err == nil:
			return answerOf(nil, header, nil)
		case err == io.EOF:
			return answerOf(nil, header, s.ClientStream.Trailer())
		}
		return answerOf(err, header, s.ClientStream.Trailer())
	})
	if err != nil || !s.many {
		s.of.End()
	}
	return err
}
