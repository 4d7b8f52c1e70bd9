package descriptors

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/limits"
)

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

// isBy reports whether of has a limit by the unit of l, which counts in its window.
func (of *rule) isBy(l *Limit) bool { return of.by(l.window()) != nil }

// by returns the limit of of that counts in a window such as "minute", or nil.
func (of *rule) by(window string) *limit {
	for i := range of.limits {
		if l := &of.limits[i]; !l.native && l.shown.window() == window {
			return l
		}
	}
	return nil
}

// window returns what a limit by unit is by, such as "minute" or "10minute".
func (l *Limit) window() string {
	if l.Multiplier <= 1 {
		return l.Unit.String()
	}
	return strconv.FormatUint(uint64(l.Multiplier), 10) + l.Unit.String()
}

// byUnit returns the i-th limit of a rule by unit. path is that of the rule.
func (d *domain) byUnit(shown Limit, i int, path string) limit {
	l := limit{shown: shown, scope: scopeOf(shown.window(), d.name, path)}
	l.limit = windowOf(shown.Unit, shown.Multiplier)
	if d.allOrNothing {
		l.native, l.scope = true, scopeOf(fmt.Sprintf("%d.%s", i, shown.window()), d.name, path)
		l.limit = l.limit.WithUnits(max(1, int64(shown.RequestsPerUnit))) // setCosts knows of 0
	}
	return l
}

// scopeOf returns the scope of a limit. A rule shares it with one in 4,096 others, so that a flood
// of values under one rule displaces keys of hardly another: scopes share a full store evenly.
// Rules of one scope do not count together, since keys have all entries. A Memory has room for
// 65,535 limits, so not each of 100,000 rules can have a scope.
func scopeOf(window, domain, path string) string {
	h := fnv.New32a()
	io.WriteString(h, path)
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	n := h.Sum32()
	return fmt.Sprintf("rls:%s:%s:%c%c", window, domain, letters[n>>6&63], letters[n&63])
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
