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

// lines writes log lines in order. The goroutine that writes them ends when the queue is empty, so
// a logger that blocks never delays a request.
type lines struct {
	logger *slog.Logger
	key    func(rule, key string) string

	mu      sync.Mutex
	memory  *memory.Memory // counts linesPerMinute; nil until the first use
	queue   []line
	writing bool
}

// linesPerMinute bounds the lines of one rule between the first denial and the last.
var linesPerMinute = limits.SlidingWindow(limits.PerMinute(10))

// maxLines is the length of the queue while the logger blocks. Later lines are dropped.
const maxLines = 4096

// line is a line about a rule or about a class of a shedder.
type line struct {
	level         slog.Level
	message       string
	limiter, rule string
	key           string
	retryAfter    time.Duration
	suppressed    int64 // denials since the previous line that were not logged

	over   bool // the rule stopped denying
	denied int64
	lasted time.Duration

	ofShedder      bool // the fields below apply, in place of limiter and rule
	shedder, class string
	inFlightLimit  int
	shed           int64 // since the previous line; in total if over
}

// wait returns how long a rule has to wait before it may log a line; 0 if it may log now.
func (l *lines) wait(limiter, rule string) time.Duration {
	l.mu.Lock()
	if l.memory == nil {
		l.memory = memory.MustNew(memory.Options{MaxKeys: 4096})
	}
	store := l.memory
	l.mu.Unlock()
	var d [1]limits.Decision
	err := store.Take(context.Background(),
		[]backends.Charge{{Scope: limiter, Key: rule, Limit: linesPerMinute, Cost: 1}}, d[:])
	if err != nil || d[0].Allowed {
		return 0
	}
	return d[0].RetryAfter
}

// add queues a line.
func (l *lines) add(entry line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= maxLines {
		return
	}
	if l.key == nil {
		entry.key = "" // unused without Key, and it may hold a large request in memory
	}
	l.queue = append(l.queue, entry)
	if !l.writing {
		l.writing = true
		go l.writeAll()
	}
}

func (l *lines) writeAll() {
	ended := false
	defer func() {
		if !ended { // runtime.Goexit in the logger
			go l.writeAll()
		}
	}()
	for {
		entry, ok := l.next()
		if !ok {
			ended = true
			return
		}
		l.write(&entry)
	}
}

func (l *lines) next() (entry line, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue, l.writing = nil, false
		return line{}, false
	}
	entry, l.queue = l.queue[0], l.queue[1:]
	return entry, true
}

func (l *lines) write(entry *line) {
	defer func() { _ = recover() }() // a panic of the logger has no place to be logged
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	if entry.ofShedder {
		logger.LogAttrs(context.Background(), entry.level, entry.message, entry.shedAttrs()...)
		return
	}
	attrs := append(make([]slog.Attr, 0, 6), slog.String("limiter", entry.limiter),
		slog.String("rule", entry.rule))
	if entry.over {
		attrs = append(attrs, slog.Int64("denied", entry.denied),
			slog.Duration("after", entry.lasted))
	} else if entry.retryAfter != limits.Never {
		attrs = append(attrs, slog.Duration("retry_after", entry.retryAfter))
	}
	if entry.suppressed > 0 {
		attrs = append(attrs, slog.Int64("suppressed", entry.suppressed))
	}
	if l.key != nil && !entry.over {
		if key := l.key(entry.rule, entry.key); key != "" {
			attrs = append(attrs, slog.String("key", key))
		}
	}
	logger.LogAttrs(context.Background(), entry.level, entry.message, attrs...)
}

// shedAttrs returns the attributes of a line about a shedder.
func (l *line) shedAttrs() []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 5), slog.String("shedder", l.shedder),
		slog.String("class", l.class),
		slog.Int64("shed", l.shed), slog.Int("limit", l.inFlightLimit))
	if l.over {
		attrs = append(attrs, slog.Duration("after", l.lasted))
	}
	return attrs
}
