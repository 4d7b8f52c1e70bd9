package main

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/policy"
)

// finding is one thing that check has to say of a file.
type finding struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // from 1; 0: the file as a whole
	Column int    `json:"column,omitempty"`
	Kind   kind   `json:"kind"`
	Case   string `json:"case,omitempty"` // which fails
	Rule   string `json:"rule,omitempty"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
}

// kind is what a finding is: a mistake in a file, a warning, or a case that fails.
type kind string

const (
	mistake kind = "mistake"
	warning kind = "warning"
	failure kind = "failure"
)

// findingOf returns what package policy says as a finding.
func findingOf(k kind, m *policy.Mistake) finding {
	return finding{File: m.File, Line: m.Line, Column: m.Column, Kind: k, Rule: m.Rule, Field: m.Field, Text: m.Text}
}

// String returns the finding as one line, in the form that editors understand.
func (f finding) String() string {
	m := policy.Mistake{File: f.File, Line: f.Line, Column: f.Column, Rule: f.Rule, Field: f.Field, Text: f.Text}
	line := m.Error()
	if f.Kind == mistake {
		return line
	}
	m = policy.Mistake{File: f.File, Line: f.Line, Column: f.Column}
	place := m.Error() // file:line:column: and a blank
	if f.Case != "" {
		return place + fmt.Sprintf("%s: %s: ", f.Kind, f.Case) + strings.TrimPrefix(line, place)
	}
	return place + fmt.Sprintf("%s: ", f.Kind) + strings.TrimPrefix(line, place)
}
