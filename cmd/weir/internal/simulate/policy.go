package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
)

// Policy holds the rules of a replay.
type Policy struct {
	name  string
	reads []ruleReads
	parse func(*Known) (*parsed, error)
}

// ruleReads describes what a rule reads of a request beyond the fields of every log.
type ruleReads struct {
	name   string
	extras []string // names in [accesslog.Options].Extras
	host   bool     // a pattern has a host
}

// parsed holds the rules of a policy in the order of Policy.reads.
type parsed struct {
	rules   []core.Rule[*request]
	expired func(time.Time) []string // returns the overrides that ended before a time
}

// Extras returns the names in [accesslog.Options].Extras that the rules read.
func (p *Policy) Extras() (extras []string) {
	for i := range p.reads {
		extras = append(extras, p.reads[i].extras...)
	}
	slices.Sort(extras)
	return slices.Compact(extras)
}

// hasRule reports whether p has the named rule.
func (p *Policy) hasRule(name string) bool {
	return slices.ContainsFunc(p.reads, func(r ruleReads) bool { return r.name == name })
}

// ruleNames returns the names of the rules, for errors.
func (p *Policy) ruleNames() string {
	names := make([]string, len(p.reads))
	for i := range p.reads {
		names[i] = p.reads[i].name
	}
	return strings.Join(names, ", ")
}

// Known describes the data in logs.
type Known struct {
	Extras []string // all extras that policies read, in the order of accesslog.Entry.Extra
	Has    []bool   // whether logs have each of Extras

	Fields   map[string]string // of [accesslog.Options]
	Redacted bool
	Lasted   bool // requests have durations
	Status   bool
	Host     bool
}

// Skipped is a rule that was not simulated.
type Skipped struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// plan is the part of a policy that is simulated.
type plan struct {
	name    string
	rules   []core.Rule[*request]
	skipped []Skipped
	notes   []string
	expired func(time.Time) []string // returns the overrides that ended before a time
}

// plan returns the part of p that can be simulated with the known data.
func (p *Policy) plan(known *Known) (*plan, error) {
	parsed, err := p.parse(known)
	if err != nil {
		return nil, err
	}
	result := &plan{name: p.name, expired: parsed.expired}
	for i, rule := range parsed.rules {
		if rule.Mode == core.Disabled {
			result.skip(rule.Name, "it is disabled")
			continue
		}
		if rule.Value == nil && rule.Limit.Algorithm().CountsValues() {
			result.skip(rule.Name, "a distinct limit needs the values that it counts, and nothing "+
				"says which they are")
			continue
		}
		if why := known.lacks(&p.reads[i]); why != "" {
			result.skip(rule.Name, why)
			continue
		}
		if !varies(&rule) && rule.Limit.Algorithm().Holds() && !known.Lasted {
			result.skip(rule.Name, "a concurrency limit needs the duration of requests, and the "+
				"log does not have it")
			continue
		}
		if rule.FinalCost != nil {
			if !known.Status {
				result.note("rule %q: the log has no status, so costs are those of the beginning",
					rule.Name)
			} else if !known.Lasted {
				result.note("rule %q: the log has no durations, so requests end, and are "+
					"charged their final cost, at once",
					rule.Name)
			}
		}
		result.rules = append(result.rules, rule)
	}
	return result, nil
}

func (p *plan) skip(rule, why string) { p.skipped = append(p.skipped, Skipped{rule, why}) }

func (p *plan) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// lacks returns why a rule cannot be simulated, or "".
func (k *Known) lacks(r *ruleReads) string {
	var missing []string
	credentials := false
	for _, extra := range r.extras {
		if i := slices.Index(k.Extras, extra); i < 0 || !k.Has[i] {
			missing = append(missing, extra)
			credentials = credentials || extra == "header.Authorization" || extra == "header.Cookie"
		}
	}
	if len(missing) == 0 {
		if r.host && !k.Host {
			return "a pattern of it has a host, and the log has none: name its field by --field " +
				"host=NAME"
		}
		return ""
	}
	names := make([]string, len(missing))
	var unnamed []string // not named by --field
	for i, extra := range missing {
		names[i] = describeExtra(extra)
		if field, ok := k.Fields[extra]; ok {
			names[i] += fmt.Sprintf(" (the first lines have nothing in the field %s)", field)
		} else {
			unnamed = append(unnamed, extra)
		}
	}
	why := fmt.Sprintf("the log does not have %s", strings.Join(names, ", "))
	if credentials && k.Redacted {
		return why + ": the server hides credentials"
	}
	if len(unnamed) == 0 {
		return why
	}
	return why + ": if it is there by another name, say so by --field " +
		strings.Join(unnamed, "=NAME,") + "=NAME"
}

// describeExtra returns an extra in words.
func describeExtra(extra string) string {
	kind, name, _ := strings.Cut(extra, ".")
	switch {
	case kind == "header":
		return "the header " + name
	case extra == "key.route":
		return "the route"
	case kind == "key":
		return "the key " + name
	}
	return "the " + kind + " " + name
}
