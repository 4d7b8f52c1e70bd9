package descriptors

import (
	"github.com/weir-go/weir/internal/files/document"
	"github.com/weir-go/weir/policy"
)

// Document is a file of limits that another program than YAML has read: its name, for mistakes,
// and its fields, which are those of a [File]. They have the types that encoding/json decodes into
// an any, or numbers of other types.
type Document struct {
	Name   string
	Fields map[string]any
}

// ParseDocuments reads limits as [Parse] does. Without a document it returns a Config without
// limits. Mistakes have no line.
func ParseDocuments(documents ...Document) (*Config, error) {
	r := newReader()
	sources := make([]source, len(documents))
	for i, d := range documents {
		root, found := document.Of(d.Fields, maxDepth)
		for _, m := range found {
			r.mistakes = append(r.mistakes, &policy.Mistake{File: d.Name, Text: m.Text})
		}
		sources[i] = source{d.Name, root}
	}
	return r.readAll(sources)
}
