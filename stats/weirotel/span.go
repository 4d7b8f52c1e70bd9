package weirotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
)

// Attributes of spans are those of metrics.
const (
	verdict     = attribute.Key("weir.verdict") // denied, unavailable, abandoned
	ruleName    = attribute.Key("weir.policy_rule.name")
	mode        = attribute.Key("weir.mode")
	source      = attribute.Key("weir.decision.source")
	shedVerdict = attribute.Key("weir.shed.verdict") // shed, shadowed, left
	shedClass   = attribute.Key("weir.shed.class")
)

// ObserveSpan writes on the span of ctx why a request was not allowed: the verdict and, if
// it was denied, the binding rule with its mode and who decided. It never sets the status of
// the span: a 429 is no error of the server, and otelhttp makes a 503 one by itself. It
// does nothing for requests that are allowed, and without a span that records. It is for the
// OnDecision of core.ObserverFuncs. R is the framework's request.
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
		attributes = append(attributes, ruleName.String(d.Rule()), mode.String(d.Mode().String()), source.String(d.Source.String()))
	}
	span.SetAttributes(attributes...)
}

// ObserveShedSpan writes on the span of ctx that a request was shed, would have been, or
// that its context ended in the queue, and of which class it was. A 503 without these
// attributes is of a limiter or of the service itself. Like [ObserveSpan] it leaves the
// status of the span alone, and does nothing for other requests and without a span that
// records. It is to be the Observe of the options of a shedder. R is the framework's
// request.
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
