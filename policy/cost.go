package policy

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/core"
)

const maxCost = 1_000_000_000

// cost is the cost of a request: a number, a function of the program, or a list of cases.
type cost struct {
	at    *node // nil: 1
	name  string
	units int64
	cases []*costCase
}

// isZero reports whether every request is free until it ends.
func (c *cost) isZero() bool {
	return c.at != nil && c.name == "" && c.cases == nil && c.units == 0
}

// costCase is one entry of a list of costs. Without conditions it matches every request.
type costCase struct {
	at    *node
	match []condition
	units int64
}

var costObject = object[costCase]{"costCase", []field[costCase]{
	{"match", false, func(d *decoder, n *node, c *costCase) {
		c.match = d.conditions(n, c.match, (*decoder).pattern)
	}},
	{"route", false, func(d *decoder, n *node, c *costCase) {
		c.match = d.conditions(n, c.match, (*decoder).route)
	}},
	{"units", true, func(d *decoder, n *node, c *costCase) { c.units = d.number(n, 0, maxCost) }},
}}

func (d *decoder) cost(n *node) cost {
	c := cost{at: n, units: 1}
	switch {
	case n.kind == list:
		d.list(n, func(item *node) {
			one := &costCase{at: item}
			readObject(d, &costObject, item, one)
			c.cases = append(c.cases, one)
		})
		d.checkCases(c.cases)
	case n.kind == scalar && n.plain && isDigits(n.text):
		c.units = d.number(n, 0, maxCost)
	case n.kind == scalar && isName(n.text):
		c.name = n.text
	default:
		d.mistake(n, "must be a number of units, a cost of the program, or a list such as "+
			"[{match: POST /reports, units: 10}] (got %s)", n.describe())
	}
	return c
}

// checkCases reports cases that no request reaches.
func (d *decoder) checkCases(cases []*costCase) {
	seen := make(map[string]*node)
	for i, c := range cases {
		if len(c.match) == 0 && i < len(cases)-1 {
			d.mistake(c.at, "an entry without match is for every request: move it to the end, "+
				"or add match")
		}
		for _, m := range c.match {
			text := m.text
			if m.pattern == nil {
				text = "route " + text
			}
			if other := seen[text]; other != nil {
				d.mistake(m.at, "%s has a cost already, in line %d: the first one counts, so "+
					"remove one", quote(text), other.line)
				continue
			}
			seen[text] = m.at
		}
	}
}

// finalCost is the cost of a request once its status is known.
type finalCost struct {
	at    *node
	cases []*finalCase // none: the units spent
}

type finalCase struct {
	texts    []string
	statuses [600]bool
	units    int64
}

var finalObject = object[finalCase]{"finalCost", []field[finalCase]{
	{"status", true, func(d *decoder, n *node, c *finalCase) {
		d.each(n, func(item *node) { d.status(item, c) })
	}},
	{"units", true, func(d *decoder, n *node, c *finalCase) { c.units = d.number(n, 0, maxCost) }},
}}

func (d *decoder) finalCost(n *node) *finalCost {
	f := &finalCost{at: n}
	if n.kind == scalar && n.text == "spent" {
		return f
	}
	if n.kind != list {
		d.mistake(n, "must be spent or a list such as [{status: [401, 5xx], units: 1}] (got %s)",
			n.describe())
		return f
	}
	d.list(n, func(item *node) {
		c := &finalCase{}
		readObject(d, &finalObject, item, c)
		f.cases = append(f.cases, c)
	})
	return f
}

// status reads a status such as 401 or a class such as 5xx.
func (d *decoder) status(n *node, c *finalCase) {
	class, isClass := strings.CutSuffix(strings.ToLower(n.text), "xx")
	first, last := 0, 0
	switch {
	case n.kind == scalar && isClass && len(class) == 1 && '1' <= class[0] && class[0] <= '5':
		first = int(class[0]-'0') * 100
		last = first + 99
	case n.kind == scalar && len(n.text) == 3 && isDigits(n.text) && '1' <= n.text[0] &&
		n.text[0] <= '5':
		first = int(n.text[0]-'0')*100 + int(n.text[1]-'0')*10 + int(n.text[2]-'0')
		last = first
	default:
		d.mistake(n, "must be a status such as 401 or a class such as 5xx (got %s)", n.describe())
		return
	}
	for status := first; status <= last; status++ {
		c.statuses[status] = true
	}
	c.texts = append(c.texts, strings.ToLower(n.text))
}

// function returns f as a [core.Rule].FinalCost.
func (f *finalCost) function() func(core.Result) int64 {
	if f == nil {
		return nil
	}
	if len(f.cases) == 0 {
		return core.SpentCost
	}
	cases := f.cases
	return func(result core.Result) int64 {
		// leaving early must not make a request cheaper
		if result.Status == 0 || result.Panicked || result.Left {
			return max(result.Cost, core.SpentCost(result))
		}
		for _, c := range cases {
			if 0 < result.Status && result.Status < len(c.statuses) && c.statuses[result.Status] {
				return c.units
			}
		}
		return core.SpentCost(result)
	}
}

// costOf returns the cost of r: that of the first case that matches, or 1 if none does. If a case
// matches in only some readings of the path, costOf returns the highest cost of all possible
// readings, so that no spelling makes a request cheaper.
func (names Names[R]) costOf(cases []*costCase, r R) int64 {
	highest := int64(0)
	for _, c := range cases {
		if len(c.match) > 0 && !names.matches(c.match, r) {
			continue
		}
		highest = max(highest, c.units)
		if len(c.match) == 0 || names.excepts(c.match, r) {
			return highest
		}
	}
	return max(highest, 1)
}

// describe returns the cost as text.
func (c *cost) describe() string {
	switch {
	case c.at == nil:
		return "1"
	case c.name != "":
		return c.name
	case c.cases == nil:
		return fmt.Sprint(c.units)
	}
	texts := make([]string, len(c.cases))
	for i, one := range c.cases {
		texts[i] = fmt.Sprintf("%s %d", describeConditions(one.match), one.units)
	}
	return strings.Join(texts, "; ")
}

func (f *finalCost) describe() string {
	switch {
	case f == nil:
		return ""
	case len(f.cases) == 0:
		return "spent"
	}
	texts := make([]string, len(f.cases))
	for i, c := range f.cases {
		texts[i] = fmt.Sprintf("status %s %d", strings.Join(c.texts, " "), c.units)
	}
	return strings.Join(texts, "; ")
}

func describeConditions(conditions []condition) string {
	texts := make([]string, len(conditions))
	for i, c := range conditions {
		texts[i] = c.text
		if c.route != "" && !strings.HasPrefix(c.text, "route ") {
			texts[i] = "route " + c.text
		}
	}
	return strings.Join(texts, ", ")
}
