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
	{"slo", false, func(d *decoder, n *node, s *shedding) { s.slo = readSLO(d, n) }},
	{"mode", false, func(d *decoder, n *node, s *shedding) { s.mode = readWholeMode(d, n) }},
	{"max-in-flight", false, func(d *decoder, n *node, s *shedding) {
		s.maxInFlight = int(d.number(n, 1, maxInFlight))
	}},
	{"exempt", false, func(d *decoder, n *node, s *shedding) {
		s.exempt = readConditions(d, n, nil, (*condition).readPattern)
	}},
	{"classes", false, func(d *decoder, n *node, s *shedding) { s.classes = readClasses(d, n) }},
}}

var shedClassObject = object[shedClass]{"shedClass", []field[shedClass]{
	{"name", true, func(d *decoder, n *node, c *shedClass) { c.name = d.name(n) }},
	{"match", false, func(d *decoder, n *node, c *shedClass) {
		c.match = readConditions(d, n, nil, (*condition).readPattern)
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

func readShed(d *decoder, n *node) *shedding {
	s := &shedding{at: n}
	readObject(d, &shedObject, n, s)
	if s.maxInFlight == 1 &&
		shareOfLast(s.classes) < shareOfLast(s.classes[:min(1, len(s.classes))]) {
		d.mistake(n, "max-in-flight must be at least 2 with these classes, as the last "+
			"place is for the first of them (got 1)")
	}
	return s
}

func readSLO(d *decoder, n *node) time.Duration {
	slo, err := time.ParseDuration(n.Text)
	if n.Kind != scalar || err != nil || slo < minSLO || slo > maxSLO {
		d.mistake(n, "must be a duration such as 300ms, %v to %v (got %s)", minSLO, maxSLO,
			n.Describe())
		return 0
	}
	return slo
}

// readWholeMode reads a mode that applies to all requests.
func readWholeMode(d *decoder, n *node) core.Mode {
	m := d.mode(n)
	if m != core.Enforce && m != core.Shadow && m != core.Disabled {
		d.mistake(n, "must be enforce, shadow or disabled: a share of the keys is for rules "+
			"(got %s)", quote(n.Text))
	}
	return m
}

// readClasses reads the classes. Every class except the last must have conditions.
func readClasses(d *decoder, n *node) (classes []*shedClass) {
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
				other.Line)
		}
		names[c.name] = c.at
		last := i == len(classes)-1
		if len(c.match) == 0 && !last && c.at.Kind == mapping {
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

// shedOptions returns the options of a shedder for s, which may be nil.
func shedOptions[R any](s *shedding, p places[R]) shed.Options[R] {
	if s == nil {
		return shed.Options[R]{Mode: core.Disabled}
	}
	classes := s.classes
	options := shed.Options[R]{
		SLO: s.slo, MaxInFlight: s.maxInFlight, Classes: optionsOf(classes), Mode: s.mode,
	}
	if len(classes) > 1 {
		options.Classify = func(r R) int {
			for i, c := range classes {
				if p.except(c.match, r) {
					return i
				}
			}
			return len(classes) - 1
		}
	}
	if exempt := s.exempt; len(exempt) > 0 {
		options.Exempt = func(r R) bool { return p.except(exempt, r) }
	}
	return options
}

// conditions returns all conditions of s, which may be nil.
func (s *shedding) conditions() (all []condition) {
	if s == nil {
		return nil
	}
	all = append(all, s.exempt...)
	for _, c := range s.classes {
		all = append(all, c.match...)
	}
	return all
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
