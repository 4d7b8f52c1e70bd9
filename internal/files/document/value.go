package document

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// Of returns a value as nodes without places, with fields in the order of their names. The value has
// the types that encoding/json decodes into an any, or numbers of other types. root is nil if it has
// a value of another type, or if lists and maps are more than maxDepth deep.
func Of(value any, maxDepth int) (root *Node, mistakes []Mistake) {
	v := valuer{maxDepth: maxDepth}
	root = v.node(value, 0)
	if v.mistakes != nil {
		return nil, v.mistakes[:1]
	}
	return root, nil
}

// valuer reads one value.
type valuer struct {
	maxDepth int
	mistakes []Mistake
}

// node returns a value inside so many lists and maps.
func (v *valuer) node(value any, depth int) *Node {
	if depth > v.maxDepth {
		v.mistakes = append(v.mistakes, Mistake{Text: tooDeep(v.maxDepth)})
		return &Node{}
	}
	switch value := value.(type) {
	case map[string]any:
		n := &Node{Kind: Map}
		for name, field := range value {
			n.Entries = append(n.Entries, Entry{text(name), v.node(field, depth+1)})
		}
		slices.SortFunc(n.Entries, func(a, b Entry) int { return cmp.Compare(a.Name.Text, b.Name.Text) })
		return n
	case []any:
		n := &Node{Kind: List}
		for _, item := range value {
			n.Items = append(n.Items, v.node(item, depth+1))
		}
		return n
	case nil:
		return &Node{Tag: "!!null", Plain: true}
	}
	switch of := reflect.ValueOf(value); {
	case of.Kind() == reflect.String:
		return text(of.String())
	case of.Kind() == reflect.Bool:
		return &Node{Text: fmt.Sprint(value), Tag: "!!bool", Plain: true}
	case of.CanFloat():
		return &Node{Text: strconv.FormatFloat(of.Float(), 'f', -1, 64), Tag: "!!float", Plain: true}
	case of.CanInt(), of.CanUint():
		return &Node{Text: fmt.Sprint(value), Tag: "!!int", Plain: true}
	}
	v.mistakes = append(v.mistakes, Mistake{Text: fmt.Sprintf("a %T is no value of a document", value)})
	return &Node{}
}

func text(s string) *Node { return &Node{Text: s, Tag: "!!str"} }
