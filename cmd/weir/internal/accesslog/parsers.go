package accesslog

import (
	"fmt"
	"slices"
	"strings"
)

// Formats returns the names of all formats.
func Formats() []string {
	names := make([]string, 0, 12)
	for _, kind := range clfKinds {
		names = append(names, kind.name)
	}
	for _, l := range jsonLayouts {
		names = append(names, l.name)
	}
	return append(names, "alb", "cloudfront", "w3c", "jsonl")
}

// NamesFields reports whether Options.Fields may name the fields of a format. Other formats have
// fixed columns.
func NamesFields(format string) bool {
	switch format {
	case "cloudfront", "w3c", "jsonl":
		return true
	}
	return slices.ContainsFunc(jsonLayouts, func(l layout) bool { return l.name == format })
}

// newParsers returns the parsers to try, those with more requirements first, and why one of the
// others cannot be used.
func newParsers(o *Options) (parsers []parser, why, err error) {
	for role := range o.Fields {
		if !isExtra(role) && !slices.Contains(roles, role) {
			return nil, nil,
				fmt.Errorf("there is no field %q: fields are %s, and header.X, key.X, plan.X, "+
					"cost.X", role,
					strings.Join(roles, ", "))
		}
	}
	found := false
	add := func(name string, auto bool, make func() (parser, error)) {
		if o.Format != name && !(auto && (o.Format == "" || o.Format == "auto")) {
			return
		}
		found = true
		p, failed := make()
		if failed != nil {
			why = failed
			return
		}
		parsers = append(parsers, p)
	}
	columns := func() (parser, error) { return &w3c{options: o}, nil }
	add("cloudfront", false, columns)
	add("w3c", true, columns)
	for _, l := range jsonLayouts {
		add(l.name, true, func() (parser, error) { return newJSON(l, o) })
	}
	add("jsonl", false, func() (parser, error) {
		return newJSON(layout{name: "jsonl", atEnd: o.Stamp == AtEnd}, o)
	})
	add("alb", true, func() (parser, error) { return newALB(o) })
	for i := range clfKinds {
		kind := &clfKinds[i]
		add(kind.name, kind.name == "common", func() (parser, error) { return newCLF(kind, o) })
	}
	if !found {
		return nil, nil,
			fmt.Errorf("there is no format %q: formats are auto, %s", o.Format,
				strings.Join(Formats(), ", "))
	}
	if len(parsers) == 0 {
		return nil, nil, why
	}
	return parsers, why, nil
}
