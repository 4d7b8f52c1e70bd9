//go:build !js

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
	"github.com/weir-go/weir/policy"
)

// This file is not in the playground: code that reads policy files would double the size of its
// page.

// maxPolicy is the number of bytes read of a policy file: one more than it may have.
const maxPolicy = 1<<20 + 1

// ReadPolicy reads a policy file. Its error reports every mistake.
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
	return ParsePolicy(path, text)
}

// OneLimitName is the name of the policies of [OneLimit].
const OneLimitName = "--limit"

// OneLimit returns a policy of one rule named after its key. value is what a distinct limit
// counts; "": nothing. match holds patterns of requests that it applies to; none: all.
func OneLimit(limit, key, value string, match []string) (*Policy, error) {
	rule := map[string]any{"name": ruleName(key), "limit": limit, "key": key}
	if value != "" {
		rule["value"] = value
	}
	if len(match) > 0 {
		rule["match"] = match
	}
	file := map[string]any{
		"version": 1, "client": map[string]any{"peer": true}, "rules": []any{rule},
	}
	var own []string
	for _, k := range []string{key, value} {
		if k != "" && isProgramKey(k) && !slices.Contains(own, k) {
			own = append(own, k)
		}
	}
	if key == "agent" || value == "agent" { // whose name the log has
		file["agents"] = map[string]any{"authorities": "*", "unlisted": 1}
	}
	if own != nil {
		file["program"] = map[string]any{"keys": own}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	p, err := ParsePolicy(OneLimitName, text)
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

// isProgramKey reports whether a key is a function of a program.
func isProgramKey(key string) bool {
	switch source, _, _ := strings.Cut(key, " "); source {
	case "address", "everybody", "route", "agent", "bearer", "header", "cookie", "api-key":
		return false
	}
	return !strings.ContainsAny(key, " {[")
}

// ParsePolicy reads the text of a policy file. Its error reports every mistake.
func ParsePolicy(name string, text []byte) (*Policy, error) {
	outline, err := policy.ReadOutline(name, text)
	if err != nil {
		return nil, err
	}
	p := &Policy{name: name}
	for i := range outline.Rules {
		r := &outline.Rules[i]
		p.reads = append(p.reads, ruleReads{r.Name, needs(r), r.Host})
	}
	p.parse = func(known *Known) (*parsed, error) {
		file, err := policy.Parse(name, text, namesOf(outline, known))
		if err != nil {
			return nil, err
		}
		return &parsed{file.Rules(), file.Expired}, nil
	}
	return p, nil
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
	if r.Agent && !slices.Contains(extras, "key.agent") {
		extras = append(extras, "key.agent")
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

// namesOf returns the functions that read requests of a log. Rules whose function has no data are
// skipped later.
func namesOf(outline *policy.Outline, known *Known) policy.Names[*request] {
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
	for _, key := range outline.Keys {
		names.Keys[key] = text("key." + key)
	}
	names.Agents = func(policy.Agents) (func(*request) (string, error), error) { return text("key.agent"), nil }
	for _, plan := range outline.Plans {
		names.Plans[plan] = text("plan." + plan)
	}
	for _, cost := range outline.Costs {
		read := text("cost." + cost)
		names.Costs[cost] = func(r *request) int64 {
			s, err := read(r)
			if err != nil {
				return 1
			}
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return -1 // makes the rule fail, which the report shows
			}
			return n
		}
	}
	return names
}
