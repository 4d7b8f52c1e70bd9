package connect2mw

import (
	"context"
	"iter"
	"net/http"
	"slices"

	"connectrpc.com/connect/v2"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a rule for calls: see [core.Rule]. The status in the [core.Result] of a FinalCost is the
// HTTP status that google/rpc/code.proto names for the code that the client sees, such as 401 for
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
// returned or panicked, and the response of a unary call is written, unless [Detach] is called.
// Interceptor panics if l is nil or was not made by [New].
func (l *Limiter) Interceptor() connect.ServerInterceptor {
	if l == nil || l.gate == nil {
		panic("connect2mw: Limiter.Interceptor: the limiter is nil or zero: make one with New")
	}
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			if !l.countProbes && gate.IsProbe(spec.Procedure) {
				return next(ctx, spec, stream)
			}
			s := &serving{Call: callOf(ctx, spec), limiter: l, stream: stream, next: next}
			return l.gate.ServeCall(ctx, &s.Call, s)
		}
	}
}

// serving implements [gate.Caller].
type serving struct {
	Call
	limiter *Limiter
	stream  connect.ServerStream
	next    connect.ServerFunc
	fields  http.Header // of the response, until Go or Refuse writes them; nil: not yet asked for
}

func (s *serving) Fields() http.Header {
	if s.fields == nil {
		s.fields = fieldsOf(s.Info.ResponseHeader())
	}
	return s.fields
}

func (s *serving) Go() (int, error) {
	replace(s.Info.ResponseHeader(), s.Fields())
	err := s.next(s.Context, s.Spec, s.stream)
	return statusOf(err), err
}

// Refuse returns the error of a call that may not go on.
func (s *serving) Refuse(r *gate.Refusal) error {
	fields := s.Fields()
	defer replace(s.Info.ResponseHeader(), fields)
	answer.SetUncached(fields)
	if r.Status == 0 {
		return endedError(r.Err)
	}
	code := connect.CodeUnavailable
	if r.Status == http.StatusTooManyRequests {
		code = connect.CodeResourceExhausted
	}
	refused := refusal(code, r.Detail, r.Wait, r.Violated())
	if s.isGRPC() {
		s.Info.ResponseTrailer().Set(pushback, r.Pushback(s.Context))
	}
	if s.limiter.denied != nil {
		if err := s.limiter.denied(&s.Call, r.Outcome, refused); err != nil {
			if r.NoWaitHelps(uint32(connect.CodeOf(err))) {
				delete(fields, "Retry-After")
				s.Info.ResponseTrailer().Delete(pushback)
			}
			return err
		}
	}
	return refused
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

// Unlimited returns, in order, the procedures in specs that no enforced rule applies to. A procedure
// whose name is misspelt in a condition, or a new procedure without a rule, causes no error: log the
// result at the start of the server, or limit the rest by [core.Otherwise].
//
//	if procedures := limiter.Unlimited(server.Specs()); len(procedures) > 0 {
//		slog.Warn("no rule limits these procedures", "procedures", procedures)
//	}
//
// It calls the Keys of rules with calls that have a Spec, but neither header nor peer. A rule whose
// Key fails without them applies. It does not call a backend. Health checks pass without
// [Config].CountProbes, whether a rule applies or not.
func (l *Limiter) Unlimited(specs iter.Seq[connect.Spec]) (procedures []string) {
	for spec := range specs {
		c := &Call{Context: context.Background(), Spec: spec, Info: new(connect.CallInfo)}
		if !l.gate.Applies(c) {
			procedures = append(procedures, spec.Procedure)
		}
	}
	slices.Sort(procedures)
	return procedures
}
