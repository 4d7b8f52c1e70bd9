package connectmw

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/http/callclient"
)

// Client returns the interceptor of a client that follows the limits of servers, as a
// [client.Transport] does. It reads RetryInfo of connect.CodeResourceExhausted and
// connect.CodeUnavailable, and the fields of limits in header and trailer. After a denial it holds
// back all calls of the same bucket. It spreads calls if few units are left. It never sends a call
// earlier than the server allows. If a call would have to wait longer than [client.Options].MaxWait
// or its deadline, it ends with connect.CodeResourceExhausted and a [*client.WaitError].
//
// A unary call that is denied with connect.CodeResourceExhausted is repeated, within the budget of
// a Transport. One that ends with connect.CodeUnavailable is repeated if the server sent a wait,
// and its procedure is idempotent by its schema or it has a header Idempotency-Key. Interceptors
// inside see each attempt, with the header that those outside and the caller have set. Streams are
// never repeated: the caller has to do so.
//
// Functions in options see a call as a POST for its procedure, or a GET if that is idempotent, with
// its header. The default bucket is the host and a digest of Authorization. A panic of
// [client.Options].Observe for the answer to a stream is dropped. A stream without an answer for
// ten seconds counts as allowed. In a server the interceptor has no effect. The error reports every
// mistake in o, including a Base.
//
// Do not use a [client.Transport] below the client as well. It understands unary calls of the
// Connect protocol, but no other protocols and no streams.
func Client(o client.Options) (connect.Interceptor, error) {
	c, err := callclient.New(o)
	if err != nil {
		return nil, err
	}
	return keeper{c}, nil
}

// MustClient is [Client] for options that the program sets. It panics if they have a mistake.
func MustClient(o client.Options) connect.Interceptor {
	i, err := Client(o)
	if err != nil {
		panic(err)
	}
	return i
}

type keeper struct{ client *callclient.Client }

func (k keeper) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if !request.Spec().IsClient {
			return next(ctx, request)
		}
		var response connect.AnyResponse
		var err error
		header, isRepeated := request.Header(), false
		before := header.Clone() // interceptors inside may add to it
		held := k.client.Do(ctx, describe(request.Spec(), request.Peer(), header),
			func() callclient.Answer {
				if isRepeated {
					clear(header)
					maps.Copy(header, before)
				}
				isRepeated = true
				if response, err = next(ctx, request); err != nil {
					return answerOf(err, nil, nil)
				}
				return answerOf(nil, response.Header(), response.Trailer())
			})
		if held != nil {
			return nil, heldBack(held)
		}
		return response, err
	}
}

func (k keeper) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return &clientConn{StreamingClientConn: next(ctx, spec), ctx: ctx, client: k.client}
	}
}

func (k keeper) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return next
}

// describe returns the call for functions in options.
func describe(spec connect.Spec, peer connect.Peer, header http.Header) callclient.Call {
	return callclient.Call{
		Scheme: "http", Target: peer.Addr, Method: spec.Procedure, Header: header,
		Idempotent: spec.IdempotencyLevel != connect.IdempotencyUnknown,
	}
}

func answerOf(err error, header, trailer http.Header) callclient.Answer {
	a := callclient.Answer{Fields: header.Clone()}
	if a.Fields == nil {
		a.Fields = make(http.Header)
	}
	add := func(h http.Header) {
		for name, values := range h {
			if name = http.CanonicalHeaderKey(name); len(a.Fields[name]) == 0 {
				a.Fields[name] = values
			}
		}
	}
	add(trailer)
	if err == nil {
		return a
	}
	a.Code = uint32(connect.CodeOf(err))
	var e *connect.Error
	if !errors.As(err, &e) {
		return a
	}
	add(e.Meta())
	for _, detail := range e.Details() {
		if m, err := detail.Value(); err == nil {
			if info, ok := m.(*errdetails.RetryInfo); ok {
				a.Retry = max(0, info.GetRetryDelay().AsDuration())
			}
		}
	}
	return a
}

// heldBack returns the error of a call that was held back.
func heldBack(err error) error {
	var wait *client.WaitError
	if errors.As(err, &wait) {
		return connect.NewError(connect.CodeResourceExhausted, wait)
	}
	return endedError(err)
}

// clientConn is a stream that waits for its limits before its first message, when its header is
// complete.
type clientConn struct {
	connect.StreamingClientConn
	ctx    context.Context
	client *callclient.Client

	begin sync.Once
	of    *callclient.Stream
	held  error
}

// begun begins the stream. It returns an error if the stream is held back.
func (c *clientConn) begun() error {
	c.begin.Do(func() {
		var err error
		c.of, err = c.client.Stream(c.ctx, describe(c.Spec(), c.Peer(), c.RequestHeader()),
			func(*callclient.Stream) error { return nil })
		if err != nil {
			c.held = heldBack(err)
		}
	})
	return c.held
}

func (c *clientConn) Send(m any) error {
	if err := c.begun(); err != nil {
		return err
	}
	return c.StreamingClientConn.Send(m)
}

func (c *clientConn) CloseRequest() error {
	if c.begun() != nil {
		return nil
	}
	return c.StreamingClientConn.CloseRequest()
}

func (c *clientConn) Receive(m any) error {
	if err := c.begun(); err != nil {
		return err
	}
	err := c.StreamingClientConn.Receive(m)
	c.of.Answer(func() callclient.Answer {
		failure := err
		if errors.Is(err, io.EOF) {
			failure = nil
		}
		if err == nil {
			return answerOf(nil, c.ResponseHeader(), nil)
		}
		return answerOf(failure, c.ResponseHeader(), c.ResponseTrailer())
	})
	if err != nil {
		c.of.End()
	}
	return err
}

func (c *clientConn) CloseResponse() error {
	c.begin.Do(func() { c.held = endedError(context.Canceled) }) // nothing was sent or will be sent
	if c.held != nil {
		return nil
	}
	err := c.StreamingClientConn.CloseResponse()
	c.of.Answer(func() callclient.Answer { return answerOf(nil, c.ResponseHeader(), nil) })
	c.of.End()
	return err
}
