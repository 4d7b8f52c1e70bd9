package connect2mw

import (
	"context"
	"maps"

	"connectrpc.com/connect/v2"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/shedcall"
	"github.com/weir-go/weir/shed"
)

// Shed returns the interceptor that passes only calls that s admits to their handlers, and ends the
// others with connect.CodeUnavailable and RetryInfo. All interceptors of one shedder count
// together. It goes outside limiters and authentication. If [shed.Options].Route is nil, the route
// of a call is its procedure. If [shed.Options].Denied returns an error, the call ends with it.
// Header fields that Denied sets are sent; its other output is dropped.
//
// A stream is in flight until its first message to the client, as an HTTP response is until its
// first Flush. The time in which messages of the client arrive does not count as the service's.
//
// Shed panics if s is nil or was not made by [shed.New].
func Shed(s *shed.Shedder[*Call]) connect.ServerInterceptor {
	g := shedcall.New(s, func(c *Call) string { return c.Spec.Procedure }, statusOf)
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			c := callOf(ctx, spec)
			refusal, err := g.Serve(ctx, &c, func(ctx context.Context, of *shedcall.Stream) error {
				return next(ctx, spec, watched(stream, spec, of))
			})
			if refusal != nil {
				return shedError(&c, refusal, err)
			}
			return err
		}
	}
}

// watched returns a stream that tells a shedder when its handler waits for the client, and when a
// stream's first message goes out.
func watched(s connect.ServerStream, spec connect.Spec, of *shedcall.Stream) connect.ServerStream {
	if spec.StreamType == connect.StreamTypeUnary {
		return receiving{s, of}
	}
	return streaming{receiving{s, of}}
}

type receiving struct {
	connect.ServerStream
	of *shedcall.Stream
}

func (r receiving) Receive(m any) error { return r.of.Receive(r.ServerStream.Receive, m) }

type streaming struct{ receiving }

func (s streaming) SendHeaders() error {
	s.of.Send()
	return s.ServerStream.SendHeaders()
}

func (s streaming) Send(m any) error {
	s.of.Send()
	return s.ServerStream.Send(m)
}

// shedError returns the error of a call that was shed. err is the error of [shed.Options].Denied.
func shedError(c *Call, r *shedcall.Refusal, err error) error {
	fields := fieldsOf(c.Info.ResponseHeader())
	headers.Delete(fields) // of an outer limiter: the client's quotas are not the cause
	maps.Copy(fields, r.Fields)
	replace(c.Info.ResponseHeader(), fields)
	switch {
	case err != nil:
		return err
	case r.Left != nil:
		return endedError(r.Left)
	}
	if c.isGRPC() {
		c.Info.ResponseTrailer().Set(pushback, answer.Pushback(r.Wait, answer.TimeLeft(c.Context), false))
	}
	return refusal(connect.CodeUnavailable, r.Detail, r.Wait, nil)
}
