package descriptors

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// reader reads files and collects their mistakes.
type reader struct {
	config   *Config
	mistakes []*policy.Mistake
	file     string
	path     string // of the descriptor in hand
	nodes    int
	domain   *domain
}

func (r *reader) mistake(n *yaml.Node, format string, args ...any) {
	m := &policy.Mistake{File: r.file, Rule: r.path, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		m.Line, m.Column = n.Line, n.Column
	}
	r.mistakes = append(r.mistakes, m)
}

// read reads one file.
func (r *reader) read(f File) {
	r.file, r.path = f.Name, ""
	if len(f.Text) > maxFile {
		r.mistake(nil, "a file of limits has at most %d bytes (got %d)", maxFile, len(f.Text))
		return
	}
	root := r.parse(f.Text)
	if root == nil {
		return
	}
	d := &domain{file: f.Name}
	r.domain = d
	var list *yaml.Node
	seen := r.fields(root, fields{
		"domain":         func(n *yaml.Node) { d.name = r.text(n, "domain") },
		"descriptors":    func(n *yaml.Node) { list = n },
		"all_or_nothing": func(n *yaml.Node) { d.allOrNothing = r.boolean(n, "all_or_nothing") },
		"on_failure": func(n *yaml.Node) {
			d.onFailure = onFailure(r.choice(n, "on_failure", onFailureNames))
		},
	})
	if root.Kind != yaml.MappingNode {
		return
	}
	switch before := r.config.domains[d.name]; {
	case seen["domain"] == nil:
		r.mistake(root, "domain is required: add it")
	case len(d.name) > maxDomain:
		r.mistake(seen["domain"], "domain must have at most %d bytes (got %d)", maxDomain, len(d.name))
	case before != nil:
		r.mistake(seen["domain"], "domain %q is also in %s: put its limits into one file",
			d.name, before.file)
	case d.name != "":
		r.config.domains[d.name] = d
	}
	for unit := Second; unit <= Week; unit++ {
		d.overrides[unit] = rule{path: overridePath}
	}
	if list != nil {
		r.level(&d.level, list, "")
	}
}

// level reads a list of descriptors into l. above is the path that leads there.
func (r *reader) level(l *level, list *yaml.Node, above string) {
	lines := make(map[Entry]int)
	r.items(list, "descriptors", func(n *yaml.Node) {
		r.path = above
		if r.nodes++; r.nodes == maxNodes+1 {
			r.mistake(n, "there are more than %d descriptors", maxNodes)
		}
		if r.nodes > maxNodes {
			return
		}
		r.descriptor(l, n, above, lines)
	})
	r.path = above
}

