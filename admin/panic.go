package admin

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// errPanicked is the error of what panicked. The log has the value of the panic.
var errPanicked = &failure{
	http.StatusInternalServerError, "this failed: see the log of the program",
}

// logPanic logs a panic in a function that the program passed to the page.
func logPanic(ctx context.Context, logger *slog.Logger, text string, v any) {
	logger.LogAttrs(ctx, slog.LevelError, text, slog.Any("panic", v),
		slog.String("stack", string(debug.Stack())))
}
