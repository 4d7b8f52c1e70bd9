package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/files/document"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// reader reads files and collects their mistakes.
type reader struct {
	config   *Config
	mistakes []*policy.Mistake
	file     string
	path     string  // of the descriptor in hand
	above    []*rule // of the descriptors above it; nil: one without a limit
	prices   prices
	nodes    int
	domain   *domain
}

func newReader() *reader {
	return &reader{config: &Config{domains: make(map[string]*domain)}, prices: make(prices)}
}

func (r *reader) mistake(n *document.Node, format string, args ...any) {
	m := &policy.Mistake{File: r.file, Rule: r.path, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		m.Line, m.Column = n.Line, n.Column
	}
	r.mistakes = append(r.mistakes, m)
}

// source is a file, or what another program has read. root is nil if it cannot be read.
type source struct {
	name string
	root *document.Node
}

// readAll reads sources, and returns what they say, or every mistake. Any of them may have the prices
// of all.
func (r *reader) readAll(sources []source) (*Config, error) {
	for _, s := range sources {
		if s.root == nil || s.root.Kind != document.Map {
			continue
		}
		r.file = s.name
		for _, e := range s.root.Entries {
			if e.Name.Text == "prices" && !e.Value.IsNull() {
				r.prices.read(r, e.Value)
			}
		}
	}
	order := make(map[string]int)
	for i, s := range sources {
		order[s.name] = i
		if s.root != nil {
			r.read(s)
		}
	}
	if len(r.config.domains) == 0 && r.mistakes == nil && len(sources) > 0 {
		r.mistake(sources[0].root, "no file has a domain: name one with limits, too")
	}
	if r.mistakes == nil {
		return r.config, nil
	}
	slices.SortStableFunc(r.mistakes, func(a, b *policy.Mistake) int {
		return cmp.Or(order[a.File]-order[b.File], a.Line-b.Line, a.Column-b.Column)
	})
	return nil, mistakes(r.mistakes)
}

