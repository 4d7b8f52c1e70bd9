package accesslog

import (
	"fmt"
	"slices"
	"strings"
)

// format is one row of the table of formats.
type format struct {
	name string
	auto bool // tried unless Options.Format names a format
	free bool // Options.Fields may name any field
	says string
	new  func(*Options) (parser, error)
}

// formats is the table of formats, in the order in which they are tried: of two that fit the same
// lines, the first counts. Each family has its rows in one file.
var formats = slices.Concat(columnFormats, jsonFormats, albFormats, textFormats, clfFormats)

// Formats returns the names of all formats, sorted.
func Formats() []string {
	names := make([]string, len(formats))
	for i := range formats {
		names[i] = formats[i].name
	}
	slices.Sort(names)
	return names
}

// NamesFields reports whether Options.Fields may name any field of a format. Other formats have
// columns of their own names.
func NamesFields(name string) bool {
	return slices.ContainsFunc(formats, func(f format) bool { return f.name == name && f.free })
}

// newParsers returns the parsers to try, and why one of the others cannot be used.
func newParsers(o *Options) (parsers []parser, why, err error) {
	for role := range o.Fields {
		if !isExtra(role) && !slices.Contains(roles, role) {
			return nil, nil,
				fmt.Errorf("there is no field %q: fields are %s, and header.X, key.X, plan.X, "+
					"cost.X", role, strings.Join(roles, ", "))
		}
	}
	if o.Format == "jsonl" && o.Fields["time"] == "" && o.Fields["line"] != "" {
		auto := *o
		auto.Format = "auto"
		o = &auto
	}
	found := false
	for i := range formats {
		f := &formats[i]
		if o.Format != f.name && !(f.auto && o.isAuto()) {
			continue
		}
		found = true
		p, failed := f.new(o)
		if failed != nil {
			if why == nil || f.name == "common" { // the most likely of the formats that are tried
				why = failed
			}
			continue
		}
		parsers = append(parsers, p)
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

// says returns what a reader of a report should know about a format.
func says(name string) string {
	for i := range formats {
		if formats[i].name == name {
			return formats[i].says
		}
	}
	return ""
}