// descriptor reads one descriptor into l. lines has where its neighbours are.
func (r *reader) descriptor(l *level, n *yaml.Node, above string, lines map[Entry]int) {
	var pair Entry
	var below *yaml.Node
	made, of := new(node), new(rule)
	if n.Kind == yaml.MappingNode { // mistakes name the descriptor, wherever its key stands
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "key" {
				r.path = above + n.Content[i+1].Value
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "value" {
				r.path += "_" + n.Content[i+1].Value
			}
		}
	}
	path := r.path
	var limitNodes []*yaml.Node
	seen := r.fields(n, fields{
		"key":        func(n *yaml.Node) { pair.Key = r.text(n, "key") },
		"value":      func(n *yaml.Node) { pair.Value = r.optional(n, "value") },
		"rate_limit": func(n *yaml.Node) { limitNodes = append(limitNodes, n) },
		"rate_limits": func(n *yaml.Node) {
			r.items(n, "rate_limits", func(n *yaml.Node) { limitNodes = append(limitNodes, n) })
		},
		"descriptors":     func(n *yaml.Node) { below = n },
		"shadow_mode":     func(n *yaml.Node) { of.shadow = r.boolean(n, "shadow_mode") },
		"quota_mode":      func(n *yaml.Node) { of.quota = r.boolean(n, "quota_mode") },
		"share_threshold": func(n *yaml.Node) { made.shares = r.boolean(n, "share_threshold") },
		"detailed_metric": func(n *yaml.Node) {
			of.detailed = r.boolean(n, "detailed_metric") || of.detailed
		},
		"value_to_metric": func(n *yaml.Node) {
			of.detailed = r.boolean(n, "value_to_metric") || of.detailed
		},
		"metadata": func(n *yaml.Node) { of.metadata = r.metadata(n) },
	})
	if seen == nil {
		return
	}
	stars := strings.Count(pair.Value, "*")
	switch {
	case seen["key"] == nil:
		r.mistake(n, "key is required: add it")
	case lines[pair] != 0:
		r.mistake(n, "this descriptor is here twice, also in line %d: remove one", lines[pair])
	case made.shares && stars == 0:
		r.mistake(seen["share_threshold"], "share_threshold is for values with a star, such as %q (got %s)",
			"files/*", quote(pair.Value))
	case stars > maxParts:
		r.mistake(seen["value"], "a value must have at most %d stars (got %d)", maxParts, stars)
	case len(pair.Key)+len(pair.Value) > maxText:
		r.mistake(n, "key and value must have at most %d bytes (got %d)",
			maxText, len(pair.Key)+len(pair.Value))
	case seen["rate_limit"] != nil && seen["rate_limits"] != nil:
		r.mistake(seen["rate_limits"], "rate_limits stands in place of rate_limit: remove one")
	case of.quota && r.domain.allOrNothing:
		r.mistake(seen["quota_mode"], "quota_mode does not go with all_or_nothing: remove one")
	}
	lines[pair] = n.Line
	made.value = pair.Value
	if len(limitNodes) > 0 {
		of.path = path
		for i, n := range limitNodes {
			r.limit(of, n, i)
		}
		made.rule = of
	}
	switch {
	case pair.Value == "":
		put(&l.keys, pair.Key, made)
	case stars > 0:
		l.wildcards = append(l.wildcards, newWildcard(pair.Key, pair.Value, made))
	}
	if pair.Value != "" && stars == 0 {
		put(&l.exact, pair, made)
	}
	if below != nil {
		r.level(&made.level, below, path+".")
	}
}

func put[K comparable](m *map[K]*node, key K, n *node) {
	if *m == nil {
		*m = make(map[K]*node)
	}
	(*m)[key] = n
}

const maxText = 4096 // bytes of a key and its value in a file

var units = []string{"second", "minute", "hour", "day", "week", "month", "year"}

var unitOf = [...]Unit{Second, Minute, Hour, Day, Week, Month, Year}

