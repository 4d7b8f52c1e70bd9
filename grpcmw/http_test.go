package grpcmw_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
)

// retries is a policy that repeats calls four times. It waits for pushbacks, and else for a second.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5,
	"initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

// serveHTTP serves s by net/http inside of around, and returns a client with a retry policy.
func serveHTTP(t *testing.T, s *service, around func(http.Handler) http.Handler) pb.TestServiceClient {
	t.Helper()
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, s)
	web := &http.Server{Handler: around(server), Protocols: new(http.Protocols)}
	web.Protocols.SetUnencryptedHTTP2(true)
	listener := bufconn.Listen(1 << 20)
	done := make(chan error)
	go func() { done <- web.Serve(listener) }()
	t.Cleanup(func() {
		web.Close()
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
		server.Stop()
	})
	conn := dial(t, listener, grpc.WithDefaultServiceConfig(retries))
	return pb.NewTestServiceClient(conn)
}

// attempts counts requests on their way to next.
func attempts(n *int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*n++
		next.ServeHTTP(w, r)
	})
}

// wantAnswer checks how a call with a deadline ends, and when.
func wantAnswer(t *testing.T, client pb.TestServiceClient, deadline, took time.Duration, code codes.Code,
	message string) {
	t.Helper()
	ctx := t.Context()
	if deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	begun := time.Now()
	_, err := client.UnaryCall(ctx, new(pb.SimpleRequest))
	if s := status.Convert(err); s.Code() != code || s.Message() != message {
		t.Errorf("%v: %q, want %v: %q", s.Code(), s.Message(), code, message)
	}
	if got := time.Since(begun).Truncate(time.Second); got != took {
		t.Errorf("after %v, want %v", got, took)
	}
}

func TestALimiterOfHTTPIsUnderstoodByAClientOfGRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
			Name: "everybody", Limit: limits.SlidingLog(limits.PerMinute(1)),
			Key: keyfuncs.Constant[*http.Request]("everybody"),
		}}})
		n := 0
		client := serveHTTP(t, new(service), func(next http.Handler) http.Handler {
			return attempts(&n, limiter.Handler(next))
		})
		wantAnswer(t, client, 0, 0, codes.OK, "")
		// It would lose the denial if it waited.
		wantAnswer(t, client, 50*time.Second, 0, codes.ResourceExhausted,
			"Too many requests: retry in 60 seconds.")
		if n != 2 {
			t.Errorf("%d attempts", n)
		}
		wantAnswer(t, client, 70*time.Second, 60*time.Second, codes.OK, "")
		wantAnswer(t, client, 0, 60*time.Second, codes.OK, "")
		if n != 6 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestAShedderOfHTTPIsUnderstoodByAClientOfGRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shed.MustNew(shed.Options[*http.Request]{Limit: 1})
		n, release := 0, make(chan bool)
		wait := &service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			<-release
			return new(pb.SimpleResponse), nil
		}}
		client := serveHTTP(t, wait, func(next http.Handler) http.Handler {
			return attempts(&n, shed.Handler(s, next))
		})
		done := make(chan error)
		go func() {
			_, err := client.UnaryCall(t.Context(), new(pb.SimpleRequest))
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.UnaryCall(ctx, new(pb.SimpleRequest))
		if code := status.Code(err); code != codes.Unavailable || n != 2 || ctx.Err() != nil {
			t.Errorf("%v after %d attempts", err, n)
		}
		release <- true
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
