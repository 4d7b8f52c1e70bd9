package conform

import (
	"fmt"
	"slices"
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

// verdicts are the verdicts in the order of a summary, with their words: the predicate of one check
// and of several, and the class in the style sheet of a page.
var verdicts = []struct {
	verdict          Verdict
	one, many, class string
}{
	{Holds, "holds", "hold", "holds"},
	{Bound, "with a bound", "with a bound", "bound"},
	{Fails, "does not hold", "do not hold", "fails"},
	{Skips, "does not apply", "do not apply", "skips"},
}

// classOf returns the class of a verdict in the style sheet.
func classOf(v Verdict) string {
	for _, row := range verdicts {
		if row.verdict == v {
			return row.class
		}
	}
	return ""
}

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