// limit reads the i-th limit of a rule.
func (r *reader) limit(of *rule, n *yaml.Node, i int) {
	var shown Limit
	var native limits.Limit
	unlimited := false
	seen := r.fields(n, fields{
		"unit": func(n *yaml.Node) { shown.Unit = unitOf[r.choice(n, "unit", units)] },
		"requests_per_unit": func(n *yaml.Node) {
			v, err := strconv.ParseUint(n.Value, 10, 32)
			if err != nil || n.Kind != yaml.ScalarNode || v > maxRequests {
				r.mistake(n, "requests_per_unit must be a whole number, 0 to %d (got %s);"+
					" unlimited: true is for no limit", maxRequests, describe(n))
				v = 0
			}
			shown.RequestsPerUnit = uint32(v)
		},
		"unit_multiplier": func(n *yaml.Node) {
			v, err := strconv.ParseUint(n.Value, 10, 32)
			if err != nil || n.Kind != yaml.ScalarNode || v == 0 {
				r.mistake(n, "unit_multiplier must be a whole number, 1 or more (got %s)", describe(n))
				v = 0
			}
			shown.Multiplier = uint32(v)
		},
		"unlimited": func(n *yaml.Node) { unlimited = r.boolean(n, "unlimited") },
		"name":      func(n *yaml.Node) { shown.Name = r.optional(n, "name") },
		"replaces": func(n *yaml.Node) {
			r.items(n, "replaces", func(n *yaml.Node) {
				seen := r.fields(n, fields{"name": func(n *yaml.Node) {
					of.replaces = append(of.replaces, r.text(n, "name"))
				}})
				if seen != nil && seen["name"] == nil {
					r.mistake(n, "name is required: add it")
				}
			})
		},
		"algorithm": func(n *yaml.Node) {
			var err error
			native, err = limits.Parse(r.text(n, "algorithm"))
			switch a := native.Algorithm(); {
			case err != nil:
				r.mistake(n, "algorithm: %v", err)
			case a.Holds() || a.Delays():
				r.mistake(n, "algorithm: %s is not possible: a check sees no end of a request, and waits for none", a)
			case a.CountsValues():
				r.mistake(n, "algorithm: %s is not possible: a descriptor has a key and no value beside it", a)
			}
		},
	})
	if seen == nil {
		return
	}
	switch {
	case unlimited && (seen["unit"] != nil || seen["algorithm"] != nil):
		r.mistake(n, "unlimited has no unit and no algorithm: remove them")
	case unlimited && len(of.limits) > 0, of.unlimited:
		r.mistake(n, "unlimited stands alone: remove the other limits")
	case unlimited:
	case seen["algorithm"] != nil &&
		(seen["unit"] != nil || seen["requests_per_unit"] != nil || seen["unit_multiplier"] != nil):
		r.mistake(n, "algorithm stands in place of unit, unit_multiplier and requests_per_unit:"+
			" remove one or the other")
	case seen["algorithm"] != nil:
	case seen["unit"] == nil:
		r.mistake(n, "unit is required: second, minute, hour, day, week, month or year")
	case seen["requests_per_unit"] == nil:
		r.mistake(n, "requests_per_unit is required: add it; 0 denies all")
	case !isLegalMultiplier(shown.Unit, shown.Multiplier):
		r.mistake(seen["unit_multiplier"], "unit_multiplier must be at most %d for a unit of a %v (got %d)",
			longestWindows[shown.Unit], shown.Unit, shown.Multiplier)
		shown.Multiplier = 0
	case of.isBy(&shown):
		r.mistake(n, "there are two limits by %s: remove one", shown.window())
	}
	if shown.Name != "" && slices.Contains(of.replaces, shown.Name) {
		r.mistake(seen["replaces"], "a limit does not replace itself: remove %s", quote(shown.Name))
	}
	if of.name == "" {
		of.name = shown.Name
	}
	switch {
	case unlimited:
		of.unlimited = true
	case seen["algorithm"] != nil:
		rate := native.Rate()
		shown.RequestsPerUnit, shown.Unit = uint32(rate.Units), unitOfPeriod(native)
		of.limits = append(of.limits, limit{
			shown: shown, scope: scopeOf(strconv.Itoa(i), r.domain.name, of.path), native: true, limit: native,
		})
	default:
		of.limits = append(of.limits, r.domain.byUnit(shown, i, of.path))
	}
}

// unitOfPeriod returns the unit that is as long as the period of a limit, 0 if no unit is.
func unitOfPeriod(l limits.Limit) Unit {
	switch l.Period() {
	case "":
	case limits.Day:
		return Day
	case limits.Week:
		return Week
	case limits.Month:
		return Month
	case limits.Year:
		return Year
	}
	switch l.Rate().Period {
	case time.Second:
		return Second
	case time.Minute:
		return Minute
	case time.Hour:
		return Hour
	case 24 * time.Hour:
		return Day
	case 7 * 24 * time.Hour:
		return Week
	}
	return 0
}

// metadata reads any map.
func (r *reader) metadata(n *yaml.Node) map[string]any {
	if n.Kind != yaml.MappingNode {
		r.mistake(n, "metadata must be a map (got %s)", describe(n))
		return nil
	}
	m, _ := r.value(n).(map[string]any)
	return m
}

// value returns a value of metadata: a map, list, text, number, boolean or nil.
func (r *reader) value(n *yaml.Node) any {
	switch {
	case n.Kind == yaml.MappingNode:
		m := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i]
			if _, twice := m[name.Value]; twice || name.Kind != yaml.ScalarNode {
				r.mistake(name, "metadata: %s must be a name that is not there twice", describe(name))
			}
			m[name.Value] = r.value(n.Content[i+1])
		}
		return m
	case n.Kind == yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, r.value(item))
		}
		return list
	case n.Kind != yaml.ScalarNode:
		r.mistake(n, "anchors and aliases are not supported: write the value where it belongs")
		return nil
	}
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if v, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64); err == nil {
			return v
		}
	}
	return n.Value
}

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
