package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
)

// shedding is the shed section of a file.
type shedding struct {
	at          *node
	slo         time.Duration
	mode        core.Mode
	maxInFlight int
	exempt      []condition
	classes     []*shedClass
}

// shedClass is a class of requests.
type shedClass struct {
	at    *node
	name  string
	match []condition
	share int // 0: by position
}

var shedObject = object[shedding]{"shed", []field[shedding]{
	{"slo", false, func(d *decoder, n *node, s *shedding) { s.slo = d.slo(n) }},
	{"mode", false, func(d *decoder, n *node, s *shedding) { s.mode = d.wholeMode(n) }},
	{"max-in-flight", false, func(d *decoder, n *node, s *shedding) {
		s.maxInFlight = int(d.number(n, 1, maxInFlight))
	}},
	{"exempt", false, func(d *decoder, n *node, s *shedding) {
		s.exempt = d.conditions(n, nil, (*decoder).pattern)
	}},
	{"classes", false, func(d *decoder, n *node, s *shedding) { s.classes = d.shedClasses(n) }},
}}

var shedClassObject = object[shedClass]{"shedClass", []field[shedClass]{
	{"name", true, func(d *decoder, n *node, c *shedClass) { c.name = d.name(n) }},
	{"match", false, func(d *decoder, n *node, c *shedClass) {
		c.match = d.conditions(n, nil, (*decoder).pattern)
	}},
	{"share", false, func(d *decoder, n *node, c *shedClass) {
		c.share = int(d.number(n, 1, 100))
	}},
}}

const (
	maxInFlight = 1_000_000
	maxClasses  = 16
	minSLO      = time.Millisecond
	maxSLO      = 10 * time.Minute
)

func (d *decoder) slo(n *node) time.Duration {
	slo, err := time.ParseDuration(n.text)
	if n.kind != scalar || err != nil || slo < minSLO || slo > maxSLO {
		d.mistake(n, "must be a duration such as 300ms, %v to %v (got %s)", minSLO, maxSLO,
			n.describe())
		return 0
	}
	return slo
}

// wholeMode reads a mode that applies to all requests.
func (d *decoder) wholeMode(n *node) core.Mode {
	m := d.mode(n)
	if m != core.Enforce && m != core.Shadow && m != core.Disabled {
		d.mistake(n, "must be enforce, shadow or disabled: a share of the keys is for rules "+
			"(got %s)", quote(n.text))
	}
	return m
}

// shedClasses reads the classes. Every class except the last must have conditions.
func (d *decoder) shedClasses(n *node) (classes []*shedClass) {
	d.list(n, func(item *node) {
		c := &shedClass{at: item}
		readObject(d, &shedClassObject, item, c)
		classes = append(classes, c)
	})
	if len(classes) > maxClasses {
		d.mistake(n, "must be at most %d (got %d)", maxClasses, len(classes))
	}
	names := make(map[string]*node)
	for i, c := range classes {
		if other := names[c.name]; other != nil && c.name != "" {
			d.mistake(c.at, "another class has the name %s, in line %d: rename one", quote(c.name),
				other.line)
		}
		names[c.name] = c.at
		last := i == len(classes)-1
		if len(c.match) == 0 && !last && c.at.kind == mapping {
			d.mistake(c.at, "a class without match is for every request: move it to the end, or "+
				"add match")
		}
		if len(c.match) > 0 && last {
			d.mistake(c.at, "the last class is for all other requests: remove its match")
		}
		if most := shareOfLast(classes[:i]); c.share > most {
			d.mistake(c.at, "share must be at most %d, that of the more important class before "+
				"(got %d)", most, c.share)
		}
	}
	return classes
}

// shareOfLast returns the share of the last class in percent; 100 if none or it has a
// mistake.
func shareOfLast(classes []*shedClass) int {
	s, err := shed.New(shed.Options[int]{Classes: optionsOf(classes)})
	if err != nil || len(classes) == 0 {
		return 100
	}
	return s.State().Classes[len(classes)-1].Share
}

func optionsOf(classes []*shedClass) []shed.Class {
	all := make([]shed.Class, len(classes))
	for i, c := range classes {
		all[i] = shed.Class{Name: c.name, Share: c.share}
	}
	return all
}

// Shed returns the options of a shedder from the shed section of p, and whether p has one. Pass
// them to [shed.New] or to Replace of a shedder; the program may set further fields each time.
// Without a shed section, Mode is [core.Disabled]: removing the section from the file switches the
// shedder off.
//
// A request belongs to the first class that it certainly matches, otherwise to the last class. It
// is exempt only if it certainly matches. No spelling of a path makes a request more important.
func (p *Policy[R]) Shed() (options shed.Options[R], ok bool) {
	s := p.file.shed
	if s == nil {
		return shed.Options[R]{Mode: core.Disabled}, false
	}
	names, classes := p.names, s.classes
	options = shed.Options[R]{
		SLO: s.slo, MaxInFlight: s.maxInFlight, Classes: optionsOf(classes), Mode: s.mode,
	}
	if len(classes) > 1 {
		options.Classify = func(r R) int {
			for i, c := range classes {
				if names.excepts(c.match, r) {
					return i
				}
			}
			return len(classes) - 1
		}
	}
	if exempt := s.exempt; len(exempt) > 0 {
		options.Exempt = func(r R) bool { return names.excepts(exempt, r) }
	}
	return options, true
}

// needsRequest returns the first pattern of s, or nil.
func (s *shedding) needsRequest() *node {
	if s == nil {
		return nil
	}
	if len(s.exempt) > 0 {
		return s.exempt[0].at
	}
	for _, c := range s.classes {
		if len(c.match) > 0 {
			return c.match[0].at
		}
	}
	return nil
}

// describe returns the fields of s in a fixed order.
func (s *shedding) describe() []described {
	if s == nil {
		return []described{
			{"shed.slo", "", ""}, {"shed.mode", "", ""}, {"shed.max-in-flight", "", ""},
			{"shed.exempt", "", ""}, {"shed.classes", "", ""},
		}
	}
	set := func(v any, isSet bool) string {
		if isSet {
			return fmt.Sprint(v)
		}
		return "default"
	}
	classes := make([]string, len(s.classes))
	for i, c := range s.classes {
		classes[i] = c.name
		if c.share != 0 {
			classes[i] += fmt.Sprintf(" %d%%", c.share)
		}
		if len(c.match) > 0 {
			classes[i] += ": " + describeConditions(c.match)
		}
	}
	return []described{
		{"shed.slo", set(s.slo, s.slo != 0), ""},
		{"shed.mode", s.mode.String(), ""},
		{"shed.max-in-flight", set(s.maxInFlight, s.maxInFlight != 0), ""},
		{"shed.exempt", set(describeConditions(s.exempt), len(s.exempt) > 0), ""},
		{"shed.classes", set(strings.Join(classes, "; "), len(classes) > 0), ""},
	}
}
