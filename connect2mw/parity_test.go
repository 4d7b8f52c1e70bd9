package connect2mw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectinprocess"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connect2mw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
)

// message is the message of all calls.
type message = wrapperspb.StringValue

// way is a way to a server.
type way struct {
	name      string
	http2     bool
	options   []connecthttp.Option
	inProcess bool
}

// ways are those by which a client may call, over HTTP/1.1, HTTP/2 or none.
var ways = []way{
	{name: "Connect over HTTP/1.1"},
	{name: "Connect as JSON", options: []connecthttp.Option{connecthttp.WithProtoJSON()}},
	{name: "Connect over HTTP/2", http2: true},
	{name: "gRPC", http2: true, options: []connecthttp.Option{connecthttp.WithGRPC()}},
	{name: "gRPC-Web over HTTP/1.1", options: []connecthttp.Option{connecthttp.WithGRPCWeb()}},
	{name: "gRPC-Web over HTTP/2", http2: true, options: []connecthttp.Option{connecthttp.WithGRPCWeb()}},
	{name: "in process", inProcess: true},
}

// open returns a client of a server that starts with the test.
func (w way) open(t testing.TB, server *connect.Server, interceptors ...connect.ClientInterceptor) *connect.Client {
	t.Helper()
	if w.inProcess {
		return connect.NewClient(connectinprocess.New(server), interceptors...)
	}
	c, url := start(t, mounted(server), w.http2)
	return connect.NewClient(connecthttp.NewTransport(c, url, w.options...), interceptors...)
}

func mounted(server *connect.Server, options ...connecthttp.Option) http.Handler {
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server, options...)
	return mux
}

// start starts a server, with HTTP/1.1 and HTTP/2 without TLS, and returns a client of it.
func start(t testing.TB, handler http.Handler, http2 bool) (*http.Client, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
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

func TestParity(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			parity.RunCalls(t, parity.Caller[*connect2mw.Call]{
				Open: func(t *testing.T, app parity.CallApp[*connect2mw.Call]) parity.CallClient {
					return parityClient{w.open(t, serverOf(t, app))}
				},
				Lift:      connect2mw.Lift[string],
				LiftLimit: connect2mw.Lift[limits.Limit],
				Method:    connect2mw.Method,
				Service:   connect2mw.Service,
				// The message is not read when a call is decided. The table sends it as a field, too.
				Message: func(c *connect2mw.Call) string { return c.Info.RequestHeader().Get("X-Message") },
				Error: func(code uint32) error {
					return connect.NewError(connect.Code(code), "failed")
				},
				OutcomeFrom: connect2mw.OutcomeFrom,
				Spend:       connect2mw.Spend,
				Detach:      connect2mw.Detach,
				LateLeaving: !w.http2 && !w.inProcess, // since the message is not read before
			})
		})
	}
}

// recovering turns a panic into an error.
func recovering(next connect.ServerFunc) connect.ServerFunc {
	return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) (err error) {
		defer func() {
			if recover() != nil {
				err = connect.NewError(connect.CodeInternal, "panicked")
			}
		}()
		return next(ctx, spec, stream)
	}
}

// addressed gives calls within the process a peer.
func addressed(next connect.ServerFunc) connect.ServerFunc {
	return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
		if info, ok := connect.CallInfoForServerContext(ctx); ok && info.PeerAddr == "" {
			info.PeerAddr = "127.0.0.1:1"
		}
		return next(ctx, spec, stream)
	}
}

// serverOf returns the server of an application.
func serverOf(t testing.TB, app parity.CallApp[*connect2mw.Call]) *connect.Server {
	t.Helper()
	interceptors := []connect.ServerInterceptor{addressed, recovering}
	if app.Shed != nil {
		interceptors = append(interceptors, connect2mw.Shed(app.Shed))
	}
	for _, c := range []*parity.Config[*connect2mw.Call]{app.Site, app.Group} {
		if c == nil {
			continue
		}
		config := connect2mw.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, MaxWaiting: c.MaxWaiting, OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(_ *connect2mw.Call, o core.Outcome, _ *connect.Error) error {
				return connect.NewError(connect.CodeAborted, parity.SorryText(o))
			}
		}
		l := newLimiter(t, config)
		if c.Made != nil {
			c.Made(callLimiter{l})
		}
		interceptors = append(interceptors, l.Interceptor())
	}
	server := connect.NewServer(interceptors...)
	for _, service := range []string{"/parity.v1.First/", "/parity.v1.Second/"} {
		server.Register(
			unary(service+"Unary", func(ctx context.Context, text string) (string, error) {
				if app.Unary == nil {
					return "hello", nil
				}
				return "hello", app.Unary(ctx, text)
			}),
			connect.Method{
				Spec: connect.Spec{Procedure: service + "Down", StreamType: connect.StreamTypeServer},
				Handler: func(ctx context.Context, _ connect.Spec, s connect.ServerStream) error {
					m := new(message)
					if err := s.Receive(m); err != nil {
						return err
					}
					return orEcho(app.Down)(ctx, &down{s, m})
				}},
			connect.Method{
				Spec: connect.Spec{Procedure: service + "Up", StreamType: connect.StreamTypeClient},
				Handler: func(ctx context.Context, _ connect.Spec, s connect.ServerStream) error {
					m := &up{s, new(message)}
					if err := orEcho(app.Up)(ctx, m); err != nil {
						return err
					}
					return s.Send(m.answer)
				}},
		)
	}
	return server
}

