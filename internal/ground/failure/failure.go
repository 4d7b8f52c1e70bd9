// Package failure has the errors of outcomes for those who log and count them: what failed, of which rule, and whether
// its text may be logged.
package failure

import (
	"fmt"
	"iter"

	"github.com/weir-go/weir/limits"
)

// Part is what failed.
type Part uint8

const (
	Key      Part   = iota // the Key of a rule
	Limit                  // its LimitFor, or the limit that these returned
	Cost                   // its Cost
	Backend                // the backend of the limiter
	Fallback               // the fallback, after the backend
	Parts    = iota        // how many there are
)

var names = [Parts]string{"key", "limit", "cost", "backend", "fallback"}

// String returns a word for logs and labels.
func (p Part) String() string { return names[p] }

// Error is what failed in an outcome.
type Error struct {
	Rule string // "": the part is a backend, which decides rules together
	Part Part
	Err  error
}

func (e *Error) Error() string {
	if e.Rule == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("core: rule %q: %v: %v", e.Rule, e.Part, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// All returns the Errors in err, which is that of an outcome.
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

// Of returns what failed for a rule in an outcome with error err. Its decision has the source SourceOpen or
// SourceClosed.
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

// Safe is an error whose text has nothing of a request, so that it may be logged.
type Safe struct{ Err error }

func (e *Safe) Error() string { return e.Err.Error() }
func (e *Safe) Unwrap() error { return e.Err }

// Panic is a panic of a function of a rule. It is no error of what it panicked with.
type Panic struct{ Value any }

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }
