package policy

import (
	"fmt"
	"slices"
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
		c.match = readConditions(d, n, c.match, (*condition).readPattern)
	}},
	{"route", false, func(d *decoder, n *node, c *costCase) {
		c.match = readConditions(d, n, c.match, (*condition).readRoute)
	}},
	{"units", true, func(d *decoder, n *node, c *costCase) { c.units = d.number(n, 0, maxCost) }},
}}

func (c *cost) read(d *decoder, n *node) {
	c.at, c.units = n, 1
	switch {
	case n.Kind == list:
		d.list(n, func(item *node) {
			one := &costCase{at: item}
			readObject(d, &costObject, item, one)
			c.cases = append(c.cases, one)
		})
		c.checkCases(d)
	case n.Kind == scalar && n.Plain && isDigits(n.Text):
		c.units = d.number(n, 0, maxCost)
	case n.Kind == scalar && isName(n.Text):
		c.name = n.Text
	default:
		d.mistake(n, "must be a number of units, a cost of the program, or a list such as "+
			"[{match: POST /reports, units: 10}] (got %s)", n.Describe())
	}
}

// checkCases reports cases that no request reaches.
func (c *cost) checkCases(d *decoder) {
	seen := make(map[string]*node)
	for i, one := range c.cases {
		if len(one.match) == 0 && i < len(c.cases)-1 {
			d.mistake(one.at, "an entry without match is for every request: move it to the end, "+
				"or add match")
		}
		for _, m := range one.match {
			text := m.text
			if m.pattern == nil {
				text = "route " + text
			}
			if other := seen[text]; other != nil {
				d.mistake(m.at, "%s has a cost already, in line %d: the first one counts, so "+
					"remove one", quote(text), other.Line)
				continue
			}
			seen[text] = m.at
		}
	}
}

// check reports a function that the file does not declare.
func (c *cost) check(d *decoder, declared *wordSet) {
	if c.name != "" {
		declared.check(d, word{c.name, c.at}, "costs")
	}
}

// firstAbove returns the first number of units above most that a request may cost, 0 if none is.
func (c *cost) firstAbove(most int64) int64 {
	for _, one := range c.cases {
		if one.units > most {
			return one.units
		}
	}
	if c.units > most {
		return c.units
	}
	return 0
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

// buildCost returns the cost function of c, or nil if every request costs 1. named has the
// functions of the program.
func buildCost[R any](c *cost, named map[string]func(R) int64, p places[R]) func(R) int64 {
	switch {
	case c.at == nil:
		return nil
	case c.name != "":
		return named[c.name]
	case len(c.cases) > 0:
		cases := c.cases
		return func(r R) int64 { return costOf(cases, p, r) }
	case c.units != 1:
		units := c.units
		return func(R) int64 { return units }
	}
	return nil
}

// costOf returns the cost of r: that of the first case that matches, or 1 if none does. If a case
// matches in only some readings of the path, costOf returns the highest cost of all possible
// readings, so that no spelling makes a request cheaper.
func costOf[R any](cases []*costCase, p places[R], r R) int64 {
	highest := int64(0)
	for _, c := range cases {
		if len(c.match) > 0 && !p.match(c.match, r) {
			continue
		}
		highest = max(highest, c.units)
		if len(c.match) == 0 || p.except(c.match, r) {
			return highest
		}
	}
	return max(highest, 1)
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
		d.each(n, func(item *node) { c.readStatus(d, item) })
	}},
	{"units", true, func(d *decoder, n *node, c *finalCase) { c.units = d.number(n, 0, maxCost) }},
}}

func readFinalCost(d *decoder, n *node) *finalCost {
	f := &finalCost{at: n}
	if n.Kind == scalar && n.Text == "spent" {
		return f
	}
	if n.Kind != list {
		d.mistake(n, "must be spent or a list such as [{status: [401, 5xx], units: 1}] (got %s)",
			n.Describe())
		return f
	}
	d.list(n, func(item *node) {
		c := &finalCase{}
		readObject(d, &finalObject, item, c)
		f.cases = append(f.cases, c)
	})
	return f
}

// readStatus reads a status such as 401 or a class such as 5xx.
func (c *finalCase) readStatus(d *decoder, n *node) {
	class, isClass := strings.CutSuffix(strings.ToLower(n.Text), "xx")
	first, last := 0, 0
	switch {
	case n.Kind == scalar && isClass && len(class) == 1 && '1' <= class[0] && class[0] <= '5':
		first = int(class[0]-'0') * 100
		last = first + 99
	case n.Kind == scalar && len(n.Text) == 3 && isDigits(n.Text) && '1' <= n.Text[0] &&
		n.Text[0] <= '5':
		first = int(n.Text[0]-'0')*100 + int(n.Text[1]-'0')*10 + int(n.Text[2]-'0')
		last = first
	default:
		d.mistake(n, "must be a status such as 401 or a class such as 5xx (got %s)", n.Describe())
		return
	}
	for status := first; status <= last; status++ {
		c.statuses[status] = true
	}
	c.texts = append(c.texts, strings.ToLower(n.Text))
}

// check reports cases that cost nothing, as the request does before.
func (f *finalCost) check(d *decoder, before *cost) {
	if len(f.cases) > 0 && before.isZero() &&
		!slices.ContainsFunc(f.cases, func(c *finalCase) bool { return c.units > 0 }) {
		d.mistake(f.at, "with cost: 0 no status costs anything: add an entry such as "+
			"{status: 401, units: 1}")
	}
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

// describe returns f as text; "" if it is nil.
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
