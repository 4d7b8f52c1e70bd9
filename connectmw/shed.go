package connectmw

import (
	"context"
	"maps"
	"net/http"

	"connectrpc.com/connect"

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
// first Flush. The time that a handler waits for the client's messages does not count as the
// service's.
//
// In a client the interceptor has no effect. Shed panics if s is nil or was not made by [shed.New].
func Shed(s *shed.Shedder[*Call]) connect.Interceptor {
	return shedder{shedcall.New(s, func(c *Call) string { return c.Spec.Procedure }, statusOf)}
}

type shedder struct{ gate *shedcall.Gate[*Call] }

func (s shedder) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (response connect.AnyResponse,
		err error) {
		if request.Spec().IsClient {
			return next(ctx, request)
		}
		c := callOf(ctx, request)
		refusal, err := s.gate.Serve(ctx, &c,
			func(ctx context.Context, _ *shedcall.Stream) (err error) {
				response, err = next(ctx, request)
				return err
			})
		if refusal != nil {
			return nil, shedError(&c, refusal, unaryHeader(ctx), err)
		}
		return response, err
	}
}

func (s shedder) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (s shedder) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		c := streamOf(ctx, conn)
		watched := &watchedConn{StreamingHandlerConn: conn}
		refusal, err := s.gate.Serve(ctx, &c,
			func(ctx context.Context, of *shedcall.Stream) error {
				watched.of = of
				return next(ctx, watched)
			})
		if refusal != nil {
			return shedError(&c, refusal, conn.ResponseHeader(), err)
		}
		return err
	}
}

// watchedConn tells a shedder when a stream waits for the client.
type watchedConn struct {
	connect.StreamingHandlerConn
	of *shedcall.Stream
}

func (c *watchedConn) Receive(m any) error {
	return c.of.Receive(c.StreamingHandlerConn.Receive, m)
}

func (c *watchedConn) Send(m any) error {
	c.of.Send()
	return c.StreamingHandlerConn.Send(m)
}

// shedError returns the error of a call that was shed. err is the error of [shed.Options].Denied.
func shedError(c *Call, r *shedcall.Refusal, header http.Header, err error) error {
	headers.Delete(header) // fields of an outer limiter: the client's quotas are not the cause
	maps.Copy(header, r.Fields)
	switch {
	case err != nil:
		return err
	case r.Left != nil:
		return endedError(r.Left)
	}
	refused := refusal(connect.CodeUnavailable, r.Detail, r.Wait, nil)
	if c.Peer.Protocol != connect.ProtocolConnect {
		refused.Meta().Set(pushback, answer.Pushback(r.Wait, answer.TimeLeft(c.Context), false))
	}
	return refused
}
