package grpcmw_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/limits"
)

var errNoToken = errors.New("the token is missing or wrong")

// Unavailable means "again in a second", so clients repeat what can never succeed.
func TestACallWithoutATokenIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		denied   func(*grpcmw.Call, core.Outcome, *status.Status) error
		code     codes.Code
		attempts int32
	}{
		"by default": {nil, codes.Unavailable, 3},
		"unauthenticated": {func(_ *grpcmw.Call, o core.Outcome, _ *status.Status) error {
			if errors.Is(o.Err(), errNoToken) {
				return status.Error(codes.Unauthenticated, errNoToken.Error())
			}
			return nil
		}, codes.Unauthenticated, 1},
		"repeated by Unavailable of the program's own": {func(*grpcmw.Call, core.Outcome, *status.Status) error {
			return status.Error(codes.Unavailable, "soon")
		}, codes.Unavailable, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts atomic.Int32
				l := newLimiter(t, grpcmw.Config{
					Rules: []grpcmw.Rule{{Name: "user", Limit: limits.FixedWindow(limits.PerMinute(100)),
						Key: func(*grpcmw.Call) (string, error) {
							return "", errNoToken
						}}},
					Observer: core.ObserverFuncs[*grpcmw.Call]{
						OnDecision: func(context.Context, *grpcmw.Call, core.Outcome) { attempts.Add(1) },
					},
					Denied: c.denied,
				})
				client := pb.NewTestServiceClient(
					dial(t, listen(t, new(service), both(l)...),
						grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}],
					"retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1,
					"retryableStatusCodes": ["UNAVAILABLE", "UNAUTHENTICATED"]}}]}`))) // the worst client: it repeats both
				began := time.Now()
				got := ask(t.Context(), client)
				if got.code != c.code || attempts.Load() != c.attempts {
					t.Errorf("%v after %d attempts and %v, want %v after %d", got.code, attempts.Load(),
						time.Since(began), c.code, c.attempts)
				}
				final := c.code == codes.Unauthenticated
				if got.retry > 0 && final || (len(got.trailer.Get("retry-after")) == 0) != final ||
					(got.trailer.Get("grpc-retry-pushback-ms")[0] == "-1") != final {
					t.Errorf("told to wait: %+v", got)
				}

				stream, err := client.FullDuplexCall(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_, err = stream.Recv()
				wantCode(t, err, c.code)
				if waits := len(stream.Trailer().Get("retry-after")) > 0; waits == final {
					t.Errorf("a stream is told to wait: %v", stream.Trailer())
				}
			})
		})
	}
}
