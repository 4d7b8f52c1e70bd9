package main

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/policy"
)

// finding is one result of check about a file.
type finding struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // from 1; 0: the whole file
	Column int    `json:"column,omitempty"`
	Kind   kind   `json:"kind"`
	Case   string `json:"case,omitempty"` // the case that fails
	Rule   string `json:"rule,omitempty"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
}

// kind is a mistake in a file, a warning, or a case that fails.
type kind string

const (
	mistake kind = "mistake"
	warning kind = "warning"
	failure kind = "failure"
)

// findingOf returns a mistake of package policy as a finding.
func findingOf(k kind, m *policy.Mistake) finding {
	return finding{
		File: m.File, Line: m.Line, Column: m.Column, Kind: k, Rule: m.Rule, Field: m.Field,
		Text: m.Text,
	}
}

// String returns the finding as one line in the format that editors parse.
func (f finding) String() string {
	m := policy.Mistake{
		File: f.File, Line: f.Line, Column: f.Column, Rule: f.Rule, Field: f.Field, Text: f.Text,
	}
	line := m.Error()
	if f.Kind == mistake {
		return line
	}
	m = policy.Mistake{File: f.File, Line: f.Line, Column: f.Column}
	place := m.Error() // file:line:column: and a space
	if f.Case != "" {
		return place + fmt.Sprintf("%s: %s: ", f.Kind, f.Case) + strings.TrimPrefix(line, place)
	}
	return place + fmt.Sprintf("%s: ", f.Kind) + strings.TrimPrefix(line, place)
}
