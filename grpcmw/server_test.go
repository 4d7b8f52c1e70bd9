package grpcmw_test

import (
	"context"
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
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// service has a handler for each kind of call; nil: it answers at once.
type service struct {
	pb.UnimplementedTestServiceServer
	unary  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
	down   func(*pb.StreamingOutputCallRequest, pb.TestService_StreamingOutputCallServer) error
	up     func(pb.TestService_StreamingInputCallServer) error
	duplex func(pb.TestService_FullDuplexCallServer) error
}

func (s *service) UnaryCall(ctx context.Context, m *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary == nil {
		return new(pb.SimpleResponse), nil
	}
	return s.unary(ctx, m)
}

func (s *service) StreamingOutputCall(
	m *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer,
) error {
	if s.down == nil {
		return stream.Send(new(pb.StreamingOutputCallResponse))
	}
	return s.down(m, stream)
}

func (s *service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	if s.up == nil {
		return stream.SendAndClose(new(pb.StreamingInputCallResponse))
	}
	return s.up(stream)
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	if s.duplex == nil {
		return nil
	}
	return s.duplex(stream)
}

const unaryMethod = "/grpc.testing.TestService/UnaryCall"

// serve starts a server on a bufconn, and returns a client of it. Everything ends with the test.
func serve(t testing.TB, s *service, options ...grpc.ServerOption) pb.TestServiceClient {
	t.Helper()
	return pb.NewTestServiceClient(dial(t, listen(t, s, options...)))
}

// listen starts a server, and returns its listener.
func listen(t testing.TB, s *service, options ...grpc.ServerOption) *bufconn.Listener {
	t.Helper()
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, s)
	return listenOn(t, server)
}

// listenOn starts a server that has its services.
func listenOn(t testing.TB, server *grpc.Server) *bufconn.Listener {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener
}

func dial(t testing.TB, listener *bufconn.Listener, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///server", append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// both returns the options that install a limiter.
func both(l *grpcmw.Limiter) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(l.Unary()), grpc.ChainStreamInterceptor(l.Stream())}
}

func newLimiter(t testing.TB, config grpcmw.Config) *grpcmw.Limiter {
	t.Helper()
	l, err := grpcmw.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// everybody returns rules with a limit that all calls share.
func everybody(limit limits.Limit) []grpcmw.Rule {
	return []grpcmw.Rule{{Name: "everybody", Limit: limit, Key: keyfuncs.Constant[*grpcmw.Call]("everybody")}}
}

// told is what the client learns of a call.
type told struct {
	code     codes.Code
	header   metadata.MD
	trailer  metadata.MD
	retry    time.Duration // of RetryInfo; -1: there is none
	violated string        // the subjects of QuotaFailure
}

// ask calls UnaryCall.
func ask(ctx context.Context, client pb.TestServiceClient) told {
	var got told
	_, err := client.UnaryCall(ctx, new(pb.SimpleRequest), grpc.Header(&got.header), grpc.Trailer(&got.trailer))
	got.read(err)
	return got
}

func (got *told) read(err error) {
	s := status.Convert(err)
	got.code, got.retry = s.Code(), -1
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			got.retry = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			var names []string
			for _, v := range d.GetViolations() {
				names = append(names, v.GetSubject())
			}
			got.violated = strings.Join(names, ", ")
		}
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%v, want %v", err, want)
	}
}

// servers starts the service on TCP, by gRPC's own HTTP/2 and by that of net/http, and returns their
// clients.
func servers(t testing.TB, s *service, options ...grpc.ServerOption) map[string]pb.TestServiceClient {
	t.Helper()
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, s)
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- server.Serve(own) }()
	overHTTP := httptest.NewUnstartedServer(server)
	overHTTP.Config.Protocols = new(http.Protocols)
	overHTTP.Config.Protocols.SetUnencryptedHTTP2(true)
	overHTTP.Start()
	t.Cleanup(func() {
		overHTTP.Close()
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	clients := make(map[string]pb.TestServiceClient)
	for name, address := range map[string]net.Addr{"Serve": own.Addr(), "ServeHTTP": overHTTP.Listener.Addr()} {
		conn, err := grpc.NewClient(address.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		clients[name] = pb.NewTestServiceClient(conn)
	}
	return clients
}
