package connectmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
)

// message is the message of all calls.
type message = wrapperspb.StringValue

// protocols are those that a client may speak, over HTTP/1.1 or HTTP/2.
var protocols = []struct {
	name    string
	http2   bool
	options []connect.ClientOption
}{
	{"Connect over HTTP/1.1", false, nil},
	{"Connect as JSON", false, []connect.ClientOption{connect.WithProtoJSON()}},
	{"Connect over HTTP/2", true, nil},
	{"gRPC", true, []connect.ClientOption{connect.WithGRPC()}},
	{"gRPC-Web over HTTP/1.1", false, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"gRPC-Web over HTTP/2", true, []connect.ClientOption{connect.WithGRPCWeb()}},
}

func TestParity(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			parity.RunCalls(t, parity.Caller[*connectmw.Call]{
				Open: func(t *testing.T, app parity.CallApp[*connectmw.Call]) parity.CallClient {
					return open(t, app, p.http2, p.options)
				},
				Lift:      connectmw.Lift[string],
				LiftLimit: connectmw.Lift[limits.Limit],
				Method:    connectmw.Method,
				Service:   connectmw.Service,
				Message:   func(c *connectmw.Call) string { return c.Message.(*message).GetValue() },
				Error: func(code uint32) error {
					return connect.NewError(connect.Code(code), errors.New("failed"))
				},
				OutcomeFrom: connectmw.OutcomeFrom,
				Spend:       connectmw.Spend,
				Detach:      connectmw.Detach,
			})
		})
	}
}

// start starts a server, with HTTP/1.1 and HTTP/2 without TLS, and returns a client of it.
func start(t testing.TB, handler http.Handler, http2 bool) (*http.Client, string) {
	t.Helper()
	return startWith(t, handler, http2, 0)
}

// startWith is start for a server that takes headers of so many bytes; 0: of 1 MB.
func startWith(t testing.TB, handler http.Handler, http2 bool, headerBytes int) (*http.Client, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.MaxHeaderBytes = headerBytes
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, server.URL
}

func open(
	t *testing.T, app parity.CallApp[*connectmw.Call], http2 bool, options []connect.ClientOption,
) parity.CallClient {
	t.Helper()
	interceptors := []connect.Interceptor{}
	if app.Shed != nil {
		interceptors = append(interceptors, connectmw.Shed(app.Shed))
	}
	for _, c := range []*parity.Config[*connectmw.Call]{app.Site, app.Group} {
		if c == nil {
			continue
		}
		config := connectmw.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, MaxWaiting: c.MaxWaiting, OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(_ *connectmw.Call, o core.Outcome, _ *connect.Error) error {
				return connect.NewError(connect.CodeAborted, errors.New(parity.SorryText(o)))
			}
		}
		l := newLimiter(t, config)
		if c.Made != nil {
			c.Made(callLimiter{l})
		}
		interceptors = append(interceptors, l.Interceptor())
	}
	with := []connect.HandlerOption{
		connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
			return connect.NewError(connect.CodeInternal, errors.New("panicked"))
		}),
		connect.WithInterceptors(interceptors...),
	}
	mux := http.NewServeMux()
	for _, service := range []string{"/parity.v1.First/", "/parity.v1.Second/"} {
		mux.Handle(service+"Unary",
			connect.NewUnaryHandler(service+"Unary",
				func(ctx context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
					if app.Unary != nil {
						if err := app.Unary(ctx, r.Msg.GetValue()); err != nil {
							return nil, err
						}
					}
					return connect.NewResponse(wrapperspb.String("hello")), nil
				}, with...))
		mux.Handle(service+"Down",
			connect.NewServerStreamHandler(service+"Down",
				func(ctx context.Context, r *connect.Request[message], s *connect.ServerStream[message]) error {
					return orEcho(app.Down)(ctx, &down{s: s, first: r.Msg})
				}, with...))
		mux.Handle(service+"Up",
			connect.NewClientStreamHandler(service+"Up",
				func(ctx context.Context, s *connect.ClientStream[message]) (*connect.Response[message], error) {
					m := &up{s: s, answer: new(message)}
					err := orEcho(app.Up)(ctx, m)
					return connect.NewResponse(m.answer), err
				}, with...))
	}
	c, url := start(t, mux, http2)
	return &parityClient{func(path string) *connect.Client[message, message] {
		return connect.NewClient[message, message](c, url+path, options...)
	}}
}

func orEcho(run func(context.Context, parity.ServerMessages) error) func(context.Context, parity.ServerMessages) error {
	if run == nil {
		return parity.Echo
	}
	return run
}

