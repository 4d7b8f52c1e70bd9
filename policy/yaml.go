package policy

import (
	"fmt"

	"github.com/weir-go/weir/internal/files/document"
)

// The package reads nodes, whatever a file is written in.
type (
	node  = document.Node
	entry = document.Entry
)

const (
	scalar  = document.Scalar
	list    = document.List
	mapping = document.Map
)

// quote returns a text of the file as errors show it.
func quote(s string) string { return document.Quote(s) }

const maxSize = 1 << 20 // bytes of a file

var form = document.Form{MaxDepth: 32, Empty: "version: 1 and rules"}

// parseYAML parses text, which is YAML or JSON, into nodes.
func parseYAML(file string, text []byte) (root *node, mistakes []*Mistake) {
	if len(text) > maxSize {
		why := fmt.Sprintf("a policy file has at most %d bytes (got %d)", maxSize, len(text))
		return nil, []*Mistake{{File: file, Text: why}}
	}
	root, found := form.Parse(text)
	for _, m := range found {
		mistakes = append(mistakes, &Mistake{File: file, Line: m.Line, Column: m.Column, Text: m.Text})
	}
	return root, mistakes
}
