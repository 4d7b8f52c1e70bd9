// Package rpc measures calls of gRPC and Connect through limiters: on a server that answers at once, over a
// connection in this process, one call after another and from many goroutines.
package rpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// allowing admits all calls of a benchmark, denying one.
var (
	allowing = limits.TokenBucket(limits.PerSecond(1_000_000_000), 1_000_000_000)
	denying  = limits.TokenBucket(limits.PerDay(1), 1)
)

// xtime is what go-grpc-middleware has in its examples: one limit for all, of package rate.
type xtime struct{ *rate.Limiter }

func (l xtime) Limit(context.Context) error {
	if !l.Allow() {
		return errors.New("too many")
	}
	return nil
}

func grpcRules(limit limits.Limit, key func(*grpcmw.Call) (string, error)) grpc.ServerOption {
	return grpc.ChainUnaryInterceptor(
		grpcmw.MustNew(grpcmw.Config{Rules: []grpcmw.Rule{{Name: "a", Limit: limit, Key: key}}}).Unary())
}

func BenchmarkGRPC(b *testing.B) {
	everybody := keyfuncs.Constant[*grpcmw.Call]("all")
	for _, c := range []struct {
		name   string
		option grpc.ServerOption
		denies bool
	}{
		{"bare", grpc.EmptyServerOption{}, false},
		{"middleware",
			grpc.ChainUnaryInterceptor(ratelimit.UnaryServerInterceptor(xtime{rate.NewLimiter(rate.Inf, 0)})), false},
		{"weir, one key", grpcRules(allowing, everybody), false},
		{"weir, no fields", grpc.ChainUnaryInterceptor(grpcmw.MustNew(grpcmw.Config{
			Rules:   []grpcmw.Rule{{Name: "a", Limit: allowing, Key: everybody}},
			Headers: headers.Options{Show: headers.OnDenial},
		}).Unary()), false},
		{"weir, peer", grpcRules(allowing, keyfuncs.Address(grpcmw.Peer)), false},
		{"weir, metadata", grpcRules(allowing, grpcmw.Lift(keyfuncs.Header("x-tenant"))), false},
		{"middleware, denied",
			grpc.ChainUnaryInterceptor(ratelimit.UnaryServerInterceptor(xtime{rate.NewLimiter(0, 1)})), true},
		{"weir, denied", grpcRules(denying, everybody), true},
	} {
		b.Run(c.name, func(b *testing.B) {
			client := pb.NewTestServiceClient(serveGRPC(b, c.option))
			request := new(pb.SimpleRequest)
			want := codes.OK
			if c.denies {
				client.UnaryCall(b.Context(), request)
				want = codes.ResourceExhausted
			}
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := client.UnaryCall(b.Context(), request); status.Code(err) != want {
						b.Error(err)
					}
				}
			})
		})
	}
}

type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return new(pb.SimpleResponse), nil
}

func serveGRPC(b *testing.B, option grpc.ServerOption) *grpc.ClientConn {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(option)
	pb.RegisterTestServiceServer(server, service{})
	go server.Serve(listener)
	b.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// nothing is the stream of a call that goes nowhere.
type nothing struct{}

func (nothing) Method() string               { return "/a.B/C" }
func (nothing) SetHeader(metadata.MD) error  { return nil }
func (nothing) SendHeader(metadata.MD) error { return nil }
func (nothing) SetTrailer(metadata.MD) error { return nil }

// BenchmarkInterceptor leaves out the connection.
func BenchmarkInterceptor(b *testing.B) {
	handler := func(context.Context, any) (any, error) { return nil, nil }
	info := &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}
	weir := func(limit limits.Limit) grpc.UnaryServerInterceptor {
		all := keyfuncs.Constant[*grpcmw.Call]("all")
		return grpcmw.MustNew(grpcmw.Config{Rules: []grpcmw.Rule{{Name: "a", Limit: limit, Key: all}}}).Unary()
	}
	for _, c := range []struct {
		name string
		run  grpc.UnaryServerInterceptor
	}{
		{"middleware", ratelimit.UnaryServerInterceptor(xtime{rate.NewLimiter(rate.Inf, 0)})},
		{"weir", weir(allowing)},
		{"middleware, denied", ratelimit.UnaryServerInterceptor(xtime{rate.NewLimiter(0, 0)})},
		{"weir, denied", weir(denying)},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx := grpc.NewContextWithServerTransportStream(b.Context(), nothing{})
			c.run(ctx, nil, info, handler)
			b.ReportAllocs()
			for b.Loop() {
				c.run(ctx, nil, info, handler)
			}
		})
	}
}

func BenchmarkConnect(b *testing.B) {
	type message = wrapperspb.StringValue
	const path = "/a.B/C"
	for _, c := range []struct {
		name  string
		limit limits.Limit
	}{{"bare", limits.Limit{}}, {"weir", allowing}, {"weir, denied", denying}} {
		b.Run(c.name, func(b *testing.B) {
			var options []connect.HandlerOption
			if c.limit != (limits.Limit{}) {
				options = append(options,
					connect.WithInterceptors(connectmw.MustNew(connectmw.Config{Rules: []connectmw.Rule{{
						Name: "a", Limit: c.limit, Key: keyfuncs.Address(connectmw.Peer),
					}}}).Interceptor()))
			}
			handler := connect.NewUnaryHandler(path,
				func(context.Context, *connect.Request[message]) (*connect.Response[message], error) {
					return connect.NewResponse(new(message)), nil
				}, options...)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
			server.Protocols.SetUnencryptedHTTP2(true)
			go server.Serve(listener)
			b.Cleanup(func() { server.Close() })
			transport := &http.Transport{Protocols: server.Protocols}
			b.Cleanup(transport.CloseIdleConnections)
			client := connect.NewClient[message, message](&http.Client{Transport: transport},
				"http://"+listener.Addr().String()+path)
			ask := func() connect.Code {
				_, err := client.CallUnary(b.Context(), connect.NewRequest(new(message)))
				if err == nil {
					return 0
				}
				return connect.CodeOf(err)
			}
			want := connect.Code(0)
			if c.limit == denying {
				ask()
				want = connect.CodeResourceExhausted
			}
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if code := ask(); code != want {
						b.Error(code)
					}
				}
			})
		})
	}
}
