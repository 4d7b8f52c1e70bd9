package connectmw

import (
	"context"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a rule for calls: see [core.Rule]. The status in the [core.Result] of a FinalCost is the
// HTTP status that google/rpc/code.proto names for the code of the call, such as 401 for
// connect.CodeUnauthenticated. It is 0 after a panic and if the client has left. Bytes is 0.
type Rule = core.Rule[*Call]

// Config configures a [Limiter]: see [nethttp.ConfigOf], with calls for requests and
// connect.CodeUnavailable for status 503.
//
// Denied returns the error of a call that is denied or could not be decided. The last argument is
// the default, with the code, a message and the details RetryInfo and QuotaFailure; it is used if
// Denied returns nil. If a call could not be decided and Denied returns a code that blames the
// client, such as connect.CodeUnauthenticated, the client is not told to try again. nil: the
// default.
//
// CountProbes lets rules count Health/Check and Health/Watch of grpc.health.v1, which pass otherwise.
//
// OutcomeInContext makes [OutcomeFrom] return the outcome of an allowed call in its handler and in
// the interceptors inside.
type Config = nethttp.CallConfigOf[*Call, func(*Call, core.Outcome, *connect.Error) error]

// Limiter limits the calls of a server. It is safe for concurrent use.
type Limiter struct {
	nethttp.Controls[*Call]
	gate        *gate.Gate[*Call]
	denied      func(*Call, core.Outcome, *connect.Error) error
	countProbes bool
}

// New returns a limiter. The error reports every mistake in config.
func New(config Config) (*Limiter, error) {
	controls, g, err := config.Gate(gate.Framework[*Call]{
		Context:     func(c *Call) context.Context { return c.Context },
		WithContext: withContext,
		Attach:      withOutcome,
	})
	return gate.Made(&Limiter{controls, g, config.Denied, config.CountProbes}, err)
}

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Limiter { return gate.Must(New(config)) }

// Interceptor returns the interceptor that passes only allowed calls to their handlers, unary calls
// and streams. All interceptors of one limiter count together. A call ends when its handler has
// returned or panicked, unless [Detach] is called. In a client the interceptor has no effect.
// Interceptor panics if l is nil or was not made by [New].
func (l *Limiter) Interceptor() connect.Interceptor {
	if l == nil || l.gate == nil {
		panic("connectmw: Limiter.Interceptor: the limiter is nil or zero: make one with New")
	}
	return interceptor{l}
}

// refuse returns the error of a call that may not go on. header is the header of the response.
func (l *Limiter) refuse(c *Call, r *gate.Refusal, header http.Header) error {
	answer.SetUncached(header)
	if r.Status == 0 {
		return endedError(r.Err)
	}
	code := connect.CodeUnavailable
	if r.Status == http.StatusTooManyRequests {
		code = connect.CodeResourceExhausted
	}
	refused := refusal(code, r.Detail, r.Wait, r.Violated())
	if c.Peer.Protocol != connect.ProtocolConnect {
		refused.Meta().Set(pushback, r.Pushback(c.Context))
	}
	if l.denied != nil {
		if err := l.denied(c, r.Outcome, refused); err != nil {
			if r.NoWaitHelps(uint32(connect.CodeOf(err))) {
				header.Del("Retry-After")
			}
			return err
		}
	}
	return refused
}

type interceptor struct{ limiter *Limiter }

func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if request.Spec().IsClient || i.limiter.passes(request.Spec()) {
			return next(ctx, request)
		}
		u := &unary{Call: callOf(ctx, request), limiter: i.limiter, request: request, next: next}
		err := i.limiter.gate.ServeCall(ctx, &u.Call, u)
		return u.response, err
	}
}

func (i interceptor) WrapStreamingClient(
	next connect.StreamingClientFunc,
) connect.StreamingClientFunc {
	return next
}

func (i interceptor) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if i.limiter.passes(conn.Spec()) {
			return next(ctx, conn)
		}
		s := &streaming{Call: streamOf(ctx, conn), limiter: i.limiter, conn: conn, next: next}
		return i.limiter.gate.ServeCall(ctx, &s.Call, s)
	}
}

