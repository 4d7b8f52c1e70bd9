package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/operator"
	"github.com/weir-go/weir/limits"
)

// Change records an attempted change.
type Change struct {
	At            time.Time
	Who           string // Person.Name
	Action        string // forgive, mode, limit or clear; override, override-key or clear-key of a program
	Limiter, Rule string
	Key           string    // of forgive, override-key and clear-key, as the page shows it
	From, To      string    // modes or limits
	Until         time.Time // end of the override
	Why           string    // text by the person
	Err           error     // why nothing changed; nil: the change was made
}

const (
	defaultTime = time.Hour
	maxTime     = 24 * time.Hour
	maxWhy      = 200
)

// reason returns the Why of an override that c makes.
func (c *Change) reason() string { return strings.TrimSuffix(c.Who+": "+c.Why, ": ") }

// changeRequest is the content of a request for a change.
type changeRequest struct {
	Limiter, Rule string
	Key           *string // of forgive; or ID
	ID            string
	Mode          string
	Limit         string
	Minutes       int64 // length of the override; 0: 60
	Why           string
}

// changeResult is the answer to a change.
type changeResult struct {
	Done  string
	Until int64
}

// changer makes changes by people, and records them.
type changer struct {
	limiters *limiters
	rows     *rows
	mask     *masker
	logger   *slog.Logger
	audit    func(context.Context, Change) // nil: none
	changed  func()                        // makes the page show a change

	mu sync.Mutex // held while an override is read, modified and written
}

// attempt calls change, which may call a limiter of the program. It turns a panic into an error, so
// that the change is recorded in any case.
func (m *changer) attempt(ctx context.Context, change func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			logPanic(ctx, m.logger, "weir: admin: a change panicked", v)
			err = errPanicked
		}
	}()
	return change()
}

// record logs and audits a change, and makes the page show it. The context of the audit does not
// end when the client leaves.
func (m *changer) record(ctx context.Context, c *Change) {
	ctx = context.WithoutCancel(ctx)
	c.At = time.Now()
	attrs := []slog.Attr{
		slog.String("who", c.Who), slog.String("action", c.Action),
		slog.String("limiter", c.Limiter), slog.String("rule", c.Rule),
	}
	if c.Action != "forgive" {
		attrs = append(attrs, slog.String("from", c.From), slog.String("to", c.To))
	}
	if !c.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", c.Until))
	}
	attrs = append(attrs, slog.String("why", c.Why))
	level := slog.LevelInfo
	if c.Err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Any("error", c.Err))
	}
	m.logger.LogAttrs(ctx, level, "weir: admin: change", attrs...)
	m.changed()
	if m.audit == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil { // the change was made and logged
			logPanic(ctx, m.logger, "weir: admin: Audit panicked", v)
		}
	}()
	m.audit(ctx, *c)
}

func (m *changer) forgive(r *http.Request, who Person, o changeRequest) (*changeResult, error) {
	at, err := m.rows.named(o.ID, o.Limiter, o.Rule, o.Key)
	if err != nil {
		return nil, err
	}
	var state core.RuleState
	name, limiter, err := m.limiters.named(at.limiter)
	if err == nil {
		state, err = ruleOf(limiter, at.rule)
	}
	if err != nil {
		return nil, err
	}
	c := Change{
		Who: who.Name, Action: "forgive", Limiter: name, Rule: at.rule,
		Key: m.mask.text(at.key, state.KeyName), Why: shortened(o.Why),
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTime)
	defer cancel()
	c.Err = m.attempt(ctx, func() error { return limiter.ResetKey(ctx, at.rule, at.key) })
	m.record(r.Context(), &c)
	if c.Err != nil {
		return nil, c.Err
	}
	return &changeResult{Done: fmt.Sprintf("%s starts afresh under rule %s", c.Key, at.rule)}, nil
}

func (m *changer) setMode(r *http.Request, who Person, o changeRequest) (*changeResult, error) {
	return m.override(r, who, "mode", o,
		func(state *core.RuleState, in *core.Override, c *Change) error {
			c.From, c.To = state.Mode.String(), shortened(o.Mode)
			mode, err := core.ParseMode(o.Mode)
			in.Mode = &mode
			return err
		})
}

func (m *changer) setLimit(r *http.Request, who Person, o changeRequest) (*changeResult, error) {
	return m.override(r, who, "limit", o,
		func(state *core.RuleState, in *core.Override, c *Change) error {
			c.From, c.To = limitText(state.Limit), shortened(o.Limit)
			limit, err := limits.Parse(o.Limit)
			in.Limit = limit
			return err
		})
}

func (m *changer) clear(r *http.Request, who Person, o changeRequest) (*changeResult, error) {
	return m.override(r, who, "clear", o,
		func(state *core.RuleState, in *core.Override, c *Change) error {
			c.From, c.To = overrideText(&state.Override), overrideText(&core.Override{})
			*in, c.Until = core.Override{}, time.Time{}
			return nil
		})
}

// overrideText returns the text of an override.
func overrideText(o *core.Override) string {
	var parts []string
	if o.Mode != nil {
		parts = append(parts, o.Mode.String())
	}
	if o.Limit != (limits.Limit{}) {
		parts = append(parts, o.Limit.String())
	}
	if parts == nil {
		return "as given"
	}
	return strings.Join(parts, ", ")
}

// override changes the override of a rule. set modifies the override in force: mode and limit may
// be overridden together, and end together.
func (m *changer) override(
	r *http.Request, who Person, action string, o changeRequest,
	set func(*core.RuleState, *core.Override, *Change) error,
) (*changeResult, error) {
	name, limiter, err := m.limiters.named(o.Limiter)
	if err == nil {
		_, err = ruleOf(limiter, o.Rule)
	}
	if err != nil {
		return nil, err
	}
	lasts := time.Duration(o.Minutes) * time.Minute
	switch {
	case o.Minutes == 0:
		lasts = defaultTime
	case o.Minutes < 1 || o.Minutes > int64(maxTime/time.Minute):
		return nil, &failure{
			http.StatusBadRequest, "minutes: must be 1 to 1440: for longer, change the rules",
		}
	}
	c := Change{
		Who: who.Name, Action: action, Limiter: name, Rule: o.Rule, Until: time.Now().Add(lasts),
		Why: shortened(o.Why),
	}
	c.Err = m.attempt(r.Context(), func() error { return m.changeOverride(limiter, &c, set) })
	m.record(r.Context(), &c)
	if c.Err != nil {
		return nil, c.Err
	}
	text := fmt.Sprintf("rule %s: %s, was %s", c.Rule, c.To, c.From)
	return &changeResult{text, operator.Millis(c.Until)}, nil
}

// changeOverride reads, modifies and writes the override of a rule. A lock makes changes one after
// the other.
func (m *changer) changeOverride(
	limiter Limiter, c *Change, set func(*core.RuleState, *core.Override, *Change) error,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	state, err := ruleOf(limiter, c.Rule)
	if err != nil {
		return err
	}
	in := state.Override
	in.Until, in.Why = c.Until, c.reason()
	if err := set(&state, &in, c); err != nil {
		return err
	}
	return limiter.Override(c.Rule, in)
}

// shortened returns a person's text as one line of bounded length.
func shortened(why string) string {
	why = strings.Join(strings.Fields(why), " ")
	if runes := []rune(why); len(runes) > maxWhy {
		why = string(runes[:maxWhy]) + "…"
	}
	return why
}