// unary returns a method as generated code makes it.
func unary(procedure string, handle func(context.Context, string) (string, error)) connect.Method {
	return connect.Method{
		Spec: connect.Spec{Procedure: procedure, StreamType: connect.StreamTypeUnary},
		Handler: func(ctx context.Context, _ connect.Spec, s connect.ServerStream) error {
			m := new(message)
			if err := s.Receive(m); err != nil {
				return err
			}
			text, err := handle(ctx, m.GetValue())
			if err != nil {
				return err
			}
			return s.Send(wrapperspb.String(text))
		},
	}
}

func orEcho(run func(context.Context, parity.ServerMessages) error) func(context.Context, parity.ServerMessages) error {
	if run == nil {
		return parity.Echo
	}
	return run
}

// callLimiter has no preflights.
type callLimiter struct{ *connect2mw.Limiter }

func (callLimiter) Preflights() int64 { return 0 }

func newLimiter(t testing.TB, config connect2mw.Config) *connect2mw.Limiter {
	t.Helper()
	l, err := connect2mw.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// down has the messages of a stream of the server.
type down struct {
	s     connect.ServerStream
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
	s      connect.ServerStream
	answer *message
}

func (m *up) Send(text string) error {
	m.answer = wrapperspb.String(text)
	return nil
}

func (m *up) Receive() (string, error) {
	got := new(message)
	if err := m.s.Receive(got); err != nil {
		if errors.Is(err, io.EOF) {
			return "", io.EOF
		}
		return "", err
	}
	return got.GetValue(), nil
}

type parityClient struct{ *connect.Client }

// withFields returns a context for a call with header fields, and what is known of the call.
func withFields(ctx context.Context, fields http.Header) (context.Context, *connect.CallInfo) {
	ctx, info := connect.NewClientContext(ctx)
	for name, values := range fields {
		info.RequestHeader().SetValues(name, values)
	}
	return ctx, info
}

func unarySpec(procedure string) connect.Spec {
	return connect.Spec{Procedure: procedure, StreamType: connect.StreamTypeUnary}
}

func (c parityClient) Call(ctx context.Context, service string, fields http.Header, text string) parity.CallAnswer {
	ctx, info := withFields(ctx, fields)
	err := c.CallUnary(ctx, unarySpec("/"+service+"/Unary"), wrapperspb.String(text), new(message))
	return parityAnswer(info, err)
}

func (c parityClient) Stream(ctx context.Context, method string, fields http.Header) parity.ClientMessages {
	ctx, info := withFields(ctx, fields)
	spec := connect.Spec{Procedure: "/parity.v1.First/" + method, StreamType: connect.StreamTypeClient}
	m := &clientMessages{info: info, opened: make(chan struct{})}
	if method == "Down" {
		spec.StreamType, m.isDown = connect.StreamTypeServer, true
		go func() { // waits for the header of the response
			defer close(m.opened)
			// CallServerStream hides what a server in the process answers before it reads: see below.
			if m.s, m.err = c.CallClientStream(ctx, spec); m.err == nil {
				if err := m.s.Send(wrapperspb.String("x")); err != nil && !errors.Is(err, io.EOF) {
					m.err = err
					return
				}
				m.s.CloseSend()
			}
		}()
		return m
	}
	m.s, m.err = c.CallClientStream(ctx, spec)
	close(m.opened)
	return m
}

type clientMessages struct {
	opened chan struct{}
	s      connect.ClientStream
	info   *connect.CallInfo
	err    error
	isDown bool
	isRead bool // all of it
}

func (m *clientMessages) Send(text string) error {
	if m.isDown {
		return nil
	}
	return m.s.Send(wrapperspb.String(text))
}

func (m *clientMessages) CloseSend() {}

func (m *clientMessages) Receive() (string, error) {
	<-m.opened
	if m.err != nil || m.isRead {
		return "", io.EOF
	}
	if !m.isDown {
		m.isRead = true
		if err := m.s.CloseSend(); err != nil {
			m.err = err
			return "", io.EOF
		}
	}
	got := new(message)
	err := m.s.Receive(got)
	if err == nil && !m.isDown { // the header may be written until the end
		if end := m.s.Receive(new(message)); !errors.Is(end, io.EOF) {
			err = end
		}
	}
	if err != nil {
		if m.isRead = true; !errors.Is(err, io.EOF) {
			m.err = err
		}
		return "", io.EOF
	}
	return got.GetValue(), nil
}

func (m *clientMessages) Answer() parity.CallAnswer { return parityAnswer(m.info, m.err) }

func parityAnswer(info *connect.CallInfo, err error) parity.CallAnswer {
	a := parity.CallAnswer{Fields: make(http.Header)}
	if info.TransportInfo == nil && errors.Is(err, context.Canceled) {
		return parity.CallAnswer{Code: uint32(connect.CodeCanceled)} // the handler may still write the header
	}
	for _, h := range []*connect.Header{info.ResponseTrailer(), info.ResponseHeader()} {
		for name, values := range h.All() {
			a.Fields[name] = values
		}
	}
	if err == nil {
		return a
	}
	a.Code, a.Text = uint32(connect.CodeOf(err)), err.Error()
	if errors.Is(err, context.Canceled) { // which a transport may report as it is
		a.Code = uint32(connect.CodeCanceled)
	}
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return a
	}
	a.Text = e.Message()
	for _, detail := range e.Details() {
		switch d, _ := connectproto.UnmarshalErrorDetail(detail); d := d.(type) {
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
