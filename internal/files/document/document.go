// Package document reads YAML and JSON as nodes with their places, for files that people write. A
// file is one document without anchors, aliases and merge keys, since these hide what a line means.
package document

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Form says what documents there may be.
type Form struct {
	MaxDepth int    // nesting of lists and maps
	Empty    string // what to write into an empty file
	Tags     bool   // explicit tags such as !!str are ignored; false: they are mistakes
}

// Mistake is one thing that has to be changed in a document.
type Mistake struct {
	Line, Column int // from 1; 0: the whole document
	Text         string
	Syntax       bool // Text begins with what the YAML library says
}

// Parse parses text, which is YAML or JSON, into nodes. root is nil if it cannot be read. The
// library reports only the first error of syntax.
func (f *Form) Parse(text []byte) (root *Node, mistakes []Mistake) {
	r := reader{form: f}
	defer func() { // a panic of the library on a hostile file must not end the program
		if v := recover(); v != nil {
			r.mistake(0, 0, "the file cannot be read as YAML")
			root, mistakes = nil, r.mistakes
		}
	}()
	document, ok := r.load(text)
	if !ok {
		return nil, r.mistakes
	}
	root = r.convert(document)
	return root, r.mistakes
}

// reader reads one document.
type reader struct {
	form     *Form
	mistakes []Mistake
}

func (r *reader) mistake(line, column int, text string) {
	r.mistakes = append(r.mistakes, Mistake{Line: line, Column: column, Text: text})
}

// load returns the root of text as the library has it.
func (r *reader) load(text []byte) (root *yaml.Node, ok bool) {
	errDepth := errors.New(tooDeep(r.form.MaxDepth))
	bounds := loaderlimits.New(loaderlimits.DepthFunc(func(depth int, _ *yaml.DepthContext) error {
		if depth > r.form.MaxDepth {
			return errDepth
		}
		return nil
	}))
	var document yaml.Node
	err := yaml.Load(text, &document, yaml.WithPlugin(bounds), yaml.WithUniqueKeys(false))
	switch {
	case err != nil:
		m := describeError(err, errDepth.Error())
		if m.Text == emptyFile {
			m.Text = "the file is empty: write " + r.form.Empty
		}
		if m.Line == 0 {
			m.Line, m.Column = placeOf(m.Text, text)
		}
		r.mistakes = append(r.mistakes, m)
	case document.Kind != yaml.DocumentNode || len(document.Content) != 1:
		r.mistake(0, 0, "the file is empty: write "+r.form.Empty)
	default:
		return document.Content[0], true
	}
	return nil, false
}

func tooDeep(most int) string {
	return fmt.Sprintf("lists and maps are more than %d deep: write it flatter", most)
}

// describeError returns an error of the library as a mistake. deep is that of a document with
// too many levels.
func describeError(err error, deep string) Mistake {
	var one *yaml.LoadError
	var all *yaml.LoadErrors
	if errors.As(err, &all) && len(all.Errors) > 0 {
		one = all.Errors[0]
	}
	if one == nil && !errors.As(err, &one) {
		return Mistake{Text: "not YAML: " + err.Error()}
	}
	m := Mistake{one.Mark.Line, one.Mark.Column, one.Message, true}
	if strings.Contains(err.Error(), deep) {
		m.Text, m.Syntax = deep, false
	}
	for _, hint := range hints {
		if strings.Contains(m.Text, hint.text) ||
			m.Text == "" && strings.Contains(err.Error(), hint.text) {
			if hint.replace {
				m.Text, m.Syntax = hint.hint, false
			} else {
				m.Text += ": " + hint.hint
			}
			break
		}
	}
	return m
}

// hints are the repairs for errors of the library.
var hints = []struct {
	text, hint string
	replace    bool
}{
	{"single document", oneDocument, true},
	{"multiple documents", oneDocument, true},
	{"<document start>", oneDocument, true},
	{"no documents", emptyFile, true},
	{"unknown anchor", noAliases, true},
	{"',' or ']'", "braces in brackets open a map: quote patterns there, as in [\"/users/{id}\"]",
		false},
	{"',' or '}'", "braces in braces open a map: quote patterns there, as in {match: " +
		"\"/users/{id}\"}", false},
	{"cannot start any token", "indent with blanks, not tabs, and quote values that begin with " +
		"@ or `", false},
	{"mapping values are not allowed", "quote values that have a colon and a blank", false},
	{"invalid Unicode character escape code",
		"write the character itself instead of \\ud83d and the like", false},
	{"UTF-8", "the file is not UTF-8: save it as UTF-8", true},
	{"control characters", "the file has control characters: remove them", true},
}

const emptyFile = "the file is empty"

const oneDocument = "a file is one document: remove what follows the first"

const noAliases = "anchors and aliases are not supported: write the value where it belongs"

// convert returns y as nodes, and reports what a document must not have.
func (r *reader) convert(y *yaml.Node) *Node {
	n := &Node{Line: y.Line, Column: y.Column}
	if y.Anchor != "" {
		r.mistake(y.Line, y.Column, noAliases)
	}
	if y.Style&yaml.TaggedStyle != 0 && !r.form.Tags {
		r.mistake(y.Line, y.Column, fmt.Sprintf("tags are not supported: remove %s", Quote(y.Tag)))
	}
	switch y.Kind {
	case yaml.AliasNode:
		r.mistake(y.Line, y.Column, noAliases)
		n.Plain, n.Tag = true, "!!null"
	case yaml.SequenceNode:
		n.Kind = List
		n.Items = make([]*Node, 0, len(y.Content))
		for _, item := range y.Content {
			n.Items = append(n.Items, r.convert(item))
		}
	case yaml.MappingNode:
		n.Kind = Map
		n.Entries = make([]Entry, 0, len(y.Content)/2)
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.Entries = append(n.Entries, Entry{r.convert(y.Content[i]), r.convert(y.Content[i+1])})
		}
	default:
		n.Text, n.Tag = y.Value, y.Tag
		const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle |
			yaml.LiteralStyle | yaml.FoldedStyle
		n.Plain = y.Style&quoted == 0
	}
	return n
}
