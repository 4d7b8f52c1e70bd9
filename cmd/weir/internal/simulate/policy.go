package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/files"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// Policy is the policy file that is replayed.
type Policy struct {
	name    string
	text    []byte
	outline *policy.Outline
}

// maxPolicy is what is read of a policy file: a byte more than one may have.
const maxPolicy = 1<<20 + 1

// ReadPolicy reads a policy file. Its error reports every mistake of it.
func ReadPolicy(path string) (*Policy, error) {
	file, err := files.Open(path)
	if err != nil {
		return nil, visible.Error(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPolicy))
	if err != nil {
		return nil, visible.Error(err)
	}
	return newPolicy(path, text)
}

// OneLimitName is the name of the policies of [OneLimit].
const OneLimitName = "--limit"

// OneLimit returns the policy of one rule, whose name is its key. match has patterns of
// requests to which it applies; none: all.
func OneLimit(limit, key string, match []string) (*Policy, error) {
	rule := map[string]any{"name": ruleName(key), "limit": limit, "key": key}
	if len(match) > 0 {
		rule["match"] = match
	}
	file := map[string]any{"version": 1, "client": map[string]any{"peer": true}, "rules": []any{rule}}
	if isProgramKey(key) {
		file["program"] = map[string]any{"keys": []string{key}}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	p, err := newPolicy(OneLimitName, text)
	if mistakes := policy.Mistakes(err); len(mistakes) > 0 {
		said := make([]string, len(mistakes))
		for i, m := range mistakes {
			said[i] = fmt.Sprintf("--%s: %s", m.Field, m.Text)
		}
		return nil, fmt.Errorf("%s", strings.Join(said, "\n"))
	}
	return p, err
}

// ruleName returns the name of the rule that counts by key.
func ruleName(key string) string { return "per-" + strings.ReplaceAll(key, " ", "-") }

// isProgramKey reports whether a key is none of those that every policy file knows.
func isProgramKey(key string) bool {
	switch source, _, _ := strings.Cut(key, " "); source {
	case "address", "everybody", "route", "bearer", "header", "cookie", "api-key":
		return false
	}
	return !strings.ContainsAny(key, " {[")
}

func newPolicy(name string, text []byte) (*Policy, error) {
	outline, err := policy.ReadOutline(name, text)
	if err != nil {
		return nil, err
	}
	return &Policy{name, text, outline}, nil
}

// Extras returns what the rules read of a request beyond what every log has, by the names of
// [accesslog.Options].Extras.
func (p *Policy) Extras() (extras []string) {
	for i := range p.outline.Rules {
		extras = append(extras, needs(&p.outline.Rules[i])...)
	}
	slices.Sort(extras)
	return slices.Compact(extras)
}

// hasRule reports whether p has a rule of a name.
func (p *Policy) hasRule(name string) bool {
	return slices.ContainsFunc(p.outline.Rules, func(r policy.RuleOutline) bool { return r.Name == name })
}

// ruleNames returns the names of the rules, for errors.
func (p *Policy) ruleNames() string {
	names := make([]string, len(p.outline.Rules))
	for i := range p.outline.Rules {
		names[i] = p.outline.Rules[i].Name
	}
	return strings.Join(names, ", ")
}

// needs returns the extras that a rule reads.
func needs(r *policy.RuleOutline) (extras []string) {
	for _, source := range r.Sources {
		kind, arg, _ := strings.Cut(source, " ")
		switch kind {
		case "address", "everybody", "route":
		case "header", "api-key":
			extras = append(extras, "header."+arg)
		case "cookie":
			extras = append(extras, "header.Cookie")
		case "bearer":
			extras = append(extras, "header.Authorization")
		default:
			extras = append(extras, "key."+source)
		}
	}
	if r.Route {
		extras = append(extras, "key.route")
	}
	if r.Plan != "" {
		extras = append(extras, "plan."+r.Plan)
	}
	if r.Cost != "" {
		extras = append(extras, "cost."+r.Cost)
	}
	return extras
}

// Known is what logs have.
type Known struct {
	Extras   []string // all that policies read, in the order of accesslog.Entry.Extra
	Has      []bool   // of each of Extras
	Redacted bool
	Lasted   bool // the duration of requests
	Status   bool
	Host     bool
}

// Skipped is a rule that is not simulated.
type Skipped struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// plan is what of a policy is simulated.
type plan struct {
	name    string
	rules   []core.Rule[*request]
	skipped []Skipped
	notes   []string
	expired func(time.Time) []string // the overrides that have ended by an instant
}

// plan returns what of p can be simulated with logs that have what is known.
func (p *Policy) plan(known *Known) (*plan, error) {
	parsed, err := policy.Parse(p.name, p.text, p.names(known))
	if err != nil {
		return nil, err
	}
	result := &plan{name: p.name, expired: parsed.Expired}
	for i, rule := range parsed.Rules() {
		outline := &p.outline.Rules[i]
		if rule.Mode == core.Disabled {
			result.skip(rule.Name, "it is disabled")
			continue
		}
		if why := known.lacks(outline); why != "" {
			result.skip(rule.Name, why)
			continue
		}
		if !varies(&rule) && rule.Limit.Algorithm() == limits.AlgorithmConcurrent && !known.Lasted {
			result.skip(rule.Name, "a concurrency limit needs the duration of requests, and the log does not have it")
			continue
		}
		if rule.FinalCost != nil {
			if !known.Status {
				result.note("rule %q: the log has no status, so costs are those of the beginning", rule.Name)
			} else if !known.Lasted {
				result.note("rule %q: the log has no durations, so requests end, and are charged their final cost, at once", rule.Name)
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

// lacks returns why a rule cannot be simulated, "" if it can.
func (known *Known) lacks(r *policy.RuleOutline) string {
	var missing []string
	credentials := false
	for _, extra := range needs(r) {
		if i := slices.Index(known.Extras, extra); i < 0 || !known.Has[i] {
			missing = append(missing, extra)
			credentials = credentials || extra == "header.Authorization" || extra == "header.Cookie"
		}
	}
	if len(missing) == 0 {
		if r.Host && !known.Host {
			return "a pattern of it has a host, and the log has none: name its field by --field host=NAME, or use a format with virtual hosts"
		}
		return ""
	}
	names := make([]string, len(missing))
	for i, extra := range missing {
		names[i] = describeExtra(extra)
	}
	why := fmt.Sprintf("the log does not have %s", strings.Join(names, ", "))
	if credentials && known.Redacted {
		return why + ": the server hides credentials"
	}
	return why + fmt.Sprintf(": if it is there by another name, say so by --field %s=NAME", strings.Join(missing, "=NAME,"))
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

// names returns the functions by which rules read a request of a log. A rule whose function
// has nothing to read is left out later.
func (p *Policy) names(known *Known) policy.Names[*request] {
	text := func(extra string) func(*request) (string, error) {
		i := slices.Index(known.Extras, extra)
		return func(r *request) (string, error) {
			if i < 0 || r.entry.Extra[i] == "" {
				return "", core.ErrAbsent
			}
			return r.entry.Extra[i], nil
		}
	}
	route := text("key.route")
	names := policy.Names[*request]{
		Request: (*request).forPolicy,
		Route:   func(r *request) string { s, _ := route(r); return s },
		Address: func(r *request) (netip.Addr, error) { return r.entry.Address, nil },
		Now:     func(r *request) time.Time { return time.UnixMicro(r.entry.At) },
		Keys:    make(map[string]func(*request) (string, error)),
		Plans:   make(map[string]func(*request) (string, error)),
		Costs:   make(map[string]func(*request) int64),
	}
	for _, key := range p.outline.Keys {
		names.Keys[key] = text("key." + key)
	}
	for _, plan := range p.outline.Plans {
		names.Plans[plan] = text("plan." + plan)
	}
	for _, cost := range p.outline.Costs {
		read := text("cost." + cost)
		names.Costs[cost] = func(r *request) int64 {
			s, err := read(r)
			if err != nil {
				return 1
			}
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return -1 // the rule fails, and the report says so
			}
			return n
		}
	}
	return names
}
