package core

import (
	"time"

	"github.com/weir-go/weir/limits"
)

// InPlace is a decision in an [Outcome], which [Outcome.InPlace] returns. Its methods say
// what the fields of a [RuleDecision] of these names say. It keeps the outcome alive. The
// zero InPlace has no decision; its methods panic.
type InPlace struct{ d *ruleDecision }

// Index returns the position of the rule in [Config].Rules.
func (p InPlace) Index() int { return p.d.rule.index }

// Rule returns the rule's name.
func (p InPlace) Rule() string { return p.d.rule.name }

// Mode returns Enforce or Shadow.
func (p InPlace) Mode() Mode { return p.d.rule.mode }

// Cost returns how many units the request takes.
func (p InPlace) Cost() int64 { return p.d.cost }

// Allowed reports whether the rule allows the request.
func (p InPlace) Allowed() bool { return p.d.Allowed }

// Source returns who decided.
func (p InPlace) Source() limits.Source { return p.d.Source }

// Remaining returns the largest cost that would be allowed after this decision.
func (p InPlace) Remaining() int64 { return p.d.Remaining }

// Delay returns how long the request has to wait for its turn.
func (p InPlace) Delay() time.Duration { return p.d.Delay }

// Most returns the most units that the limit allows at one instant: its [limits.Limit.Burst].
func (p InPlace) Most() int64 { return p.d.limit.Value().Burst() }
