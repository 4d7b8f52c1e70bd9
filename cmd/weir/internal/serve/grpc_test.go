package serve

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// Without the code the client would take the denial for UNAVAILABLE, and its policy would repeat it.
func TestADenialIsUnderstoodByClientsOfGRPC(t *testing.T) {
	for _, proxy := range []string{"envoy", "traefik"} {
		path := testrun.Program(t, proxy)
		t.Run(proxy, func(t *testing.T) {
			s := setUp(t, 0, "weir.yaml")
			if proxy == "envoy" {
				s.run(path, "-c", s.envoyWithout("ratelimit"), "--use-dynamic-base-id", "--concurrency", "1",
					"-l", "error")
			} else {
				s.traefik()
			}
			for range 2 {
				response, err := http.Post(s.url+"/login", "text/plain", nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			if got := s.denyCall(0); len(got) < 5 { // most of an hour, in milliseconds
				t.Errorf("pushback %q", got)
			}
			if got := s.denyCall(time.Minute); got != "-1" {
				t.Errorf("pushback %q before the deadline", got)
			}
		})
	}
}

// denyCall makes a call that must be denied, and returns its pushback.
func (s *system) denyCall(timeout time.Duration) string {
	s.t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(s.url, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	ctx := s.t.Context()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var header, trailer metadata.MD
	var message healthpb.HealthCheckRequest // as good as any
	err = conn.Invoke(ctx, "/login", &message, &message, grpc.Header(&header), grpc.Trailer(&trailer))
	got := status.Convert(err)
	text := "Too many requests: retry in "
	if got.Code() != codes.ResourceExhausted || !strings.HasPrefix(got.Message(), text) {
		s.t.Errorf("%v: %q", got.Code(), got.Message())
	}
	return strings.Join(metadata.Join(header, trailer).Get("grpc-retry-pushback-ms"), ", ")
}
