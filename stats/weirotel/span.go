package weirotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
)

// Attributes of spans have the names of those of metrics.
const (
	verdict     = attribute.Key("weir.verdict") // denied, unavailable, abandoned
	ruleName    = attribute.Key("weir.policy_rule.name")
	mode        = attribute.Key("weir.mode")
	source      = attribute.Key("weir.decision.source")
	shedVerdict = attribute.Key("weir.shed.verdict") // shed, shadowed, left
	shedClass   = attribute.Key("weir.shed.class")
)

// ObserveSpan records on the span of ctx why a request was not allowed: the verdict and, for a
// denial, the binding rule with its mode and source. It never sets the status of the span: a 429 is
// not an error of the server, and otelhttp marks a 503 by itself. It ignores allowed requests and
// spans that do not record. Use it as the OnDecision of core.ObserverFuncs. R is the framework's
// request.
func ObserveSpan[R any](ctx context.Context, _ R, o core.Outcome) {
	if o.Verdict() == core.Allowed {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{verdict.String(o.Verdict().String())}
	if i := o.BindingRule(); i >= 0 && o.Verdict() == core.Denied {
		d := o.At(i)
		attributes = append(attributes, ruleName.String(d.Rule()), mode.String(d.Mode().String()),
			source.String(d.Source.String()))
	}
	span.SetAttributes(attributes...)
}

// ObserveShedSpan records on the span of ctx that a request was shed, that shadow mode would have
// shed it, or that its context ended in the queue, with its class. A 503 without these attributes
// comes from a limiter or from the service itself. Like [ObserveSpan] it never sets the status of
// the span, and ignores other requests and spans that do not record. Use it as Observe of
// shed.Options. R is the framework's request.
func ObserveShedSpan[R any](ctx context.Context, _ R, e shed.Event) {
	verdict := e.Verdict.String()
	switch {
	case e.Shadow:
		verdict = "shadowed"
	case e.Verdict == shed.Admitted:
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(shedVerdict.String(verdict), shedClass.String(e.Class))
	}
}
