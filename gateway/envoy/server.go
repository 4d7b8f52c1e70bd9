package envoy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	codec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/gateway/internal/minutely"
)

// ServerOptions are the options of [NewServer]. The zero value is ready to use.
type ServerOptions struct {
	// MaxConnectionAge is how long a connection takes new calls, a tenth more or less by chance. Then
	// the server sends GOAWAY, and the proxy opens a new connection for its next call. A balancer in
	// between can give that one to another process, so proxies spread over the processes of a new
	// deployment. 0: as long as the proxy keeps it.
	MaxConnectionAge time.Duration

	// MaxConnectionAgeGrace is how long calls in flight have to end after that; then the connection is
	// closed. 0: a minute, the longest wait of a request in a leaky queue.
	MaxConnectionAgeGrace time.Duration

	// Logger gets a line a minute while calls panic. nil: the logger that slog.Default returns at that
	// time.
	Logger *slog.Logger
}

// validate returns every mistake in o.
func (o *ServerOptions) validate() error {
	var errs []error
	if o.MaxConnectionAge != 0 && o.MaxConnectionAge < time.Second { // grpc-go panics below 10 ns
		errs = append(errs, fmt.Errorf(
			"envoy: MaxConnectionAge must be at least a second, or 0 for no end (got %v)", o.MaxConnectionAge))
	}
	if o.MaxConnectionAgeGrace < 0 {
		errs = append(errs, fmt.Errorf(
			"envoy: MaxConnectionAgeGrace must be positive, or 0 for a minute (got %v)", o.MaxConnectionAgeGrace))
	}
	return errors.Join(errs...)
}

// NewServer returns a server for proxies, with further options of grpc-go, such as credentials. A
// connection has ten seconds for its handshake, and ends if its peer does not answer pings. A
// message has at most 4 MiB, its header 128 KiB, and a connection at most 1,000 calls at once. Texts
// need not be UTF-8. A call that panics is answered as an internal error. The error reports every
// mistake in o.
func NewServer(o ServerOptions, more ...grpc.ServerOption) (*grpc.Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	options := []grpc.ServerOption{
		grpc.ConnectionTimeout(10 * time.Second), // otherwise two minutes for the preface
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.ForceServerCodecV2(tolerant{encoding.GetCodecV2(codec.Name)}),
		grpc.MaxHeaderListSize(128 << 10), // a proxy may hand on fields of a client, such as tracestate
		grpc.MaxConcurrentStreams(1000),
		// Windows that do not grow need no pings: otherwise there is always one on its way, which
		// wakes both sides.
		grpc.StaticStreamWindowSize(64 << 10),
		grpc.StaticConnWindowSize(1 << 20),
		grpc.NumStreamWorkers(64), // a new goroutine has to grow its stack for each call
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second,
			MaxConnectionAge:      o.MaxConnectionAge,
			MaxConnectionAgeGrace: cmp.Or(o.MaxConnectionAgeGrace, time.Minute),
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
		grpc.ChainUnaryInterceptor(recovering(o.Logger)),
	}
	return grpc.NewServer(append(options, more...)...), nil
}

// MustNewServer is [NewServer] for options that the program sets. It panics if they have a mistake.
func MustNewServer(o ServerOptions, more ...grpc.ServerOption) *grpc.Server {
	server, err := NewServer(o, more...)
	if err != nil {
		panic(err)
	}
	return server
}

// recovering returns what answers a call that panics: grpc-go recovers nothing.
func recovering(logger *slog.Logger) grpc.UnaryServerInterceptor {
	panics := &minutely.Log{Logger: logger, Level: slog.LevelError, Text: "envoy: a call panicked"}
	return func(
		ctx context.Context, message any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (answer any, err error) {
		returned := false
		defer func() {
			if !returned {
				panics.Note(errors.New(textOf(recover())))
				answer, err = nil, status.Error(codes.Internal, "the call failed")
			}
		}()
		answer, err = next(ctx, message)
		returned = true
		return answer, err
	}
}

// textOf returns where a panic came from. Its value may have a part of the request.
func textOf(value any) string { return fmt.Sprintf("panic with a %T\n%s", value, debug.Stack()) }

// Health is the health service of a server.
type Health struct{ server *health.Server }

// RegisterHealth lets server answer grpc.health.v1.Health, for the server as a whole and for
// the service "ratelimit", which probes of envoyproxy/ratelimit ask for. Both serve.
func RegisterHealth(server grpc.ServiceRegistrar) *Health {
	h := &Health{health.NewServer()}
	healthpb.RegisterHealthServer(server, h.server)
	h.server.SetServingStatus("ratelimit", healthpb.HealthCheckResponse_SERVING)
	return h
}

// Shutdown says from now on that the server does not serve.
func (h *Health) Shutdown() { h.server.Shutdown() }

// Resume says from now on that the server serves, after a Shutdown.
func (h *Health) Resume() { h.server.Resume() }
