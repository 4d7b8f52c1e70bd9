package core

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// State is what a limiter does now and has done, for pages, gauges and logs.
type State struct {
	Rules []RuleState // in force, in the order of [Config].Rules, those that are disabled too

	// Held is how many units of concurrency limits the requests hold that have not ended.
	// HeldSince is the instant of the decision on the oldest request that has something to end,
	// by the clock of its backend; the zero Time if no request has. A number that only rises, or
	// an instant of long ago, shows that [Outcome.End] is not called.
	Held      int
	HeldSince time.Time

	// Waiting is how many requests wait for their turn in a leaky queue. QueueFull is how many
	// were unavailable because no more could wait, and QueueLeft how many ended while they waited.
	Waiting              int
	QueueFull, QueueLeft int64

	// Preflights is how many requests that look like CORS preflights passed without a decision,
	// because of an adapter's SkipPreflight.
	Preflights int64
}

// RuleState is a rule as it is in force, for pages, gauges and logs. In JSON, limits and
// modes are texts, and what is zero is left out.
type RuleState struct {
	Name      string
	Scope     string
	KeyName   string       `json:",omitzero"` // see [Rule].KeyName
	Limit     limits.Limit `json:",omitzero"` // zero if LimitFor finds it
	Mode      Mode
	Local     bool     `json:",omitzero"`
	DenyAs503 bool     `json:",omitzero"` // see [Rule].DenyAs503
	Override  Override `json:",omitzero"` // the zero Override: none is in force

	// GivenLimit and GivenMode are those of [New] or the last Replace. They differ from
	// Limit and Mode where an override is in force, on this rule or on one of its scope.
	GivenLimit limits.Limit `json:",omitzero"`
	GivenMode  Mode
}

// State returns what limiter does now and has done.
func (limiter *Limiter[R]) State() State {
	limiter.change.Lock()
	ledger := limiter.ledger
	limiter.change.Unlock()
	s := State{
		Rules:     limiter.rules(),
		Waiting:   int(limiter.room.waiting.Load()),
		QueueFull: limiter.room.full.Load(),
		QueueLeft: limiter.room.left.Load(),
	}
	if ledger != nil {
		s.Held, s.HeldSince = ledger.held()
	}
	return s
}

// rules returns the rules in force, in the order of [Config].Rules, those that are
// disabled too.
func (l *Limiter[R]) rules() []RuleState {
	l.change.Lock()
	defer l.change.Unlock()
	var states []RuleState
	for i, rule := range overridden(l.config.Rules, l.overrides) {
		given := &l.config.Rules[i]
		state := RuleState{
			Name: rule.Name, Scope: rule.scopeOrName(), KeyName: rule.KeyName, Limit: rule.Limit, Mode: rule.Mode,
			Local: rule.Local, DenyAs503: rule.DenyAs503,
			GivenLimit: given.Limit, GivenMode: given.Mode,
		}
		if o := l.overrides[rule.Name]; o != nil {
			state.Override = o.Override.clone()
		}
		states = append(states, state)
	}
	return states
}
