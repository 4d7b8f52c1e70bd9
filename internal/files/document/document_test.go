package document_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/files/document"
)

// text returns a node as the test writes it: scalars with their tags, places left out.
func text(n *document.Node) string {
	var b strings.Builder
	switch n.Kind {
	case document.List:
		for _, item := range n.Items {
			b.WriteString(text(item) + " ")
		}
		return "[" + strings.TrimSpace(b.String()) + "]"
	case document.Map:
		for _, e := range n.Entries {
			b.WriteString(text(e.Name) + ":" + text(e.Value) + " ")
		}
		return "{" + strings.TrimSpace(b.String()) + "}"
	}
	return n.Text + strings.TrimPrefix(n.Tag, "!!")
}

func TestADocumentIsNodesInTheOrderOfTheFile(t *testing.T) {
	form := document.Form{MaxDepth: 4, Empty: "something", Tags: true}
	root, mistakes := form.Parse([]byte("b: [1, x, true]\na: {c: '2', d: }\ne: !!str 3\n"))
	const want = "{bstr:[1int xstr truebool] astr:{cstr:2str dstr:null} estr:3str}"
	if mistakes != nil || text(root) != want {
		t.Errorf("got  %s\nwant %s\n%v", text(root), want, mistakes)
	}
	if c := root.Entries[1].Value.Entries[0]; c.Name.Line != 2 || c.Name.Column != 5 || c.Value.Plain {
		t.Errorf("got %+v", c.Name)
	}
}

func TestWhatADocumentMustNotHaveIsReported(t *testing.T) {
	for of, want := range map[string]string{
		"":                  "0:0 the file is empty: write something",
		"a: &x 1":           "1:4 anchors and aliases are not supported",
		"a: *x":             "1:4 anchors and aliases are not supported",
		"a: !!str 1":        "1:4 tags are not supported",
		"a: 1\n---\nb: 1":   "2:1 a file is one document",
		"[[[[[1]]]]]":       "lists and maps are more than 4 deep: write it flatter",
		"a: b: c":           "1:5 mapping values are not allowed",
		"a: 1\nb: \x01":     "2:4 ",
		"a: 1\nb: \xff\xff": "2:4 the file is not UTF-8",
	} {
		form := document.Form{MaxDepth: 4, Empty: "something"}
		_, mistakes := form.Parse([]byte(of))
		if len(mistakes) == 0 {
			t.Errorf("%q: no mistake", of)
			continue
		}
		m := mistakes[0]
		if got := fmt.Sprintf("%d:%d %s", m.Line, m.Column, m.Text); !strings.Contains(got, want) {
			t.Errorf("%q: got %s, want %s", of, got, want)
		}
	}
}
