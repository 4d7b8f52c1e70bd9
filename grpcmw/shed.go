package grpcmw

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/shedcall"
	"github.com/weir-go/weir/shed"
)

// Shed returns the interceptors that pass only calls that s admits to their handlers, and end the
// others with codes.Unavailable and RetryInfo. Use both: the one for unary calls does not see
// streams. All interceptors of one shedder count together. They go outside limiters and
// authentication. If [shed.Options].Route is nil, the route of a call is its full method. If
// [shed.Options].Denied returns an error, the call ends with it. Header fields that Denied sets
// become trailer metadata; its other output is dropped.
//
// A stream is in flight until its first message to the client, as an HTTP response is until its
// first Flush. The time that a handler waits for the client's messages does not count as the
// service's.
//
// Shed panics if s is nil or was not made by [shed.New].
func Shed(s *shed.Shedder[*Call]) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	g := shedcall.New(s, func(c *Call) string { return c.FullMethod }, statusOf)
	unary := func(ctx context.Context, message any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (response any, err error) {
		c := &Call{Context: ctx, FullMethod: info.FullMethod, Message: message}
		refusal, err := g.Serve(ctx, c, func(ctx context.Context, _ *shedcall.Stream) (err error) {
			response, err = handler(ctx, message)
			return err
		})
		if refusal != nil {
			_ = grpc.SetTrailer(ctx, shedTrailer(ctx, refusal))
			return nil, shedError(refusal, err)
		}
		return response, err
	}
	stream := func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
		handler grpc.StreamHandler) error {
		c := &Call{
			Context: stream.Context(), FullMethod: info.FullMethod, unregistered: server == nil,
		}
		watched := &watchedStream{ServerStream: stream}
		refusal, err := g.Serve(c.Context, c, func(ctx context.Context, s *shedcall.Stream) error {
			watched.ctx, watched.of = ctx, s
			return handler(server, watched)
		})
		if refusal != nil {
			stream.SetTrailer(shedTrailer(c.Context, refusal))
			return shedError(refusal, err)
		}
		return err
	}
	return unary, stream
}

// watchedStream tells a shedder when a stream waits for the client.
type watchedStream struct {
	grpc.ServerStream
	ctx context.Context
	of  *shedcall.Stream
}

func (s *watchedStream) Context() context.Context { return s.ctx }

func (s *watchedStream) RecvMsg(m any) error {
	return s.of.Receive(s.ServerStream.RecvMsg, m)
}

func (s *watchedStream) SendMsg(m any) error {
	s.of.Send()
	return s.ServerStream.SendMsg(m)
}

func (s *watchedStream) SendHeader(md metadata.MD) error {
	s.of.Send()
	return s.ServerStream.SendHeader(md)
}

func shedTrailer(ctx context.Context, r *shedcall.Refusal) metadata.MD {
	delete(r.Fields, "Cache-Control") // calls are not cached
	md := metadataOf(r.Fields)
	if r.Left == nil {
		md[pushback] = []string{answer.Pushback(r.Wait, answer.TimeLeft(ctx), false)}
	}
	return md
}

// shedError returns the error of a call that was shed. err is the error of [shed.Options].Denied.
func shedError(r *shedcall.Refusal, err error) error {
	switch {
	case err != nil:
		return err
	case r.Left != nil:
		return status.FromContextError(r.Left).Err()
	}
	return refusal(codes.Unavailable, r.Detail, r.Wait, nil).Err()
}
