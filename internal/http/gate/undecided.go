package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/limits"
)

// undecided logs why rules could not decide, which no client is told. It is safe for concurrent use.
type undecided struct {
	logger *slog.Logger // nil: that of slog.Default
	mu     sync.Mutex
	causes map[cause]*occurrences // those of the last minute
}

// lineEvery is how often a cause is logged after its first line.
const lineEvery = time.Minute

// cause is what a line is about. There are few of them: text is empty, or one of those of package keyfuncs.
type cause struct{ rule, failed, text string }

// occurrences are what a line says of a cause.
type occurrences struct {
	requests int64 // since the line before
	err      error // the latest
	level    slog.Level
	effect   string
	writing  bool // the line before
}

// note notes what failed in o.
func (u *undecided) note(o *core.Outcome) {
	if o.Err() != nil {
		u.noteError(o)
	}
}

func (u *undecided) noteError(o *core.Outcome) {
	for e := range failure.All(o.Err()) {
		d := decisionWithout(e, o)
		if d == nil {
			continue
		}
		c := cause{rule: d.Rule(), failed: e.Part.String()}
		if safe, ok := errors.AsType[*failure.Safe](e); ok && e.Part == failure.Key {
			c.text = safe.Error()
		}
		level, effect := effectOf(d)
		u.count(c, e, level, effect)
	}
}

// queueFull notes that o was turned away from a queue.
func (u *undecided) queueFull(o *core.Outcome) {
	for i := range o.Len() {
		if d := o.At(i); d.Delay > 0 {
			u.count(cause{rule: d.Rule(), failed: "queue"}, core.ErrQueueFull, slog.LevelWarn, unavailable)
			return
		}
	}
}

// decisionWithout returns the decision that was made without what failed: that of the rule, or of those that a
// backend should have decided the one that is worst for the request.
func decisionWithout(e *failure.Error, o *core.Outcome) (worst *core.RuleDecision) {
	for i := range o.Len() {
		d := o.At(i)
		switch {
		case e.Rule == d.Rule():
			return d
		case e.Rule != "" || d.Source < limits.SourceFallback || d.Source == limits.SourceLocal || d.Source == limits.SourceNotAsked:
		case worst == nil || harmOf(d) > harmOf(worst):
			worst = d
		}
	}
	return worst
}

// harmOf orders decisions that were made without a backend.
func harmOf(d *core.RuleDecision) int {
	switch {
	case d.Mode() == core.Shadow:
		return 0
	case d.Source == limits.SourceFallback:
		return 1
	case d.Source == limits.SourceOpen:
		return 2
	}
	return 3
}

const unavailable = "requests are unavailable (503)"

// effectOf says what becomes of requests with decisions like d.
func effectOf(d *core.RuleDecision) (slog.Level, string) {
	switch harmOf(d) {
	case 0:
		return slog.LevelInfo, "none: the rule is a shadow"
	case 1:
		return slog.LevelInfo, "the fallback decides"
	case 2:
		return slog.LevelWarn, "requests are allowed and not counted"
	}
	return slog.LevelWarn, unavailable
}

// count counts a request, and writes a line if it is the first.
func (u *undecided) count(c cause, err error, level slog.Level, effect string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.causes[c]
	if of == nil {
		of = new(occurrences)
		if u.causes == nil {
			u.causes = make(map[cause]*occurrences)
		}
		u.causes[c] = of
		defer u.nextLocked(c, of)
	}
	of.requests++
	of.err, of.level, of.effect = err, level, effect
}

// nextLocked writes a line if there are requests to tell of, and looks again after a minute. Otherwise it forgets the
// cause.
func (u *undecided) nextLocked(c cause, of *occurrences) {
	if of.requests == 0 && !of.writing {
		delete(u.causes, c)
		return
	}
	if !of.writing { // otherwise the logger blocks, and one goroutine is enough for that
		of.writing = true
		go u.write(c, *of, of)
		of.requests = 0
	}
	time.AfterFunc(lineEvery, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.nextLocked(c, of)
	})
}

// write writes a line, on a goroutine of its own: no request waits for a logger.
func (u *undecided) write(c cause, line occurrences, of *occurrences) {
	defer func() {
		_ = recover() // a panic of the logger cannot be logged
		u.mu.Lock()
		of.writing = false
		u.mu.Unlock()
	}()
	logger := u.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(context.Background(), line.level, "weir: a rule cannot decide", slog.String("rule", c.rule),
		slog.String("failed", c.failed), slog.Int64("requests", line.requests), slog.String("error", textOf(line.err)), slog.String("effect", line.effect))
}

// textOf returns what may be logged of an error: texts of functions of the program may have a key.
func textOf(err error) string {
	of, ok := errors.AsType[*failure.Error](err)
	if !ok {
		return err.Error()
	}
	if of.Rule == "" { // of a backend: see backends.Backend
		return of.Err.Error()
	}
	if safe, ok := errors.AsType[*failure.Safe](of.Err); ok {
		return safe.Error()
	}
	if own, ok := errors.AsType[ownText](of.Err); ok {
		return own.LogValue().Resolve().String()
	}
	if p, ok := errors.AsType[*failure.Panic](of.Err); ok {
		if err, ok := p.Value.(runtime.Error); ok {
			return "panic: " + err.Error()
		}
		return fmt.Sprintf("panic with a %T: its text may have a key, and is in Err of the outcome that the Observer gets", p.Value)
	}
	return fmt.Sprintf("a %T: its text may have a key, and is in Err of the outcome that the Observer gets", innermost(of.Err))
}

// ownText is an error that says what may be logged of it.
type ownText interface {
	error
	slog.LogValuer
}

// innermost returns the error that others are wrapped around.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
