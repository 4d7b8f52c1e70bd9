package grpcmw_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/internal/proof/bypass"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/policy"
)

func TestNoSpellingOfAMethodPassesALimit(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *grpc.Server) string{
		"Serve": startServer, "ServeHTTP": startHTTP, "Tap": startServer,
	} {
		t.Run(name, func(t *testing.T) {
			bypass.Calls(t, func(t *testing.T, file string) func(method, path string) bool {
				rules := bypass.Rules(t, file, policy.Names[*grpcmw.Call]{Request: (*grpcmw.Call).Request})
				var served atomic.Int32
				app := parity.CallApp[*grpcmw.Call]{
					Site:  new(parity.Config[*grpcmw.Call]),
					Unary: func(context.Context, string) error { served.Add(1); return nil },
				}
				app.Site.Rules = rules
				conn := open(t, app, start, name == "Tap").(*parityClient).conn
				return func(method, path string) bool {
					if method != "POST" { // gRPC sends nothing else
						return false
					}
					before := served.Load()
					conn.Invoke(t.Context(), path, wrapperspb.String(""), new(wrapperspb.StringValue))
					return served.Load() > before
				}
			})
		})
	}
}