// read reads one source.
func (r *reader) read(s source) {
	r.file, r.path = s.name, ""
	d := &domain{file: s.name}
	r.domain = d
	var list *document.Node
	seen := r.fields(s.root, fields{
		"domain":         func(n *document.Node) { d.name = r.text(n, "domain") },
		"descriptors":    func(n *document.Node) { list = n },
		"prices":         func(*document.Node) {}, // readAll has read them
		"all_or_nothing": func(n *document.Node) { d.allOrNothing = r.boolean(n, "all_or_nothing") },
		"on_failure": func(n *document.Node) {
			d.onFailure = onFailure(r.choice(n, "on_failure", onFailureNames))
		},
	})
	if s.root.Kind != document.Map {
		return
	}
	if len(seen) == 1 && seen["prices"] != nil {
		return
	}
	switch before := r.config.domains[d.name]; {
	case seen["domain"] == nil:
		r.mistake(s.root, "domain is required: add it")
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
func (r *reader) level(l *level, list *document.Node, above string) {
	places := make(map[Entry]*document.Node)
	r.items(list, "descriptors", func(n *document.Node) {
		r.path = above
		if r.nodes++; r.nodes == maxNodes+1 {
			r.mistake(n, "there are more than %d descriptors", maxNodes)
		}
		if r.nodes > maxNodes {
			return
		}
		r.descriptor(l, n, above, places)
	})
	r.path = above
}

// descriptor reads one descriptor into l. places has its neighbours before it.
func (r *reader) descriptor(
	l *level, n *document.Node, above string, places map[Entry]*document.Node,
) {
	var pair Entry
	var below *document.Node
	made, of := new(node), new(rule)
	for _, e := range n.Entries { // mistakes name the descriptor, wherever its key stands
		if e.Name.Text == "key" {
			r.path = above + e.Value.Text
		}
	}
	for _, e := range n.Entries {
		if e.Name.Text == "value" {
			r.path += "_" + e.Value.Text
		}
	}
	path := r.path
	var limitNodes []*document.Node
	budget, weight := "", (*price)(nil)
	seen := r.fields(n, fields{
		"key":        func(n *document.Node) { pair.Key = r.text(n, "key") },
		"value":      func(n *document.Node) { pair.Value = r.optional(n, "value") },
		"rate_limit": func(n *document.Node) { limitNodes = append(limitNodes, n) },
		"rate_limits": func(n *document.Node) {
			r.items(n, "rate_limits", func(n *document.Node) { limitNodes = append(limitNodes, n) })
		},
		"budget":          func(n *document.Node) { budget = r.text(n, "budget") },
		"weight":          func(n *document.Node) { weight = r.prices.of(r, n) },
		"descriptors":     func(n *document.Node) { below = n },
		"shadow_mode":     func(n *document.Node) { of.shadow = r.boolean(n, "shadow_mode") },
		"quota_mode":      func(n *document.Node) { of.quota = r.boolean(n, "quota_mode") },
		"share_threshold": func(n *document.Node) { made.shares = r.boolean(n, "share_threshold") },
		"detailed_metric": func(n *document.Node) {
			of.detailed = r.boolean(n, "detailed_metric") || of.detailed
		},
		"value_to_metric": func(n *document.Node) {
			of.detailed = r.boolean(n, "value_to_metric") || of.detailed
		},
		"metadata": func(n *document.Node) { of.metadata = r.metadata(n) },
	})
	if seen == nil {
		return
	}
	stars := strings.Count(pair.Value, "*")
	switch {
	case seen["key"] == nil:
		r.mistake(n, "key is required: add it")
	case places[pair] != nil && n.Line == 0:
		r.mistake(n, "this descriptor is here twice: remove one")
	case places[pair] != nil:
		r.mistake(n, "this descriptor is here twice, also in line %d: remove one", places[pair].Line)
	case made.shares && stars == 0:
		r.mistake(seen["share_threshold"], "share_threshold is for values with a star, such as %q (got %s)",
			"files/*", document.Quote(pair.Value))
	case stars > maxParts:
		r.mistake(seen["value"], "a value must have at most %d stars (got %d)", maxParts, stars)
	case len(pair.Key)+len(pair.Value) > maxText:
		r.mistake(n, "key and value must have at most %d bytes (got %d)",
			maxText, len(pair.Key)+len(pair.Value))
	case seen["rate_limit"] != nil && seen["rate_limits"] != nil:
		r.mistake(seen["rate_limits"], "rate_limits stands in place of rate_limit: remove one")
	case seen["budget"] != nil && len(limitNodes) > 0:
		r.mistake(seen["budget"], "budget stands in place of rate_limit and rate_limits: remove one or the other")
	case seen["budget"] != nil && seen["weight"] == nil:
		r.mistake(n, "weight is required beside budget: how many units a hit costs, such as 2.5")
	case seen["budget"] == nil && seen["weight"] != nil:
		r.mistake(seen["weight"], "weight is for a budget: add budget: and the name of a limit above")
	case of.quota && r.domain.allOrNothing:
		r.mistake(seen["quota_mode"], "quota_mode does not go with all_or_nothing: remove one")
	}
	places[pair] = n
	made.value = pair.Value
	if len(limitNodes) > 0 {
		of.path = path
		for i, n := range limitNodes {
			r.limit(of, n, i)
		}
		made.rule = of
	}
	if budget != "" && weight != nil && len(limitNodes) == 0 {
		of.path, made.rule = path, of
		charge(r, of, seen["budget"], budget, weight)
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
		r.above = append(r.above, made.rule)
		r.level(&made.level, below, path+".")
		r.above = r.above[:len(r.above)-1]
		if holder := of.holder(); holder != "" && made.has(holder) {
			r.path = path
			r.mistake(below, "%s is the holder of the limit above, and no key below it: rename one of them",
				document.Quote(holder))
		}
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
func (r *reader) limit(of *rule, n *document.Node, i int) {
	var shown Limit
	var native limits.Limit
	var lends time.Duration
	var holder string
	unlimited := false
	seen := r.fields(n, fields{
		"unit": func(n *document.Node) { shown.Unit = unitOf[r.choice(n, "unit", units)] },
		"requests_per_unit": func(n *document.Node) {
			v, err := strconv.ParseUint(n.Text, 10, 32)
			if err != nil || n.Kind != document.Scalar || v > maxRequests {
				r.mistake(n, "requests_per_unit must be a whole number, 0 to %d (got %s);"+
					" unlimited: true is for no limit", maxRequests, n.Describe())
				v = 0
			}
			shown.RequestsPerUnit = uint32(v)
		},
		"unit_multiplier": func(n *document.Node) {
			v, err := strconv.ParseUint(n.Text, 10, 32)
			if err != nil || n.Kind != document.Scalar || v == 0 {
				r.mistake(n, "unit_multiplier must be a whole number, 1 or more (got %s)", n.Describe())
				v = 0
			}
			shown.Multiplier = uint32(v)
		},
		"unlimited": func(n *document.Node) { unlimited = r.boolean(n, "unlimited") },
		"name":      func(n *document.Node) { shown.Name = r.optional(n, "name") },
		"replaces": func(n *document.Node) {
			r.items(n, "replaces", func(n *document.Node) {
				seen := r.fields(n, fields{"name": func(n *document.Node) {
					of.replaces = append(of.replaces, r.text(n, "name"))
				}})
				if seen != nil && seen["name"] == nil {
					r.mistake(n, "name is required: add it")
				}
			})
		},
		"hold_time": func(n *document.Node) { lends = r.holdTime(n) },
		"holder":    func(n *document.Node) { holder = r.text(n, "holder") },
		"algorithm": func(n *document.Node) {
			var err error
			native, err = limits.Parse(r.text(n, "algorithm"))
			switch a := native.Algorithm(); {
			case err != nil:
				r.mistake(n, "algorithm: %v", err)
			case a.Delays():
				r.mistake(n, "algorithm: %s is not possible: a request by descriptors waits for none", a)
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
	holds := native.Algorithm().Holds()
	switch {
	case holds && seen["hold_time"] == nil:
		r.mistake(n, "hold_time is required beside %s: how long a request may take at most, such as 10m",
			native.Algorithm())
	case !holds && seen["hold_time"] != nil:
		r.mistake(seen["hold_time"], "hold_time is for limits in flight: write algorithm: concurrent 20, or remove it")
	case !holds && holder != "":
		r.mistake(seen["holder"], "holder is for limits in flight: write algorithm: concurrent 20, or remove it")
	case holder != "" && of.holder() != "" && of.holder() != holder:
		r.mistake(seen["holder"], "holder: a descriptor has one, and another limit says %s",
			document.Quote(of.holder()))
	}
	if shown.Name != "" && slices.Contains(of.replaces, shown.Name) {
		r.mistake(seen["replaces"], "a limit does not replace itself: remove %s",
			document.Quote(shown.Name))
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
		if holds {
			shown.RequestsPerUnit = uint32(native.Burst())
		}
		if holder != "" {
			r.domain.noteHolder(holder)
		}
		of.limits = append(of.limits, limit{
			shown: shown, scope: scopeOf(strconv.Itoa(i), r.domain.name, of.path), native: true, limit: native,
			lends: lends, holder: holder,
		})
	default:
		of.limits = append(of.limits, r.domain.byUnit(shown, i, of.path))
	}
}

// holdTime reads how long a unit of a limit in flight is held at most.
func (r *reader) holdTime(n *document.Node) time.Duration {
	d, err := time.ParseDuration(n.Text)
	if err != nil || n.Kind != document.Scalar || d < minHold || d > maxHold {
		r.mistake(n, "hold_time must be 1s to 24h, such as 10m (got %s)", n.Describe())
		return minHold
	}
	return d
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
func (r *reader) metadata(n *document.Node) map[string]any {
	if n.Kind != document.Map {
		r.mistake(n, "metadata must be a map (got %s)", n.Describe())
		return nil
	}
	m, _ := r.value(n).(map[string]any)
	return m
}

// value returns a value of metadata: a map, list, text, number, boolean or nil.
func (r *reader) value(n *document.Node) any {
	switch n.Kind {
	case document.Map:
		m := make(map[string]any)
		for _, e := range n.Entries {
			name := e.Name
			if _, twice := m[name.Text]; twice || name.Kind != document.Scalar {
				r.mistake(name, "metadata: %s must be a name that is not there twice", name.Describe())
			}
			m[name.Text] = r.value(e.Value)
		}
		return m
	case document.List:
		list := make([]any, 0, len(n.Items))
		for _, item := range n.Items {
			list = append(list, r.value(item))
		}
		return list
	}
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Text, "true")
	case "!!int", "!!float":
		if v, err := strconv.ParseFloat(strings.ReplaceAll(n.Text, "_", ""), 64); err == nil {
			return v
		}
	}
	return n.Text
}

// form is that of a file of limits. Files for envoyproxy/ratelimit may have tags.
var form = document.Form{MaxDepth: maxDepth, Empty: "domain and descriptors", Tags: true}

// parse returns the root of a file, nil if it cannot be read.
func (r *reader) parse(f File) *document.Node {
	r.file, r.path = f.Name, ""
	if len(f.Text) > maxFile {
		r.mistake(nil, "a file of limits has at most %d bytes (got %d)", maxFile, len(f.Text))
		return nil
	}
	root, found := form.Parse(f.Text)
	for _, m := range found {
		if m.Syntax {
			m.Text = "not YAML: " + m.Text
		}
		r.mistakes = append(r.mistakes,
			&policy.Mistake{File: r.file, Line: m.Line, Column: m.Column, Text: m.Text})
	}
	return root
}

// fields says how to read the fields of a map.
type fields map[string]func(*document.Node)

// fields reads a map, and returns the values of the fields that it has.
func (r *reader) fields(n *document.Node, of fields) (seen map[string]*document.Node) {
	if n.Kind != document.Map {
		r.mistake(n, "must be a map with the fields %s (got %s)", of.names(), n.Describe())
		return nil
	}
	seen = make(map[string]*document.Node)
	for _, e := range n.Entries {
		name, value := e.Name, e.Value
		read := of[name.Text]
		switch {
		case name.Kind != document.Scalar || read == nil:
			r.mistake(name, "there is no field %s: the fields are %s", name.Describe(), of.names())
		case seen[name.Text] != nil:
			r.mistake(name, "%s is here twice, also in line %d: remove one", name.Text, seen[name.Text].Line)
		case value.IsNull():
			r.mistake(name, "%s has no value: write one or remove the field", name.Text)
			seen[name.Text] = value
		default:
			seen[name.Text] = value
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

// text returns a scalar as it is written, since 010 is a text, too.
func (r *reader) text(n *document.Node, field string) string {
	if n.Kind != document.Scalar || n.Text == "" {
		r.mistake(n, "%s must be a text that is not empty (got %s)", field, n.Describe())
		return ""
	}
	return n.Text
}

// optional is text where "" means the same as no field: generators of files write it.
func (r *reader) optional(n *document.Node, field string) string {
	if n.Kind == document.Scalar && n.Text == "" {
		return ""
	}
	return r.text(n, field)
}

func (r *reader) boolean(n *document.Node, field string) bool {
	isTrue := strings.EqualFold(n.Text, "true")
	if n.Kind != document.Scalar || n.Tag != "!!bool" || !isTrue && !strings.EqualFold(n.Text, "false") {
		r.mistake(n, "%s must be true or false (got %s)", field, n.Describe())
		return false
	}
	return isTrue
}

func (r *reader) choice(n *document.Node, field string, words []string) int {
	i := slices.Index(words, strings.ToLower(n.Text))
	if n.Kind != document.Scalar || i < 0 {
		last := len(words) - 1
		r.mistake(n, "%s must be %s or %s (got %s)",
			field, strings.Join(words[:last], ", "), words[last], n.Describe())
		return 0
	}
	return i
}

// items calls read with each item of a list.
func (r *reader) items(n *document.Node, field string, read func(*document.Node)) {
	if n.Kind != document.List {
		r.mistake(n, "%s must be a list (got %s)", field, n.Describe())
		return
	}
	for _, item := range n.Items {
		read(item)
	}
}
