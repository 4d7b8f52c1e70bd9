// Package failure has the errors of outcomes. They say what failed, in which rule, and whether the
// text may be logged.
package failure

import (
	"fmt"
	"iter"

	"github.com/weir-go/weir/limits"
)

// Part is a part of a decision that can fail.
type Part uint8

const (
	Key      Part   = iota // Rule.Key
	Limit                  // Rule.LimitFor, or the limit that it returned
	Cost                   // Rule.Cost
	Backend                // the backend of the limiter
	Fallback               // the fallback, after the backend
	Parts    = iota        // the number of parts
)

var names = [Parts]string{"key", "limit", "cost", "backend", "fallback"}

// String returns the word for logs and labels.
func (p Part) String() string { return names[p] }

// Error is one failure in an outcome.
type Error struct {
	Rule   string // "" if a backend failed, which decides all rules together
	Part   Part
	Closed bool // Rule fails closed
	Err    error
}

func (e *Error) Error() string {
	if e.Rule == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("core: rule %q: %v: %v", e.Rule, e.Part, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// All returns the Errors in err, the error of an outcome.
func All(err error) iter.Seq[*Error] {
	return func(yield func(*Error) bool) { each(err, yield) }
}

func each(err error, yield func(*Error) bool) bool {
	switch e := err.(type) {
	case *Error:
		return yield(e)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if !each(err, yield) {
				return false
			}
		}
	case interface{ Unwrap() error }:
		return each(e.Unwrap(), yield)
	}
	return true
}

// Of returns the part that failed for a rule. err is the error of the outcome. source is the source
// of the rule's decision: SourceOpen or SourceClosed.
func Of(err error, rule string, source limits.Source) Part {
	part := Backend
	for e := range All(err) {
		switch {
		case e.Rule == rule:
			return e.Part
		case e.Part == Fallback && source == limits.SourceClosed:
			part = Fallback
		}
	}
	return part
}

// Safe marks an error whose text contains nothing of a request. It may be logged.
type Safe struct{ Err error }

func (e *Safe) Error() string { return e.Err.Error() }
func (e *Safe) Unwrap() error { return e.Err }

// Panic is the error of a rule's function that panicked. It does not unwrap to Value, even if that
// is an error.
type Panic struct{ Value any }

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }
