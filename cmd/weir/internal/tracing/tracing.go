// Package tracing makes a span of OpenTelemetry of each check, and sends it to a collector by OTLP.
//
// A span has the names of rules and words of weir, as metrics have them, and nothing of the request:
// no key, no address, no path. Its parent is that of the field traceparent, which proxies send.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	rpc "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/internal/http/watch"
	"github.com/weir-go/weir/limits"
)

// Attributes of weir have the names of those of metrics.
const (
	verdict  = attribute.Key("weir.verdict") // see words
	ruleName = attribute.Key("weir.policy_rule.name")
	domain   = attribute.Key("weir.descriptor.domain")
	source   = attribute.Key("weir.decision.source")
	backend  = attribute.Key("weir.backend.name") // memory, redis
)

// Words of verdict, besides those of core.Verdict: a shadow is exceeded, and the request passes; a
// message breaks the protocol; a check is not believed, or cannot be read.
const (
	shadow  = "shadow"
	invalid = "invalid"
	refused = "refused"
)

// Attributes of OpenTelemetry's conventions for HTTP and RPC.
const (
	serviceName    = attribute.Key("service.name")
	serviceVersion = attribute.Key("service.version")
	httpMethod     = attribute.Key("http.request.method")
	httpRoute      = attribute.Key("http.route")
	httpStatus     = attribute.Key("http.response.status_code")
	urlPath        = attribute.Key("url.path")
	urlScheme      = attribute.Key("url.scheme")
	rpcSystem      = attribute.Key("rpc.system.name")
	rpcMethod      = attribute.Key("rpc.method")
	rpcStatus      = attribute.Key("rpc.response.status_code")
)

// Config is what a [Tracer] is told.
type Config struct {
	Version string       // of this program
	Backend string       // which counts: memory or redis
	Shadow  bool         // limits by descriptors let all pass
	Logger  *slog.Logger // gets a line a minute while spans are lost
}

// Tracer makes spans of checks. A nil Tracer makes none, and adds nothing to what it is asked for.
type Tracer struct {
	Config
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	w3c      propagation.TraceContext
}

// New returns the tracer that the variables of OpenTelemetry ask for: nil if they name no endpoint
// and no exporter. The error reports every mistake in them.
func New(config Config) (*Tracer, error) {
	env := environment(os.Getenv)
	if !env.asksForSpans() {
		return nil, nil
	}
	if err := env.validate(); err != nil {
		return nil, err
	}
	line := new(minutely)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if line.isDue() {
			config.Logger.Warn("serve: OpenTelemetry", "error", err)
		}
	}))
	otel.SetLogger(logr.FromSlogHandler(bare{config.Logger.Handler()})) // otherwise it writes lines of its own
	exporter, err := newExporter(env)
	if err != nil {
		return nil, err
	}
	from, err := resource.New(context.Background(),
		resource.WithAttributes(serviceName.String("weir"), serviceVersion.String(config.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv()) // the last one counts
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithResource(from),
		sdk.WithBatcher(&reporting{SpanExporter: exporter, logger: config.Logger}))
	t := &Tracer{Config: config, provider: provider}
	t.tracer = provider.Tracer("github.com/weir-go/weir/cmd/weir", trace.WithInstrumentationVersion(config.Version))
	return t, nil
}

// Spans are tried again for tries. Meanwhile others wait in the queue of the SDK, which drops them
// once it is full: no check waits.
const (
	firstTry = 500 * time.Millisecond
	lastTry  = 5 * time.Second
	tries    = 10 * time.Second
)

func newExporter(env environment) (*otlptrace.Exporter, error) {
	if by, _ := env.protocol(); by == byGRPC {
		return otlptracegrpc.New(context.Background(), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: firstTry, MaxInterval: lastTry, MaxElapsedTime: tries,
		}))
	}
	return otlptracehttp.New(context.Background(), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: firstTry, MaxInterval: lastTry, MaxElapsedTime: tries,
	}))
}

// Close sends the spans that wait, until ctx ends.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		t.Logger.Warn("serve: the last spans are lost: the collector of OpenTelemetry has not taken them in time",
			"error", err)
	}
}

// check is the span of a check that is sampled.
type check struct {
	span    trace.Span
	decided bool
}

type checkKey struct{}

// begin begins a span. It returns nil if the check is not sampled.
func (t *Tracer) begin(
	ctx context.Context, from propagation.TextMapCarrier, name string, of ...attribute.KeyValue,
) (context.Context, *check) {
	inside, span := t.tracer.Start(t.w3c.Extract(ctx, from), name,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(of...))
	if !span.IsRecording() {
		return ctx, nil
	}
	c := &check{span: span}
	return context.WithValue(inside, checkKey{}, c), c
}

// decide notes what was decided. The limiters call it on the goroutine of the check.
func (c *check) decide(of string, more ...attribute.KeyValue) {
	c.decided = true
	c.span.SetAttributes(append(more, verdict.String(of))...)
	if of == core.Unavailable.String() {
		c.span.SetStatus(codes.Error, "")
	}
}

func (c *check) end(of ...attribute.KeyValue) {
	if !c.decided {
		c.decide(refused)
	}
	c.span.SetAttributes(of...)
	c.span.End()
}