// passes reports whether calls of a procedure pass uncounted.
func (l *Limiter) passes(spec connect.Spec) bool {
	return !l.countProbes && gate.IsProbe(spec.Procedure)
}

func callOf(ctx context.Context, request connect.AnyRequest) Call {
	return Call{
		Context: ctx, Spec: request.Spec(), Peer: request.Peer(), Header: request.Header(),
		Message: request.Any(),
	}
}

func streamOf(ctx context.Context, conn connect.StreamingHandlerConn) Call {
	return Call{Context: ctx, Spec: conn.Spec(), Peer: conn.Peer(), Header: conn.RequestHeader()}
}

// unary implements [gate.Caller] for a unary call.
type unary struct {
	Call
	limiter  *Limiter
	request  connect.AnyRequest
	next     connect.UnaryFunc
	response connect.AnyResponse
}

func (u *unary) Fields() http.Header { return unaryHeader(u.Context) }

func (u *unary) Go() (int, error) {
	var err error
	u.response, err = u.next(u.Context, u.request)
	return statusOf(err), err
}

func (u *unary) Refuse(r *gate.Refusal) error {
	return u.limiter.refuse(&u.Call, r, unaryHeader(u.Context))
}

// unaryHeader returns the header of the response to a unary call, successful or not.
func unaryHeader(ctx context.Context) http.Header {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok { // a test calls the interceptor without a server
		return make(http.Header)
	}
	return info.ResponseHeader()
}

// streaming implements [gate.Caller] for a stream.
type streaming struct {
	Call
	limiter *Limiter
	conn    connect.StreamingHandlerConn
	next    connect.StreamingHandlerFunc
}

func (s *streaming) Fields() http.Header { return s.conn.ResponseHeader() }

func (s *streaming) Go() (int, error) {
	err := s.next(s.Context, s.conn)
	return statusOf(err), err
}

func (s *streaming) Refuse(r *gate.Refusal) error {
	return s.limiter.refuse(&s.Call, r, s.conn.ResponseHeader())
}

func withContext(c *Call, ctx context.Context) *Call {
	c.Context = ctx
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

// Unlimited returns, in order, the procedures of the services in files that no enforced rule
// applies to. A procedure whose name is misspelt in a condition, or a new procedure without a rule,
// causes no error: log the result at the start of the server, or limit the rest by
// [core.Otherwise]. A file is a variable that protoc-gen-go generates:
//
//	if procedures := limiter.Unlimited(greet.File_greet_greet_proto); len(procedures) > 0 {
//		slog.Warn("no rule limits these procedures", "procedures", procedures)
//	}
//
// It calls the Keys of rules with calls that have a Spec, and a Message unless the procedure
// streams, but neither header nor peer. A rule whose Key fails without them applies. It does not
// call a backend. Health checks pass without [Config].CountProbes, whether a rule applies or not.
func (l *Limiter) Unlimited(files ...protoreflect.FileDescriptor) (procedures []string) {
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				c := &Call{
					Context: context.Background(), Spec: specOf(service.Methods().Get(j)),
					Header: make(http.Header),
				}
				if c.Spec.StreamType == connect.StreamTypeUnary {
					c.Message = struct{}{} // a message that has not arrived
				}
				if !l.gate.Applies(c) {
					procedures = append(procedures, c.Spec.Procedure)
				}
			}
		}
	}
	slices.Sort(procedures)
	return slices.Compact(procedures)
}

// specOf returns the Spec of a method on a server.
func specOf(method protoreflect.MethodDescriptor) connect.Spec {
	spec := connect.Spec{
		Schema: method, Procedure: "/" + string(method.Parent().FullName()) + "/" +
			string(method.Name()),
	}
	if method.IsStreamingClient() {
		spec.StreamType |= connect.StreamTypeClient
	}
	if method.IsStreamingServer() {
		spec.StreamType |= connect.StreamTypeServer
	}
	return spec
}
