package descriptors

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// parse returns the root of a document.
func (r *reader) parse(text []byte) (root *yaml.Node) {
	defer func() { // a library that fails on a hostile file must not end the program
		if v := recover(); v != nil {
			r.mistake(nil, "the file cannot be read as YAML")
			root = nil
		}
	}()
	var document yaml.Node
	bounds := loaderlimits.New(loaderlimits.DepthFunc(func(depth int, _ *yaml.DepthContext) error {
		if depth > maxDepth {
			return fmt.Errorf("lists and maps are more than %d deep", maxDepth)
		}
		return nil
	}))
	if err := yaml.Load(text, &document, yaml.WithPlugin(bounds), yaml.WithUniqueKeys(false)); err != nil {
		var one *yaml.LoadError
		var all *yaml.LoadErrors
		if errors.As(err, &all) && len(all.Errors) > 0 {
			one = all.Errors[0]
		}
		if one == nil && !errors.As(err, &one) {
			r.mistake(nil, "not YAML: %v", err)
			return nil
		}
		r.mistake(&yaml.Node{Line: one.Mark.Line, Column: one.Mark.Column}, "not YAML: %s", one.Message)
		return nil
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		r.mistake(nil, "the file is empty: write domain and descriptors")
		return nil
	}
	return document.Content[0]
}

// fields says how to read the fields of a map.
type fields map[string]func(*yaml.Node)

// fields reads a map, and returns the values of the fields that it has.
func (r *reader) fields(n *yaml.Node, of fields) (seen map[string]*yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.mistake(n, "must be a map with the fields %s (got %s)", of.names(), describe(n))
		return nil
	}
	seen = make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		read := of[name.Value]
		switch {
		case name.Kind != yaml.ScalarNode || read == nil:
			r.mistake(name, "there is no field %s: the fields are %s", describe(name), of.names())
		case seen[name.Value] != nil:
			r.mistake(name, "%s is here twice, also in line %d: remove one", name.Value, seen[name.Value].Line)
		case value.Kind == yaml.AliasNode || value.Anchor != "":
			r.mistake(value, "anchors and aliases are not supported: write the value where it belongs")
		case isNull(value):
			r.mistake(name, "%s has no value: write one or remove the field", name.Value)
			seen[name.Value] = value
		default:
			seen[name.Value] = value
			read(value)
		}
	}
	return seen
}

func (of fields) names() string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe returns what n is, for mistakes.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a map"
	case isNull(n):
		return "nothing"
	}
	return quote(n.Value)
}

// quote returns a text of the file as mistakes show it.
func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}

// text returns a scalar as it is written, since 010 is a text, too.
func (r *reader) text(n *yaml.Node, field string) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		r.mistake(n, "%s must be a text that is not empty (got %s)", field, describe(n))
		return ""
	}
	return n.Value
}

// optional is text where "" means the same as no field: generators of files write it.
func (r *reader) optional(n *yaml.Node, field string) string {
	if n.Kind == yaml.ScalarNode && n.Value == "" {
		return ""
	}
	return r.text(n, field)
}

func (r *reader) boolean(n *yaml.Node, field string) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		r.mistake(n, "%s must be true or false (got %s)", field, describe(n))
		return false
	}
	return strings.EqualFold(n.Value, "true")
}

func (r *reader) choice(n *yaml.Node, field string, words []string) int {
	i := slices.Index(words, strings.ToLower(n.Value))
	if n.Kind != yaml.ScalarNode || i < 0 {
		last := len(words) - 1
		r.mistake(n, "%s must be %s or %s (got %s)",
			field, strings.Join(words[:last], ", "), words[last], describe(n))
		return 0
	}
	return i
}

// items calls read with each item of a list.
func (r *reader) items(n *yaml.Node, field string, read func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		r.mistake(n, "%s must be a list (got %s)", field, describe(n))
		return
	}
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode || item.Anchor != "" {
			r.mistake(item, "anchors and aliases are not supported: write the value where it belongs")
			continue
		}
		read(item)
	}
}