// callLimiter has no preflights.
type callLimiter struct{ *connectmw.Limiter }

func (callLimiter) Preflights() int64 { return 0 }

func newLimiter(t testing.TB, config connectmw.Config) *connectmw.Limiter {
	t.Helper()
	l, err := connectmw.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// down has the messages of a stream of the server.
type down struct {
	s     *connect.ServerStream[message]
	first *message
}

func (m *down) Send(text string) error { return m.s.Send(wrapperspb.String(text)) }

func (m *down) Receive() (string, error) {
	if m.first == nil {
		return "", io.EOF
	}
	text := m.first.GetValue()
	m.first = nil
	return text, nil
}

// up has the messages of a stream of the client.
type up struct {
	s      *connect.ClientStream[message]
	answer *message
}

func (m *up) Send(text string) error {
	m.answer = wrapperspb.String(text)
	return nil
}

func (m *up) Receive() (string, error) {
	if !m.s.Receive() {
		if err := m.s.Err(); err != nil {
			return "", err
		}
		return "", io.EOF
	}
	return m.s.Msg().GetValue(), nil
}

type parityClient struct {
	of func(path string) *connect.Client[message, message]
}

func setHeader(h, fields http.Header) {
	for name, values := range fields {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

func (c *parityClient) Call(ctx context.Context, service string, fields http.Header, text string) parity.CallAnswer {
	r := connect.NewRequest(wrapperspb.String(text))
	setHeader(r.Header(), fields)
	response, err := c.of("/"+service+"/Unary").CallUnary(ctx, r)
	if err != nil {
		return parityAnswer(err)
	}
	return parity.CallAnswer{Fields: response.Header()}
}

func (c *parityClient) Stream(ctx context.Context, method string, fields http.Header) parity.ClientMessages {
	client := c.of("/parity.v1.First/" + method)
	if method == "Down" {
		r := connect.NewRequest(wrapperspb.String("x"))
		setHeader(r.Header(), fields)
		m := &downClient{opened: make(chan struct{})}
		go func() { // waits for the header of the response
			defer close(m.opened)
			m.s, m.err = client.CallServerStream(ctx, r)
		}()
		return m
	}
	s := client.CallClientStream(ctx)
	setHeader(s.RequestHeader(), fields)
	return &upClient{s: s}
}

type downClient struct {
	opened chan struct{}
	s      *connect.ServerStreamForClient[message]
	err    error
}

func (m *downClient) Send(string) error { return nil }
func (m *downClient) CloseSend()        {}

func (m *downClient) Receive() (string, error) {
	<-m.opened
	if m.err == nil && m.s.Receive() {
		return m.s.Msg().GetValue(), nil
	}
	if m.err == nil {
		m.err = m.s.Err()
	}
	return "", io.EOF
}

func (m *downClient) Answer() parity.CallAnswer {
	a := parity.CallAnswer{Fields: make(http.Header)}
	if m.err != nil {
		a = parityAnswer(m.err)
	}
	if m.s != nil && len(a.Fields.Values("RateLimit")) == 0 && a.Fields.Get("Retry-After") == "" {
		a.Fields = m.s.ResponseHeader() // of an error it has those as well, in some protocols
	}
	return a
}

type upClient struct {
	s        *connect.ClientStreamForClient[message, message]
	response *connect.Response[message]
	err      error
	asked    bool
}

func (m *upClient) Send(text string) error { return m.s.Send(wrapperspb.String(text)) }
func (m *upClient) CloseSend()             {}

func (m *upClient) Receive() (string, error) {
	if m.asked {
		return "", io.EOF
	}
	m.asked = true
	if m.response, m.err = m.s.CloseAndReceive(); m.err != nil {
		return "", m.err
	}
	return m.response.Msg.GetValue(), nil
}

func (m *upClient) Answer() parity.CallAnswer {
	if m.err != nil {
		return parityAnswer(m.err)
	}
	return parity.CallAnswer{Fields: m.response.Header()}
}

func parityAnswer(err error) parity.CallAnswer {
	a := parity.CallAnswer{Code: uint32(connect.CodeOf(err)), Text: err.Error(), Fields: make(http.Header)}
	var e *connect.Error
	if !errors.As(err, &e) {
		return a
	}
	a.Text, a.Fields = e.Message(), e.Meta()
	for _, detail := range e.Details() {
		switch d, _ := detail.Value(); d := d.(type) {
		case *errdetails.RetryInfo:
			a.Retry = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				a.Violated = append(a.Violated, v.GetSubject())
			}
		}
	}
	return a
}
