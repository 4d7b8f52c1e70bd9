package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// A file of cases is a test of a policy: it lists requests and the rules that apply to them.

// testCase is a request with the rules that must apply to it. No other rule may apply.
type testCase struct {
	at      *yaml.Node
	name    string
	request *madeUp
	values  map[string]string // results of the functions of the program
	rules   map[string]*expectation
}

// expectation is the expected decision of a rule. A nil field is not compared.
type expectation struct {
	at, keyAt, limitAt, costAt, modeAt *yaml.Node
	key                                *string
	keyText                            string
	limit                              *limits.Limit
	cost                               *int64
	mode                               *core.Mode
}

// caseReader reads a file of cases and collects mistakes.
type caseReader struct {
	file     string
	trial    *trial
	findings []finding
}

func (c *caseReader) mistake(n *yaml.Node, field, format string, args ...any) {
	f := finding{File: c.file, Kind: mistake, Field: field, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		f.Line, f.Column = n.Line, n.Column
	}
	c.findings = append(c.findings, f)
}

// readCases reads the cases in text. cases is valid only if there are no findings.
func readCases(file string, text []byte, t *trial) (cases []*testCase, findings []finding) {
	c := &caseReader{file: file, trial: t}
	var document yaml.Node
	if len(strings.TrimSpace(string(text))) == 0 {
		c.mistake(nil, "", "the file is empty: write cases")
		return nil, c.findings
	}
	if err := yaml.Load(text, &document, yaml.WithUniqueKeys(false)); err != nil {
		c.syntax(err)
		return nil, c.findings
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		c.mistake(nil, "", "must be one document with cases")
		return nil, c.findings
	}
	c.fields(document.Content[0], "", map[string]func(*yaml.Node){
		"cases": func(n *yaml.Node) {
			c.list(n, "cases", func(item *yaml.Node) { cases = append(cases, c.testCase(item)) })
		},
	}, "cases")
	return cases, c.findings
}

// syntax reports an error of the YAML library.
func (c *caseReader) syntax(err error) {
	f := finding{
		File: c.file, Kind: mistake, Text: "not YAML: " +
			strings.ReplaceAll(err.Error(), "\n", "; "),
	}
	var one *yaml.LoadError
	var all *yaml.LoadErrors
	if errors.As(err, &all) && len(all.Errors) > 0 {
		one = all.Errors[0]
	}
	if one != nil || errors.As(err, &one) {
		f.Line, f.Column, f.Text = one.Mark.Line, one.Mark.Column, "not YAML: "+one.Message
	}
	c.findings = append(c.findings, f)
}

// fields calls the function for each field of a map. field is the name of the map, or "" for the
// file.
func (c *caseReader) fields(
	n *yaml.Node, field string, read map[string]func(*yaml.Node), required ...string,
) {
	names := strings.Join(slices.Sorted(maps.Keys(read)), ", ")
	if n.Kind != yaml.MappingNode {
		c.mistake(n, field, "must be a map with the fields %s", names)
		return
	}
	seen := make(map[string]bool)
	c.entries(n, field, func(name, value *yaml.Node) {
		f := read[name.Value]
		if f == nil {
			c.mistake(name, field, "there is no field %.80q: the fields are %s", name.Value, names)
			return
		}
		seen[name.Value] = true
		f(value)
	})
	for _, name := range required {
		if !seen[name] {
			c.mistake(n, name, "is required: add it")
		}
	}
}

// entries calls visit for every entry of a map.
func (c *caseReader) entries(n *yaml.Node, field string, visit func(name, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		c.mistake(n, field, "must be a map of names to values")
		return
	}
	seen := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if other := seen[name.Value]; other != nil {
			c.mistake(name, field, "%.80q is here twice, also in line %d: remove one", name.Value,
				other.Line)
			continue
		}
		seen[name.Value] = name
		visit(name, n.Content[i+1])
	}
}

func (c *caseReader) list(n *yaml.Node, field string, visit func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		c.mistake(n, field, "must be a list")
		return
	}
	for _, item := range n.Content {
		visit(item)
	}
}

// text returns the text of a scalar.
func (c *caseReader) text(n *yaml.Node, field string) string {
	if n.Tag == "!!null" {
		c.mistake(n, field, "must be a text: write one, or leave out what has none")
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		c.mistake(n, field, "must be a text")
		return ""
	}
	return n.Value
}

