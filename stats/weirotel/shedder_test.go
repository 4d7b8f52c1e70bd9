package weirotel_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats/weirotel"
)

// A 503 is on the span with the class that was shed, so that it looks like no other 503.
func TestASpanSaysThatARequestWasShed(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
	for _, row := range []struct {
		mode core.Mode
		want []string // by request
	}{
		{core.Enforce, []string{"", "weir.shed.verdict=shed weir.shed.class=other ", ""}},
		{core.Shadow, []string{"", "weir.shed.verdict=shadowed weir.shed.class=other ", ""}},
		{core.Disabled, []string{"", "", ""}},
	} {
		spans.Reset()
		shedder := shed.MustNew(shed.Options[int]{
			Classes: []shed.Class{{Name: "other"}},
			Exempt:  func(i int) bool { return i == 2 },
			Limit:   1, Mode: row.mode, Observe: weirotel.ObserveShedSpan[int],
		})
		for i := range row.want {
			ctx, span := tracer.Start(t.Context(), "GET /")
			shedder.Acquire(ctx, i)
			span.End()
		}
		shedder.Acquire(context.Background(), 0) // without a span
		for i, span := range spans.Ended() {
			got := ""
			for _, a := range span.Attributes() {
				got += string(a.Key) + "=" + a.Value.String() + " "
			}
			if got != row.want[i] || span.Status().Code != codes.Unset {
				t.Errorf("%v: the span of request %d has %q and status %v, want %q", row.mode, i, got, span.Status(),
					row.want[i])
			}
		}
	}
}
