package document_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/files/document"
)

func TestAValueIsTheNodesOfItsDocument(t *testing.T) {
	for _, of := range []string{
		`{"a": [1, "x", true, null, {}], "b": {"c": "2", "d": []}}`, `"010"`, `[12345678]`, `false`,
	} {
		var value any
		if err := json.Unmarshal([]byte(of), &value); err != nil {
			t.Fatal(err)
		}
		form := document.Form{MaxDepth: 4}
		want, _ := form.Parse([]byte(of))
		got, mistakes := document.Of(value, 4)
		if mistakes != nil || shape(got) != shape(want) {
			t.Errorf("%s: got %s, want %s, %v", of, shape(got), shape(want), mistakes)
		}
	}
	got, _ := document.Of([]any{uint32(7), int8(-1), 0.5, float32(2)}, 1)
	if shape(got) != "[7 -1 0.5 2]" {
		t.Error(shape(got))
	}
}

// shape returns a node in words, whatever kind of number its numbers are.
func shape(n *document.Node) string {
	switch {
	case n.Kind == document.Scalar && !n.Plain:
		return "'" + n.Text + "'"
	case n.IsNull():
		return "nothing"
	}
	var all string
	for _, item := range n.Items {
		all += " " + shape(item)
	}
	for _, e := range n.Entries {
		all += " " + e.Name.Text + ":" + shape(e.Value)
	}
	switch n.Kind {
	case document.List:
		return "[" + strings.TrimSpace(all) + "]"
	case document.Map:
		return "{" + strings.TrimSpace(all) + "}"
	}
	return n.Text
}

func TestAValueThatIsNoDocumentIsAMistake(t *testing.T) {
	for _, of := range []struct {
		value any
		want  string
	}{
		{[]any{[]any{[]any{1}}}, "lists and maps are more than 2 deep: write it flatter"},
		{map[string]any{"a": struct{}{}}, "a struct {} is no value of a document"},
	} {
		root, mistakes := document.Of(of.value, 2)
		if root != nil || len(mistakes) != 1 || mistakes[0].Text != of.want {
			t.Errorf("%v: %v, %v", of.value, root, mistakes)
		}
	}
}