// Handler returns next with a span around it. route is its path.
func (t *Tracer) Handler(route string, next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method, scheme := methodOf(r), "http"
		if r.TLS != nil {
			scheme = "https"
		}
		name := method + " " + route
		if method == otherMethod {
			name = "HTTP " + route
		}
		ctx, c := t.begin(r.Context(), propagation.HeaderCarrier(r.Header), name,
			httpMethod.String(method), httpRoute.String(route), urlPath.String(route), urlScheme.String(scheme))
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		status := http.StatusOK
		defer func() { c.end(httpStatus.Int(status)) }()
		next.ServeHTTP(watch.OnStatus(w, func(written int) { status = written }), r.WithContext(ctx))
	})
}

// methods are those that OpenTelemetry knows. A client may make up others, and each would be a name
// of a span.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"}

const otherMethod = "_OTHER"

func methodOf(r *http.Request) string {
	if slices.Contains(methods, r.Method) {
		return r.Method
	}
	return otherMethod
}

// ServerOptions returns what makes a span of each check of Envoy, and of no other call.
func (t *Tracer) ServerOptions() []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(t.intercept)}
}

func (t *Tracer) intercept(
	ctx context.Context, message any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	switch info.FullMethod {
	case ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, auth.Authorization_Check_FullMethodName:
	default:
		return next(ctx, message)
	}
	method := info.FullMethod[1:]
	ctx, c := t.begin(ctx, carrierOf(ctx, message), method,
		rpcSystem.String("grpc"), rpcMethod.String(method))
	if c == nil {
		return next(ctx, message)
	}
	code := rpc.Code_INTERNAL // if next panics
	defer func() { c.end(rpcStatus.String(code.String())) }()
	answer, err := next(ctx, message)
	code = rpc.Code(status.Code(err))
	return answer, err
}

// carrierOf returns the fields that name the parent: those of the call, by which Envoy tells its own
// span, or those of the request that a check is about.
func carrierOf(ctx context.Context, message any) propagation.TextMapCarrier {
	call, _ := metadata.FromIncomingContext(ctx)
	about, ok := message.(*auth.CheckRequest)
	if !ok || len(call.Get("traceparent")) > 0 {
		return fields(func(name string) string {
			if lines := call.Get(name); len(lines) > 0 {
				return lines[0]
			}
			return ""
		})
	}
	from := about.GetAttributes().GetRequest().GetHttp()
	return fields(func(name string) string {
		for _, line := range from.GetHeaderMap().GetHeaders() {
			if line.GetKey() == name && line.GetRawValue() != nil {
				return string(line.GetRawValue())
			} else if line.GetKey() == name {
				return line.GetValue()
			}
		}
		return from.GetHeaders()[name]
	})
}

// fields is a carrier that is only read.
type fields func(name string) string

// Get returns the value of a field.
func (f fields) Get(name string) string { return f(name) }

// Set does nothing.
func (f fields) Set(string, string) {}

// Keys returns no names.
func (f fields) Keys() []string { return nil }

// Observer returns an observer of a limiter that tells the span of a check what was decided, and
// next everything.
func (t *Tracer) Observer(next core.Observer) core.Observer {
	if t == nil {
		return next
	}
	return core.ObserverFuncs[*http.Request]{OnDecision: t.outcome, Next: next}
}

func (t *Tracer) outcome(ctx context.Context, _ *http.Request, o core.Outcome) {
	c, ok := ctx.Value(checkKey{}).(*check)
	if !ok {
		return
	}
	of, i := o.Verdict().String(), shadowOf(&o)
	if o.Allowed() && i >= 0 {
		of = shadow
	} else {
		i = bindingOf(&o)
	}
	if i < 0 {
		c.decide(of)
		return
	}
	d := o.At(i)
	c.decide(of, ruleName.String(d.Rule()), source.String(d.Source.String()), backend.String(t.Backend))
}

// shadowOf returns the index of the shadow that denies and waits longest, or -1.
func shadowOf(o *core.Outcome) int {
	at := -1
	for i := range o.Len() {
		d := o.At(i)
		if d.Mode() == core.Shadow && !d.Allowed && d.Source.Counted() && (at < 0 || d.Binds(o.At(at))) {
			at = i
		}
	}
	return at
}

// bindingOf returns the index of the rule that binds, or else of the first one that was not counted
// because a backend failed, or -1.
func bindingOf(o *core.Outcome) int {
	if i := o.BindingRule(); i >= 0 {
		return i
	}
	for i := range o.Len() {
		if d := o.At(i); d.Mode() == core.Enforce && d.Source != limits.SourceNotAsked {
			return i
		}
	}
	return -1
}

// Observe returns what limits by descriptors are to call, or nil.
func (t *Tracer) Observe() func(context.Context, descriptors.Event) {
	if t == nil {
		return nil
	}
	return t.event
}

func (t *Tracer) event(ctx context.Context, e descriptors.Event) {
	c, ok := ctx.Value(checkKey{}).(*check)
	if !ok {
		return
	}
	var of []attribute.KeyValue
	if e.Domain != "" {
		of = append(of, domain.String(e.Domain))
	}
	if e.Err == nil {
		if e.Rule != "" {
			of = append(of, ruleName.String(e.Rule))
		}
		of = append(of, source.String(e.Source.String()), backend.String(t.Backend))
	}
	c.decide(t.verdictOf(&e), of...)
}

func (t *Tracer) verdictOf(e *descriptors.Event) string {
	_, isInvalid := errors.AsType[descriptors.Invalid](e.Err)
	switch {
	case isInvalid:
		return invalid
	case errors.Is(e.Err, descriptors.ErrUnavailable):
		return core.Unavailable.String()
	case e.Err != nil:
		return core.Abandoned.String()
	case e.Shadowed, e.Over && t.Shadow:
		return shadow
	case e.Over:
		return core.Denied.String()
	}
	return core.Allowed.String()
}
