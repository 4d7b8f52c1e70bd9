package remote

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// effect is what follows while a backend fails. Rules choose it: see core.FailurePolicy.
const effect = "each process now decides by itself; rules that fail closed answer 503"

// breakerLog logs what becomes of a backend, in order and on goroutines, so that a slow log delays no decision.
type breakerLog struct {
	logger *slog.Logger // nil: that of slog.Default
	isOpen func() bool

	answered atomic.Bool // the backend has decided once; what follows, until then, is guarded by mu
	mu       sync.Mutex
	failing  time.Time     // since when; zero: nothing is known yet
	warned   bool          // of that
	written  chan struct{} // closed once the latest line is
}

// decided notes a decision of the backend, or its failure. A backend that is not there from the start is logged, though
// too few decisions ask it to open the circuit. It has within to connect.
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

// warn logs that a backend has failed from the start, unless that is over or the circuit has opened, which is logged.
func (l *breakerLog) warn(failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.answered.Load() && !l.isOpen() {
		l.warned = true
		l.writeLocked(slog.LevelWarn, "weir: backend fails from the start", "error", failure, "effect", effect)
	}
}

// changed logs that the circuit has opened or closed. The former state has lasted so long.
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
