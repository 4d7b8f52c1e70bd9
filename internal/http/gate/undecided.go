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

// undecided logs why rules could not decide. Clients are not told. It is safe for concurrent use.
type undecided struct {
	logger *slog.Logger // nil: that of slog.Default
	mu     sync.Mutex
	causes map[cause]*occurrences // the causes of the last minute
}

// lineEvery is the time between two lines about one cause.
const lineEvery = time.Minute

// cause is the subject of a line. There are few causes: text is empty, or one of the texts of
// package keyfuncs.
type cause struct{ rule, failed, text string }

// occurrences is the content of a line about a cause.
type occurrences struct {
	requests int64 // since the last line
	err      error // the latest
	level    slog.Level
	effect   string
	writing  bool // the last line is still being written
}

// note records the failures of o.
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

// queueFull records that o was refused by a full queue.
func (u *undecided) queueFull(o *core.Outcome) {
	for i := range o.Len() {
		if d := o.At(i); d.Delay > 0 {
			u.count(cause{rule: d.Rule(), failed: "queue"}, core.ErrQueueFull, slog.LevelWarn, unavailable)
			return
		}
	}
}

// decisionWithout returns the decision that e affected. If e is about a rule, that is the rule's
// decision. If e is about a backend, it is the one of the backend's decisions that harms the
// request most.
func decisionWithout(e *failure.Error, o *core.Outcome) (worst *core.RuleDecision) {
	for i := range o.Len() {
		d := o.At(i)
		switch {
		case e.Rule == d.Rule():
			return d
		case e.Rule != "" || d.Source < limits.SourceFallback || d.Source == limits.SourceLocal ||
			d.Source == limits.SourceNotAsked:
		case worst == nil || harmOf(d) > harmOf(worst):
			worst = d
		}
	}
	return worst
}

// harmOf orders decisions that were made without the backend by their harm to the request.
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

// effectOf says what happens to requests with decisions like d.
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

// count counts a request, and writes a line if it is the first of its cause.
func (u *undecided) count(c cause, err error, level slog.Level, effect string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.causes[c]
	if o == nil {
		o = new(occurrences)
		if u.causes == nil {
			u.causes = make(map[cause]*occurrences)
		}
		u.causes[c] = o
		defer u.nextLocked(c, o)
	}
	o.requests++
	o.err, o.level, o.effect = err, level, effect
}

// nextLocked writes a line if there were requests since the last one, and calls itself again after
// a minute. Otherwise it forgets the cause.
func (u *undecided) nextLocked(c cause, o *occurrences) {
	if o.requests == 0 && !o.writing {
		delete(u.causes, c)
		return
	}
	if !o.writing { // otherwise the logger blocks, and one blocked goroutine is enough
		o.writing = true
		go u.write(c, *o, o)
		o.requests = 0
	}
	time.AfterFunc(lineEvery, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.nextLocked(c, o)
	})
}

// write writes a line. It runs on its own goroutine, so that no request waits for a logger.
func (u *undecided) write(c cause, line occurrences, o *occurrences) {
	defer func() {
		_ = recover() // a panic of the logger cannot be logged
		u.mu.Lock()
		o.writing = false
		u.mu.Unlock()
	}()
	logger := u.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(context.Background(), line.level, "weir: a rule cannot decide",
		slog.String("rule", c.rule), slog.String("failed", c.failed), slog.Int64("requests", line.requests),
		slog.String("error", textOf(line.err)), slog.String("effect", line.effect))
}

// textOf returns the part of an error that may be logged. The texts of the program's own functions
// may contain a key.
func textOf(err error) string {
	failed, ok := errors.AsType[*failure.Error](err)
	if !ok {
		return err.Error()
	}
	if failed.Rule == "" { // a backend's text has no key: see backends.Backend
		return failed.Err.Error()
	}
	if safe, ok := errors.AsType[*failure.Safe](failed.Err); ok {
		return safe.Error()
	}
	if own, ok := errors.AsType[ownText](failed.Err); ok {
		return own.LogValue().Resolve().String()
	}
	if p, ok := errors.AsType[*failure.Panic](failed.Err); ok {
		if err, ok := p.Value.(runtime.Error); ok {
			return "panic: " + err.Error()
		}
		return fmt.Sprintf("panic with a %T: its text may have a key: read Err of the Outcome", p.Value)
	}
	return fmt.Sprintf("a %T: its text may have a key: read Err of the Outcome", innermost(failed.Err))
}

// ownText is an error that knows which text may be logged.
type ownText interface {
	error
	slog.LogValuer
}

// innermost unwraps err to the last error.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
