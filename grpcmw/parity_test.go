package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
)

func TestParity(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *grpc.Server) string{
		"Serve": startServer, "ServeHTTP": startHTTP,
	} {
		t.Run(name, func(t *testing.T) {
			parity.RunCalls(t, caller(func(t *testing.T, app parity.CallApp[*grpcmw.Call]) parity.CallClient {
				return open(t, app, start, false)
			}, func(c *grpcmw.Call) string { return c.Message.(*wrapperspb.StringValue).GetValue() }))
		})
	}
}

// What Tap decides and interceptors answer is answered as what they decide. Their answers have fields, as
// those of the transport have not.
func TestParityOfCallsThatTapDecides(t *testing.T) {
	defer grpcmw.SetMaxRefused(0)()
	parity.RunCalls(t, caller(func(t *testing.T, app parity.CallApp[*grpcmw.Call]) parity.CallClient {
		return open(t, app, startServer, true)
	}, func(c *grpcmw.Call) string { return c.Request().Header.Get("X-Message") })) // sent besides the message
}

func caller(
	open func(*testing.T, parity.CallApp[*grpcmw.Call]) parity.CallClient, message func(*grpcmw.Call) string,
) parity.Caller[*grpcmw.Call] {
	return parity.Caller[*grpcmw.Call]{
		Open:        open,
		Lift:        grpcmw.Lift[string],
		LiftLimit:   grpcmw.Lift[limits.Limit],
		Method:      grpcmw.Method,
		Service:     grpcmw.Service,
		Message:     message,
		Error:       func(code uint32) error { return status.Error(codes.Code(code), "failed") },
		OutcomeFrom: grpcmw.OutcomeFrom,
		Spend:       grpcmw.Spend,
		Detach:      grpcmw.Detach,
	}
}

// startServer serves by gRPC's own HTTP/2, and returns the address.
func startServer(t *testing.T, server *grpc.Server) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// startHTTP serves by net/http, and returns the address.
func startHTTP(t *testing.T, server *grpc.Server) string {
	s := httptest.NewUnstartedServer(server)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() { s.Close(); server.Stop() })
	return s.Listener.Addr().String()
}

// open starts a server with app. tapped: the limiter Site has a tap, and calls have deadlines.
func open(
	t *testing.T, app parity.CallApp[*grpcmw.Call], start func(*testing.T, *grpc.Server) string, tapped bool,
) parity.CallClient {
	t.Helper()
	var server *grpc.Server
	options := []grpc.ServerOption{}
	unary := []grpc.UnaryServerInterceptor{recoverUnary}
	stream := []grpc.StreamServerInterceptor{recoverStream}
	if app.Shed != nil {
		u, s := grpcmw.Shed(app.Shed)
		unary, stream = append(unary, u), append(stream, s)
	}
	for _, c := range []*parity.Config[*grpcmw.Call]{app.Site, app.Group} {
		if c == nil {
			continue
		}
		config := grpcmw.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, MaxWaiting: c.MaxWaiting, OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(_ *grpcmw.Call, o core.Outcome, _ *status.Status) error {
				return status.Error(codes.Aborted, parity.SorryText(o))
			}
		}
		l := newLimiter(t, config)
		if c.Made != nil {
			c.Made(callLimiter{l})
		}
		unary, stream = append(unary, l.Unary()), append(stream, l.Stream())
		if tapped && c == app.Site && app.Shed == nil { // with a tap, the limiter counts what is shed
			options = append(options, grpc.InTapHandle(l.Tap(func() *grpc.Server { return server })))
		}
	}
	server = grpc.NewServer(
		append(options, grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...))...)
	for _, name := range []string{"parity.v1.First", "parity.v1.Second"} {
		server.RegisterService(describeService(name, app), app)
	}
	dialing := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if tapped {
		dialing = append(dialing, grpc.WithUnaryInterceptor(withDeadline),
			grpc.WithStreamInterceptor(streamWithDeadline))
	}
	conn, err := grpc.NewClient(start(t, server), dialing...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &parityClient{conn}
}

func withDeadline(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	return invoke(ctx, method, request, reply, conn, options...)
}

func streamWithDeadline(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	return streamer(ctx, desc, conn, method, append(options, grpc.OnFinish(func(error) { cancel() }))...)
}

// callLimiter has no preflights.
type callLimiter struct{ *grpcmw.Limiter }

func (callLimiter) Preflights() int64 { return 0 }

func recoverUnary(ctx context.Context, m any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (r any, err error) {
	defer recovered(&err)
	return h(ctx, m)
}

func recoverStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
	defer recovered(&err)
	return h(server, stream)
}

