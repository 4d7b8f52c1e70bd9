package main

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// answer is the decision of a rule on a request.
type answer struct {
	rule               *core.Rule[*http.Request]
	outline            *policy.RuleOutline
	why                string   // it does not apply
	err                error    // it applies, but fails
	asked              []string // names of the program that it used
	*core.RuleDecision          // nil: the rule does not apply
}

// notes returns remarks on a rule that applies.
func (a *answer) notes(given map[string]string) (notes []string) {
	if a.err != nil {
		return nil
	}
	if plan := a.outline.Plan; plan != "" {
		value, ok := given[plan]
		switch {
		case !slices.Contains(a.asked, plan):
			notes = append(notes, "an override for this key")
		case ok:
			notes = append(notes, plan+" "+value)
		default:
			notes = append(notes, "no "+plan+": the default")
		}
	}
	switch {
	case a.rule.Mode == core.Shadow:
		notes = append(notes, "shadow: denies nobody")
	case a.rule.Mode != core.Enforce && a.Mode() == core.Shadow:
		notes = append(notes, a.rule.Mode.String()+": not for this key")
	case a.rule.Mode != core.Enforce:
		notes = append(notes, a.rule.Mode.String()+": also for this key")
	}
	if a.rule.Hidden {
		notes = append(notes, hiddenNote)
	}
	if a.Key == "" {
		notes = append(notes, "the request has no such key: all such requests count together")
	}
	if value := a.outline.Value; value != "" {
		notes = append(notes, "a new "+value+" takes a unit, one that is known takes none")
	}
	if a.rule.FinalCost != nil {
		notes = append(notes, "the final cost depends on how it ends")
	}
	if !a.Allowed && a.RetryAfter == limits.Never {
		notes = append(notes, "costs more than the limit ever allows: always denied")
	}
	return notes
}

// hiddenNote is the remark on a hidden rule.
const hiddenNote = "hidden: clients are not told of it"

// noKey is shown for a request without a key. All such requests count together.
const noKey = "(none)"

// showKey returns a readable key of the rule of a: the parts of a list one by one.
func (a *answer) showKey(key string) string {
	if key == "" {
		return noKey
	}
	if parts := joinedParts(key); parts != nil && strings.HasPrefix(a.outline.Key, "[") {
		return listText(parts)
	}
	return key
}

// listText returns the parts of a key in the syntax of policy files.
func listText(parts []string) string { return "[" + strings.Join(parts, ", ") + "]" }

// joinedParts returns the parts of a key of keyfuncs.Join, or nil. Each part follows its length and
// a colon.
func joinedParts(key string) (parts []string) {
	for key != "" {
		digits, rest, ok := strings.Cut(key, ":")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 || n > len(rest) {
			return nil
		}
		parts, key = append(parts, rest[:n]), rest[n:]
	}
	return parts
}
