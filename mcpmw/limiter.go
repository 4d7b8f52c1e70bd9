package mcpmw

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a rule for calls: see [core.Rule]. The status in the [core.Result] of a FinalCost is the
// HTTP status that is nearest to the answer: 200 for a result, 500 for a tool result with IsError,
// 400 or 404 for a JSON-RPC error that blames the call, 500 for others. It is 0 after a panic and
// if the client has cancelled the call. Bytes is 0.
type Rule = core.Rule[*Call]

// Config configures a [Limiter]: see [nethttp.ConfigOf], with calls for requests and
// [CodeUnavailable] for status 503.
//
// Headers chooses the fields that clients get, with names in lower case: in _meta of a result and
// in the data of an error. Retry-After is the number retryAfter there.
//
// Denied returns the answer to a call that is denied or could not be decided: a result or an
// error. The last argument is the default, with code, message and data. Denied may change and
// return it. It is used if Denied returns neither. nil: the default. [ToolResult] answers with a
// tool result.
//
// CountProbes lets rules count "server/discover", which passes otherwise.
//
// OutcomeInContext makes [OutcomeFrom] return the outcome of an allowed call in its handler and in
// the middleware inside.
type Config = nethttp.CallConfigOf[*Call, func(*Call, core.Outcome, *jsonrpc.Error) (mcp.Result, error)]

// Limiter limits the calls of a server. It is safe for concurrent use.
type Limiter struct {
	nethttp.Controls[*Call]
	gate        *gate.Gate[*Call]
	denied      func(*Call, core.Outcome, *jsonrpc.Error) (mcp.Result, error)
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

// Middleware returns receiving middleware that passes only allowed calls to their handlers. Add it
// with [mcp.Server.AddReceivingMiddleware]. All middleware of one limiter counts together. A call
// ends when its handler has returned or panicked, unless [Detach] is called.
//
// Pings and notifications pass, and no rule counts them, and so does "server/discover" without
// [Config].CountProbes. In a client the middleware has no effect.
// Middleware panics if l is nil or was not made by [New].
func (l *Limiter) Middleware() mcp.Middleware {
	if l == nil || l.gate == nil {
		panic("mcpmw: Limiter.Middleware: the limiter is nil or zero: make one with New")
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			c, ok := callOf(ctx, method, request)
			if !ok || method == discover && !l.countProbes {
				return next(ctx, method, request)
			}
			s := &serving{Call: c, limiter: l, request: request, next: next}
			return s.serve(ctx)
		}
	}
}

// discover is the first request of a client since the protocol of 2026-07-28. A client whose request
// is denied takes the server for an old one.
const discover = "server/discover"

// callOf returns the call that rules decide. ok is false for messages that no rule counts: pings,
// notifications, and messages that a client receives.
func callOf(ctx context.Context, method string, request mcp.Request) (c Call, ok bool) {
	if method == "ping" || strings.HasPrefix(method, "notifications/") {
		return c, false
	}
	session, ok := request.GetSession().(*mcp.ServerSession)
	return Call{
		Context: ctx, Method: method, Session: session, Params: request.GetParams(),
		Extra: request.GetExtra(),
	}, ok
}

// serving implements [gate.Caller].
type serving struct {
	Call
	limiter *Limiter
	request mcp.Request
	next    mcp.MethodHandler
	fields  http.Header // of this limiter and of those outside and inside
	result  mcp.Result
}

// outermost is the part of a call that its limiters share. It is in the context of the call.
type outermost struct {
	request mcp.Request
	fields  http.Header
}

type outermostKey struct{}

// serve returns the answer to the call. The outermost limiter adds the fields of all.
func (s *serving) serve(ctx context.Context) (mcp.Result, error) {
	of, ok := ctx.Value(outermostKey{}).(*outermost)
	isInner := ok && of.request == s.request // false in a server that the handler of a call runs
	if !isInner {
		of = &outermost{s.request, make(http.Header)}
		ctx = context.WithValue(ctx, outermostKey{}, of)
	}
	s.fields, s.Context = of.fields, ctx
	err := s.limiter.gate.ServeCall(ctx, &s.Call, s)
	if err == nil && !isInner {
		s.result = withFields(s.result, of.fields)
	}
	return s.result, err
}

func (s *serving) Fields() http.Header { return s.fields }

func (s *serving) Go() (int, error) {
	var err error
	s.result, err = s.next(s.Context, s.Method, s.request)
	return statusOf(s.result, err), err
}

func (s *serving) Refuse(r *gate.Refusal) error {
	var err error
	s.result, err = s.limiter.refuse(&s.Call, r, s.fields)
	return err
}

// refuse returns the answer to a call that may not go on. fields has the fields of all limiters.
func (l *Limiter) refuse(c *Call, r *gate.Refusal, fields http.Header) (mcp.Result, error) {
	if r.Status == 0 {
		return nil, r.Err
	}
	refused := refusal(r.Status, r.Detail, dataOf(fields, r.Wait, r.Violated()))
	if l.denied != nil {
		if result, err := l.denied(c, r.Outcome, refused); result != nil || err != nil {
			return result, err
		}
	}
	return nil, refused
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

// Unlimited returns, in order, the names of the tools that no enforced rule applies to. A tool
// whose name is misspelt in a condition, or a new tool without a rule, causes no error: log the
// result at the start of the server, or limit the rest by [core.Otherwise].
//
//	if names := limiter.Unlimited(search, render); len(names) > 0 {
//		slog.Warn("no rule limits these tools", "tools", names)
//	}
//
// It calls the Keys of rules with calls that have the name of the tool, but neither arguments nor
// session nor token. A rule whose Key fails without them applies. It does not call a backend.
func (l *Limiter) Unlimited(tools ...*mcp.Tool) (names []string) {
	for _, tool := range tools {
		c := &Call{
			Context: context.Background(), Method: "tools/call",
			Params: &mcp.CallToolParamsRaw{Name: tool.Name},
		}
		if !l.gate.Applies(c) {
			names = append(names, tool.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
