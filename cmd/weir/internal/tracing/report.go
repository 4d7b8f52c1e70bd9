package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// reporting is an exporter that tells the log when spans are lost, and when they are sent again.
type reporting struct {
	sdk.SpanExporter
	logger *slog.Logger
	line   minutely
	lost   int // spans since the line before
	fails  bool
}

// ExportSpans sends spans. It returns no error: it has been told. The SDK calls it from one
// goroutine at a time.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		if r.fails {
			r.logger.Info("serve: spans are sent again")
		}
		r.fails = false
		return nil
	}
	r.fails = true
	r.lost += len(spans)
	if r.line.isDue() {
		r.logger.Warn("serve: spans are lost: look after the collector of OpenTelemetry", "spans", r.lost, "error", err)
		r.lost = 0
	}
	return nil
}

// minutely says when a line may be logged: once a minute. It is safe for concurrent use.
type minutely struct {
	mu   sync.Mutex
	next time.Time
}

func (m *minutely) isDue() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Before(m.next) {
		return false
	}
	m.next = now.Add(time.Minute)
	return true
}

// bare is a handler that logs no values of OpenTelemetry but errors: of a header that it cannot read,
// the value is a secret.
type bare struct{ slog.Handler }

// Handle logs a line.
func (h bare) Handle(ctx context.Context, line slog.Record) error {
	short := slog.NewRecord(line.Time, line.Level, "serve: OpenTelemetry: "+line.Message, 0)
	line.Attrs(func(a slog.Attr) bool {
		if _, isError := a.Value.Any().(error); isError {
			short.AddAttrs(slog.Attr{Key: "error", Value: a.Value})
		}
		return true
	})
	return h.Handler.Handle(ctx, short)
}

// WithAttrs returns h.
func (h bare) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup returns h.
func (h bare) WithGroup(string) slog.Handler { return h }
