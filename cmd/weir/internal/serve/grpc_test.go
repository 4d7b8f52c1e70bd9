package serve

import (
	"context"
	"net"
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
	for _, proxy := range []string{"envoy", "traefik", "nginx"} {
		path := testrun.Program(t, proxy)
		t.Run(proxy, func(t *testing.T) {
			denied := 0
			if proxy == "nginx" {
				denied = http.StatusForbidden
			}
			s := setUp(t, denied, "weir.yaml")
			switch proxy {
			case "envoy":
				s.run(path, "-c", s.envoyWithout("ratelimit"), "--use-dynamic-base-id", "--concurrency", "1",
					"-l", "error")
			case "traefik":
				s.traefik()
			case "nginx":
				s.run(path, "-p", s.dir, "-c", s.nginxOfGRPC())
			}
			for range 2 {
				s.call("127.0.0.1", 0, nil, nil)
			}
			if got := s.denyCall(0); len(got) < 5 { // most of an hour, in milliseconds
				t.Errorf("pushback %q", got)
			}
			if got := s.denyCall(time.Minute); got != "-1" {
				t.Errorf("pushback %q before the deadline", got)
			}
			before := len(s.passed)
			for range 2 {
				s.denyCall(0)
				if got := s.call("127.0.0.2", 0, nil, nil); got.Code() == codes.ResourceExhausted {
					t.Errorf("an innocent client: %v", got)
				}
			}
			if passed := len(s.passed) - before; passed != 2 {
				t.Errorf("%d of 2 calls of an innocent client have passed", passed)
			}
		})
	}
}

// nginxOfGRPC writes the configuration of the guide with what it says of gRPC.
func (s *system) nginxOfGRPC() string {
	s.t.Helper()
	text := s.ports.Replace(s.files["nginx.conf"])
	from := strings.Index(text, "    location @denied {")
	to := strings.Index(text, "    location = /weir-check {")
	text = text[:from] + `    location @denied {
      default_type application/grpc;
      add_header grpc-status $weir_code always;
      add_header grpc-message $weir_message always;
      add_header grpc-retry-pushback-ms $weir_pushback always;
      return 200 "";
    }

` + text[to:]
	text = strings.NewReplacer("proxy_pass http://app;", `grpc_pass grpc://app;
      auth_request_set $weir_code $upstream_http_grpc_status;
      auth_request_set $weir_message $upstream_http_grpc_message;
      auth_request_set $weir_pushback $upstream_http_grpc_retry_pushback_ms;`,
		"listen "+strings.TrimPrefix(s.url, "http://127.0.0.1:"), "listen "+strings.TrimPrefix(s.url, "http://")+" http2",
	).Replace(text)
	return s.write("nginx.conf", "daemon off; master_process off; error_log stderr error;\n"+text)
}

// denyCall makes a call that must be denied, and returns its pushback.
func (s *system) denyCall(timeout time.Duration) string {
	s.t.Helper()
	var header, trailer metadata.MD
	got := s.call("127.0.0.1", timeout, &header, &trailer)
	text := "Too many requests: retry in "
	if got.Code() != codes.ResourceExhausted || !strings.HasPrefix(got.Message(), text) {
		s.t.Errorf("%v: %q", got.Code(), got.Message())
	}
	return strings.Join(metadata.Join(header, trailer).Get("grpc-retry-pushback-ms"), ", ")
}

// call makes a call from an address. The program behind speaks no gRPC, so no call succeeds.
func (s *system) call(address string, timeout time.Duration, header, trailer *metadata.MD) *status.Status {
	s.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(s.url, "http://"),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", to)
		}), grpc.WithTransportCredentials(insecure.NewCredentials()))
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
	if header == nil {
		header, trailer = new(metadata.MD), new(metadata.MD)
	}
	var message healthpb.HealthCheckRequest // as good as any
	return status.Convert(conn.Invoke(ctx, "/login", &message, &message, grpc.Header(header), grpc.Trailer(trailer)))
}
