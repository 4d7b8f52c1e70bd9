package grpcmw

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a rule for calls: see [core.Rule]. The status in the [core.Result] of a FinalCost is the
// HTTP status that google/rpc/code.proto names for the code of the call, such as 401 for
// codes.Unauthenticated. It is 0 after a panic and if the client has left. Bytes is 0.
type Rule = core.Rule[*Call]

// Config configures a [Limiter]: see [nethttp.ConfigOf], with calls for requests and
// codes.Unavailable for status 503.
//
// Headers chooses the fields that clients get as metadata, with names in lower case.
//
// Denied returns the error of a call that is denied or could not be decided. The last argument is
// the default, with the code, a message and the details RetryInfo and QuotaFailure; it is used if
// Denied returns nil. If a call could not be decided and Denied returns a code that blames the
// client, such as codes.Unauthenticated, the client is not told to try again. nil: the default.
//
// CountProbes lets rules count Health/Check and Health/Watch of grpc.health.v1, which pass otherwise.
//
// OutcomeInContext makes [OutcomeFrom] return the outcome of an allowed call in its handler and in
// the interceptors inside.
type Config = nethttp.CallConfigOf[*Call, func(*Call, core.Outcome, *status.Status) error]

// Limiter limits the calls of a server. It is safe for concurrent use.
type Limiter struct {
	nethttp.Controls[*Call]
	gate        *gate.Gate[*Call]
	denied      func(*Call, core.Outcome, *status.Status) error
	countProbes bool

	unary, stream, tap atomic.Bool  // which of Unary, Stream and Tap were called
	refused            atomic.Int64 // calls refused by Tap whose deadlines have not passed
	later              later        // denied calls that Tap leaves to interceptors
}

// New returns a limiter. The error reports every mistake in config.
func New(config Config) (*Limiter, error) {
	controls, g, err := config.Gate(gate.Framework[*Call]{
		Context:     func(c *Call) context.Context { return c.Context },
		WithContext: withContext,
		Attach:      withOutcome,
	})
	l := &Limiter{Controls: controls, gate: g, denied: config.Denied, countProbes: config.CountProbes}
	l.later.began = time.Now()
	return gate.Made(l, err)
}

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Limiter { return gate.Must(New(config)) }

// Unary returns the interceptor that passes only allowed calls to their handlers. Use
// [Limiter.Stream] as well: this one does not see streams. All interceptors of one limiter count
// together. A call ends when its handler has returned or panicked, unless [Detach] is called. Unary
// panics if l is nil or was not made by [New].
func (l *Limiter) Unary() grpc.UnaryServerInterceptor {
	l.check("Unary")
	l.unary.Store(true)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (any, error) {
		if l.passes(info.FullMethod) {
			return handler(ctx, message)
		}
		u := &unary{
			call: call{
				Call:    Call{Context: ctx, FullMethod: info.FullMethod, Message: message},
				limiter: l,
			},
			handler: handler,
		}
		err := l.serve(ctx, &u.Call, u)
		return u.response, err
	}
}

// Stream returns the interceptor that passes only allowed streams to their handlers. A stream ends
// when its handler has returned or panicked. See [Limiter.Unary].
func (l *Limiter) Stream() grpc.StreamServerInterceptor {
	l.check("Stream")
	l.stream.Store(true)
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
		handler grpc.StreamHandler) error {
		if l.passes(info.FullMethod) {
			return handler(server, stream)
		}
		ctx := stream.Context()
		s := &streaming{
			call: call{
				Call:    Call{Context: ctx, FullMethod: info.FullMethod, unregistered: server == nil},
				limiter: l,
			},
			stream: stream, server: server, handler: handler,
		}
		return l.serve(ctx, &s.Call, s)
	}
}

// passes reports whether calls of a method pass uncounted.
func (l *Limiter) passes(fullMethod string) bool {
	return !l.countProbes && gate.IsProbe(fullMethod)
}

func (l *Limiter) check(method string) {
	if l == nil || l.gate == nil {
		panic("grpcmw: Limiter." + method + ": the limiter is nil or zero: make one with New")
	}
}

// call is the part of [gate.Caller] that unary calls and streams share.
type call struct {
	Call
	limiter *Limiter
	fields  http.Header
}

// Fields implements [gate.Caller].
func (c *call) Fields() http.Header {
	c.fields = headerPool.Get().(http.Header)
	return c.fields
}

// unary implements [gate.Caller] for a unary call.
type unary struct {
	call
	handler  grpc.UnaryHandler
	response any
}

func (u *unary) Go() (int, error) {
	_ = grpc.SetHeader(u.Context, u.metadata()) // fails if the header was sent
	var err error
	u.response, err = u.handler(u.Context, u.Message)
	return statusOf(err), err
}

func (u *unary) Refuse(r *gate.Refusal) error {
	err := u.refuse(r)
	_ = grpc.SetTrailer(u.Context, u.trailer(r))
	return err
}

// streaming implements [gate.Caller] for a stream.
type streaming struct {
	call
	stream  grpc.ServerStream
	server  any
	handler grpc.StreamHandler
}

func (s *streaming) Go() (int, error) {
	_ = s.stream.SetHeader(s.metadata())
	stream := s.stream
	if s.derived {
		stream = &withinContext{stream, s.Context}
	}
	err := s.handler(s.server, stream)
	return statusOf(err), err
}

func (s *streaming) Refuse(r *gate.Refusal) error {
	err := s.refuse(r)
	s.stream.SetTrailer(s.trailer(r))
	return err
}

// withinContext is a stream with another context.
type withinContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *withinContext) Context() context.Context { return s.ctx }

func withContext(c *Call, ctx context.Context) *Call {
	c.Context, c.derived = ctx, true
	return c
}

type outcomeKey struct{}

func withOutcome(c *Call, o core.Outcome) *Call {
	return withContext(c, context.WithValue(c.Context, outcomeKey{}, &o))
}

// OutcomeFrom returns the outcome of the call with context ctx, and whether there is
// one. With several limiters, it is the outcome of the innermost one that has
// [Config].OutcomeInContext set.
func OutcomeFrom(ctx context.Context) (core.Outcome, bool) {
	if o, ok := ctx.Value(outcomeKey{}).(*core.Outcome); ok {
		return *o, true
	}
	return core.Outcome{}, false
}

// Unlimited returns, in order, the methods of a server that no enforced rule applies to. A method
// whose name is misspelt in a condition, or a new method without a rule, causes no error: log the
// result at the start of the server, or limit the rest by [core.Otherwise].
//
//	if methods := limiter.Unlimited(server.GetServiceInfo()); len(methods) > 0 {
//		slog.Warn("no rule limits these methods", "methods", methods)
//	}
//
// It calls the Keys of rules with calls that have a method, and a Message unless the method
// streams, but neither metadata nor peer. A rule whose Key fails without them applies. It does not
// call a backend. Health checks pass without [Config].CountProbes, whether a rule applies or not.
func (l *Limiter) Unlimited(services map[string]grpc.ServiceInfo) (methods []string) {
	for name, service := range services {
		for _, method := range service.Methods {
			c := &Call{Context: context.Background(), FullMethod: "/" + name + "/" + method.Name}
			if !method.IsClientStream && !method.IsServerStream {
				c.Message = struct{}{} // a message that has not arrived
			}
			if !l.gate.Applies(c) {
				methods = append(methods, c.FullMethod)
			}
		}
	}
	slices.Sort(methods)
	return methods
}
