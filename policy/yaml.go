package policy

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	maxSize  = 1 << 20 // bytes of a file
	maxDepth = 32      // nesting of lists and maps
)

var errDepth = fmt.Errorf("lists and maps are more than %d deep: write it flatter", maxDepth)

// parseYAML parses text, which is YAML or JSON, into nodes. A file is one document without aliases,
// anchors, tags and merge keys. The library reports only the first syntax error.
func parseYAML(file string, text []byte) (root *node, mistakes []*Mistake) {
	mistake := func(line, column int, format string, args ...any) {
		mistakes = append(mistakes,
			&Mistake{File: file, Line: line, Column: column, Text: fmt.Sprintf(format, args...)})
	}
	if len(text) > maxSize {
		mistake(0, 0, "a policy file has at most %d bytes (got %d)", maxSize, len(text))
		return nil, mistakes
	}
	defer func() { // a panic of the library on a hostile file must not end the program
		if v := recover(); v != nil {
			mistake(0, 0, "the file cannot be read as YAML")
			root = nil
		}
	}()
	var document yaml.Node
	bounds := loaderlimits.New(loaderlimits.DepthFunc(func(depth int, _ *yaml.DepthContext) error {
		if depth > maxDepth {
			return errDepth
		}
		return nil
	}))
	err := yaml.Load(text, &document, yaml.WithPlugin(bounds), yaml.WithUniqueKeys(false))
	if err != nil {
		line, column, why := describeYAML(err)
		if line == 0 {
			line, column = placeOf(why, text)
		}
		mistake(line, column, "%s", why)
		return nil, mistakes
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		mistake(0, 0, "the file is empty: write version: 1 and rules")
		return nil, mistakes
	}
	return convert(document.Content[0], mistake), mistakes
}

// describeYAML returns place and text of an error of the library.
func describeYAML(err error) (line, column int, text string) {
	var one *yaml.LoadError
	var all *yaml.LoadErrors
	if errors.As(err, &all) && len(all.Errors) > 0 {
		one = all.Errors[0]
	}
	if one == nil && !errors.As(err, &one) {
		return 0, 0, "not YAML: " + err.Error()
	}
	text = one.Message
	if strings.Contains(err.Error(), errDepth.Error()) {
		text = errDepth.Error()
	}
	for _, hint := range hints {
		if strings.Contains(text, hint.text) ||
			text == "" && strings.Contains(err.Error(), hint.text) {
			if hint.replace {
				text = hint.hint
			} else {
				text += ": " + hint.hint
			}
			break
		}
	}
	return one.Mark.Line, one.Mark.Column, text
}

// hints are the repairs for errors of the library.
var hints = []struct {
	text, hint string
	replace    bool
}{
	{"single document", oneDocument, true},
	{"multiple documents", oneDocument, true},
	{"<document start>", oneDocument, true},
	{"no documents", "the file is empty: write version: 1 and rules", true},
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

const oneDocument = "a file is one document: remove what follows the first"

const noAliases = "anchors and aliases are not supported: write the value where it belongs"

// convert returns y as nodes. It reports constructs that a policy file must not have.
func convert(y *yaml.Node, mistake func(line, column int, format string, args ...any)) *node {
	n := &node{line: y.Line, column: y.Column}
	if y.Anchor != "" {
		mistake(y.Line, y.Column, noAliases)
	}
	if y.Style&yaml.TaggedStyle != 0 {
		mistake(y.Line, y.Column, "tags are not supported: remove %s", quote(y.Tag))
	}
	switch y.Kind {
	case yaml.AliasNode:
		mistake(y.Line, y.Column, noAliases)
		n.plain = true
	case yaml.SequenceNode:
		n.kind = list
		n.items = make([]*node, 0, len(y.Content))
		for _, item := range y.Content {
			n.items = append(n.items, convert(item, mistake))
		}
	case yaml.MappingNode:
		n.kind = mapping
		n.entries = make([]entry, 0, len(y.Content)/2)
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.entries = append(n.entries,
				entry{convert(y.Content[i], mistake), convert(y.Content[i+1], mistake)})
		}
	default:
		n.text = y.Value
		const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle |
			yaml.LiteralStyle | yaml.FoldedStyle
		n.plain = y.Style&quoted == 0
	}
	return n
}
