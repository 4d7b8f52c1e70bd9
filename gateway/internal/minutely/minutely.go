// Package minutely logs what may happen with every request, one line a minute at most.
package minutely

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Log writes one line a minute at most. It is safe for concurrent use.
type Log struct {
	Logger *slog.Logger // nil: that of slog.Default
	Level  slog.Level
	Text   string // of each line

	mu    sync.Mutex
	next  time.Time
	count int64 // since the line before
}

// Note notes that something has happened, and why. A line has the reason of the latest, and
// how often it has happened since the line before.
func (l *Log) Note(why error) {
	now := time.Now()
	l.mu.Lock()
	l.count++
	count, due := l.count, !now.Before(l.next)
	if due {
		l.next, l.count = now.Add(time.Minute), 0
	}
	l.mu.Unlock()
	if !due {
		return
	}
	logger := l.Logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(context.Background(), l.Level, l.Text,
		slog.String("error", why.Error()), slog.Int64("requests", count))
}
