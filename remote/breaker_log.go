package remote

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// effect is the effect of a failing backend in the log. Rules choose it: see core.FailurePolicy.
const effect = "each process now decides by itself; rules that fail closed answer 503"

// breakerLog logs changes of a backend in order. It does so on goroutines, so that a slow log
// delays no decision.
type breakerLog struct {
	logger *slog.Logger // nil: that of slog.Default
	isOpen func() bool

	answered atomic.Bool // the backend has decided once; mu guards what follows
	mu       sync.Mutex
	failing  time.Time     // first failure before that; zero: none
	warned   bool          // of failures from the start
	written  chan struct{} // closed once the latest line is written
}

// decided records a decision of the backend, or its failure. It logs a backend that fails from the
// start and goes on to for a while: there may be too few decisions to open the circuit.
func (l *breakerLog) decided(failure error, within time.Duration) {
	if l.answered.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case failure == nil:
		if l.answered.Store(true); l.warned && !l.isOpen() {
			l.recoveredLocked(time.Since(l.failing))
		}
	case l.failing.IsZero():
		l.failing = time.Now()
		time.AfterFunc(within, func() { l.warn(failure) })
	}
}

// warn logs that all decisions of a backend have failed. It logs nothing if one has succeeded
// since, or if the circuit has opened, which is logged by itself.
func (l *breakerLog) warn(failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.answered.Load() && !l.isOpen() {
		l.warned = true
		l.writeLocked(slog.LevelWarn, "weir: backend fails from the start",
			"error", failure, "effect", effect)
	}
}

// changed logs that the circuit has opened or closed. lasted is how long it was the other.
func (l *breakerLog) changed(open bool, failure error, lasted time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if open {
		l.writeLocked(slog.LevelWarn, "weir: backend degraded", "error", failure, "effect", effect)
	} else {
		l.recoveredLocked(lasted)
	}
}

func (l *breakerLog) recoveredLocked(after time.Duration) {
	l.writeLocked(slog.LevelInfo, "weir: backend recovered", "after", after)
}

func (l *breakerLog) writeLocked(level slog.Level, message string, attrs ...any) {
	before, written := l.written, make(chan struct{})
	l.written = written
	go func() {
		defer close(written)
		if before != nil {
			<-before
		}
		defer func() { _ = recover() }() // a panic of the logger cannot be logged
		cmp.Or(l.logger, slog.Default()).Log(context.Background(), level, message, attrs...)
	}()
}
