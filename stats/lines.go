package stats

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// lines writes log lines in order, on a goroutine that ends when all are written: a logger
// that blocks holds up no request.
type lines struct {
	logger *slog.Logger
	key    func(rule, key string) string

	mu      sync.Mutex
	memory  *memory.Memory // of linesPerMinute; nil: not needed yet
	queue   []line
	writing bool
}

// maxLines is how many lines wait for a logger that blocks. Later ones are dropped.
const maxLines = 4096

// wait returns 0 if a rule may log a line now, otherwise how long it may not.
func (l *lines) wait(limiter, rule string) time.Duration {
	l.mu.Lock()
	if l.memory == nil {
		l.memory = memory.MustNew(memory.Options{MaxKeys: 4096})
	}
	store := l.memory
	l.mu.Unlock()
	var d [1]limits.Decision
	err := store.Take(context.Background(), []backends.Charge{{Scope: limiter, Key: rule, Limit: linesPerMinute, Cost: 1}}, d[:])
	if err != nil || d[0].Allowed {
		return 0
	}
	return d[0].RetryAfter
}

// add has what written.
func (l *lines) add(what line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= maxLines {
		return
	}
	if l.key == nil {
		what.key = "" // nobody will ask for it, and it may be part of a large request
	}
	l.queue = append(l.queue, what)
	if !l.writing {
		l.writing = true
		go l.writeAll()
	}
}

func (l *lines) writeAll() {
	ended := false
	defer func() {
		if !ended { // by runtime.Goexit in the logger
			go l.writeAll()
		}
	}()
	for {
		what, ok := l.next()
		if !ok {
			ended = true
			return
		}
		l.write(&what)
	}
}

func (l *lines) next() (what line, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue, l.writing = nil, false
		return line{}, false
	}
	what, l.queue = l.queue[0], l.queue[1:]
	return what, true
}

func (l *lines) write(what *line) {
	defer func() { _ = recover() }() // a panic of the logger cannot be logged
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	if what.ofShedder {
		logger.LogAttrs(context.Background(), what.level, what.message, what.shedAttrs()...)
		return
	}
	attrs := append(make([]slog.Attr, 0, 6), slog.String("limiter", what.limiter), slog.String("rule", what.rule))
	if what.over {
		attrs = append(attrs, slog.Int64("denied", what.denied), slog.Duration("after", what.lasted))
	} else if what.retryAfter != limits.Never {
		attrs = append(attrs, slog.Duration("retry_after", what.retryAfter))
	}
	if what.suppressed > 0 {
		attrs = append(attrs, slog.Int64("suppressed", what.suppressed))
	}
	if l.key != nil && !what.over {
		if key := l.key(what.rule, what.key); key != "" {
			attrs = append(attrs, slog.String("key", key))
		}
	}
	logger.LogAttrs(context.Background(), what.level, what.message, attrs...)
}
