package weirotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/core"
)

// ObserveSpan writes on the span of ctx why a request was not allowed: the verdict and, if
// it was denied, the binding rule with its mode and who decided. It never sets the status of
// the span: a 429 is no error of the server, and otelhttp makes a 503 one by itself. It
// does nothing for requests that are allowed, and without a span that records. It is to be
// the Observe of a limiter's Config, or an additional one of stats.Observe. R is the
// framework's request.
func ObserveSpan[R any](ctx context.Context, _ R, o core.Outcome) {
	if o.Verdict() == core.Allowed {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{verdict.String(o.Verdict().String())}
	if i := o.Binding(); i >= 0 && o.Verdict() == core.Denied {
		d := o.At(i)
		attributes = append(attributes, ruleName.String(d.Rule), mode.String(d.Mode.String()), source.String(d.Source.String()))
	}
	span.SetAttributes(attributes...)
}