func (c *caseReader) testCase(n *yaml.Node) *testCase {
	t := &testCase{at: n, request: &madeUp{Header: make(http.Header)},
		values: make(map[string]string),
		rules:  make(map[string]*expectation)}
	var host, address, route string
	fields := make(map[string]string)
	c.fields(n, "cases", map[string]func(*yaml.Node){
		"name": func(n *yaml.Node) { t.name = c.text(n, "name") },
		"request": func(n *yaml.Node) {
			m, err := parseRequest(c.text(n, "request"))
			if err != nil {
				c.mistake(n, "request", "%v", err)
				return
			}
			t.request = m
		},
		"host": func(n *yaml.Node) { host = c.text(n, "host") },
		"address": func(n *yaml.Node) {
			address = c.text(n, "address")
			if _, err := parseAddress(address); err != nil {
				c.mistake(n, "address", "%v", err)
			}
		},
		"route": func(n *yaml.Node) { route = c.text(n, "route") },
		"headers": func(n *yaml.Node) {
			c.entries(n, "headers", func(name, value *yaml.Node) {
				field := name.Value + ":" + c.text(value, "headers")
				if _, _, err := parseField(field); err != nil {
					c.mistake(name, "headers",
						"is not the name and value of a header field (got %.80q)", name.Value)
				}
				fields[name.Value] = value.Value
			})
		},
		"program": func(n *yaml.Node) {
			c.entries(n, "program", func(name, value *yaml.Node) {
				if err := c.trial.checkValue(name.Value, c.text(value, "program")); err != nil {
					c.mistake(name, "program", "%v", err)
				}
				t.values[name.Value] = value.Value
			})
		},
		"rules": func(n *yaml.Node) {
			c.entries(n, "rules", func(name, value *yaml.Node) {
				t.rules[name.Value] = c.expectation(name, value)
			})
		},
	}, "request", "rules")
	t.request.Host, t.request.Address, t.request.Route = cmp.Or(host, t.request.Host), address,
		route
	for name, value := range fields {
		t.request.add(name, value)
	}
	return t
}

func (c *caseReader) expectation(name, n *yaml.Node) *expectation {
	e := &expectation{at: name}
	if !slices.ContainsFunc(c.trial.rules,
		func(r core.Rule[*http.Request]) bool { return r.Name == name.Value }) {
		c.mistake(name, "rules", "the policy has no rule %.80q: its rules are %s", name.Value,
			c.trial.ruleNames())
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return e // only the name: the rule must apply
	}
	c.fields(n, "rules", map[string]func(*yaml.Node){
		"key": func(n *yaml.Node) {
			key := ""
			if n.Kind == yaml.SequenceNode {
				key, e.keyText = c.joined(n)
			} else {
				key = c.text(n, "key")
				e.keyText = cmp.Or(key, noKey)
			}
			e.key, e.keyAt = &key, n
		},
		"limit": func(n *yaml.Node) {
			l, err := limits.Parse(c.text(n, "limit"))
			if err != nil {
				c.mistake(n, "limit", "%s", withoutPlace(err, n.Value))
			}
			e.limit, e.limitAt = &l, n
		},
		"cost": func(n *yaml.Node) {
			cost, err := strconv.ParseInt(c.text(n, "cost"), 10, 64)
			if err != nil || cost < 0 {
				c.mistake(n, "cost", "must be a number of units (got %.80q)", n.Value)
			}
			e.cost, e.costAt = &cost, n
		},
		"mode": func(n *yaml.Node) {
			m, err := core.ParseMode(c.text(n, "mode"))
			if err != nil || m != core.Enforce && m != core.Shadow {
				c.mistake(n, "mode", "must be enforce or shadow, which the rule is for the key "+
					"of the request (got %.80q)", n.Value)
			}
			e.mode, e.modeAt = &m, n
		},
	})
	return e
}

// joined returns the key of a rule with a list of keys, and its text. n holds the parts.
func (c *caseReader) joined(n *yaml.Node) (key, text string) {
	var texts []string
	var parts []func(struct{}) (string, error)
	for _, item := range n.Content {
		part := c.text(item, "key")
		texts, parts = append(texts, part), append(parts, keyfuncs.Constant[struct{}](part))
	}
	join := keyfuncs.Join(parts...)
	if join == nil {
		c.mistake(n, "key", "must have the parts of the key")
		return "", ""
	}
	key, _ = join(struct{}{}) // cannot fail: the parts are constant
	return key, listText(texts)
}

// withoutPlace returns an error of limits.Parse without the limit that it begins with.
func withoutPlace(err error, limit string) string {
	return strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", "; "),
		fmt.Sprintf("limits: %q: ", limit))
}