func recovered(err *error) {
	if recover() != nil {
		*err = status.Error(codes.Internal, "panicked")
	}
}

// describe describes a service of the application, as generated code does.
func describeService(name string, app parity.CallApp[*grpcmw.Call]) *grpc.ServiceDesc {
	unary := func(server any, ctx context.Context, decode func(any) error,
		interceptor grpc.UnaryServerInterceptor) (any, error) {
		message := new(wrapperspb.StringValue)
		if err := decode(message); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, m any) (any, error) {
			if app.Unary != nil {
				if err := app.Unary(ctx, m.(*wrapperspb.StringValue).GetValue()); err != nil {
					return nil, err
				}
			}
			return wrapperspb.String("hello"), nil
		}
		return interceptor(ctx, message, &grpc.UnaryServerInfo{Server: server, FullMethod: "/" + name + "/Unary"},
			handler)
	}
	desc := &grpc.ServiceDesc{
		ServiceName: name, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}},
	}
	for _, s := range streams {
		run := map[string]func(context.Context, parity.ServerMessages) error{"Down": app.Down,
			"Up": app.Up}[s.StreamName]
		if run == nil {
			run = parity.Echo
		}
		s.Handler = func(_ any, stream grpc.ServerStream) error { return run(stream.Context(), serverMessages{stream}) }
		desc.Streams = append(desc.Streams, s)
	}
	return desc
}

var streams = []grpc.StreamDesc{
	{StreamName: "Down", ServerStreams: true},
	{StreamName: "Up", ClientStreams: true},
}

type serverMessages struct{ stream grpc.ServerStream }

func (m serverMessages) Send(text string) error { return m.stream.SendMsg(wrapperspb.String(text)) }

func (m serverMessages) Receive() (string, error) {
	message := new(wrapperspb.StringValue)
	err := m.stream.RecvMsg(message)
	return message.GetValue(), err
}

type parityClient struct{ conn *grpc.ClientConn }

func outgoing(ctx context.Context, fields http.Header) context.Context {
	for name, values := range fields {
		for _, value := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, name, value)
		}
	}
	return ctx
}

func (c *parityClient) Call(ctx context.Context, service string, fields http.Header, message string) parity.CallAnswer {
	var header, trailer metadata.MD
	err := c.conn.Invoke(outgoing(ctx, fields), "/"+service+"/Unary", wrapperspb.String(message),
		new(wrapperspb.StringValue), grpc.Header(&header), grpc.Trailer(&trailer))
	return parityAnswer(err, header, trailer)
}

func (c *parityClient) Stream(ctx context.Context, method string, fields http.Header) parity.ClientMessages {
	for _, s := range streams {
		if s.StreamName == method {
			stream, err := c.conn.NewStream(outgoing(ctx, fields), &s, "/parity.v1.First/"+method)
			m := &clientMessages{stream: stream, err: err}
			if method == "Down" && err == nil {
				m.Send("x")
			}
			return m
		}
	}
	panic("there is no stream " + method)
}

type clientMessages struct {
	stream grpc.ClientStream
	err    error
}

func (m *clientMessages) Send(text string) error { return m.stream.SendMsg(wrapperspb.String(text)) }

func (m *clientMessages) CloseSend() {
	if m.stream != nil {
		m.stream.CloseSend()
	}
}

func (m *clientMessages) Receive() (string, error) {
	if m.err != nil {
		return "", m.err
	}
	message := new(wrapperspb.StringValue)
	m.err = m.stream.RecvMsg(message)
	return message.GetValue(), m.err
}

func (m *clientMessages) Answer() parity.CallAnswer {
	if m.stream == nil {
		return parityAnswer(m.err, nil, nil)
	}
	header, _ := m.stream.Header()
	if errors.Is(m.err, io.EOF) {
		return parityAnswer(nil, header, m.stream.Trailer())
	}
	return parityAnswer(m.err, header, m.stream.Trailer())
}

func parityAnswer(err error, mds ...metadata.MD) parity.CallAnswer {
	s := status.Convert(err)
	a := parity.CallAnswer{Code: uint32(s.Code()), Text: s.Message(), Fields: make(http.Header)}
	for _, md := range mds {
		for name, values := range md {
			if name != strings.ToLower(name) {
				panic("metadata in capitals: " + name)
			}
			for _, value := range values {
				a.Fields.Add(name, value)
			}
		}
	}
	for _, d := range s.Details() {
		switch d := d.(type) {
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
