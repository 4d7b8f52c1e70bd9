package conform

import (
	"fmt"
	"slices"
)

// Check is one thing that a limiter is held against.
type Check struct {
	Name   string // such as "burst"
	Says   string // what holds, in a sentence
	Source string // the document and section that says so
	Why    string // why it matters to a user

	// part is when it runs: with others, or alone after them, since it stops or fills the server.
	part part
	run  func(t *trial) outcome
}

type part uint8

const (
	together part = iota
	alone
)

// Verdict is what a check has found.
type Verdict string

// The verdicts.
const (
	Holds Verdict = "holds"
	Bound Verdict = "bound stated" // it holds within the bound that the finding states
	Fails Verdict = "does not hold"
	Skips Verdict = "does not apply"
)

// outcome is what a check returns.
type outcome struct {
	verdict  Verdict
	text     string   // with its figures
	evidence []string // the requests that show it
}

func holds(format string, args ...any) outcome {
	return outcome{verdict: Holds, text: fmt.Sprintf(format, args...)}
}

func bound(format string, args ...any) outcome {
	return outcome{verdict: Bound, text: fmt.Sprintf(format, args...)}
}

func fails(format string, args ...any) outcome {
	return outcome{verdict: Fails, text: fmt.Sprintf(format, args...)}
}

func skips(format string, args ...any) outcome {
	return outcome{verdict: Skips, text: fmt.Sprintf(format, args...)}
}

// with returns o with evidence.
func (o outcome) with(evidence ...string) outcome {
	o.evidence = append(slices.Clip(o.evidence), evidence...)
	return o
}

// Checks returns all checks in the order of reports.
func Checks() []Check { return slices.Clone(checks) }

// indexOf returns the place of a check, or -1.
func indexOf(name string) int {
	return slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
}
