package document

import (
	"errors"
	"strconv"
	"strings"
)

// Node is a value of a document with its place.
type Node struct {
	Kind         Kind
	Text         string  // scalar only
	Tag          string  // scalar only: what YAML takes it for, such as "!!int"
	Plain        bool    // scalar without quotes
	Items        []*Node // list only
	Entries      []Entry // map only, in the order of the document
	Line, Column int
}

// Entry is a field of a map.
type Entry struct{ Name, Value *Node }

// Kind is what a node is.
type Kind uint8

// The kinds.
const (
	Scalar Kind = iota
	List
	Map
)

// IsNull reports whether n is null or a field without a value.
func (n *Node) IsNull() bool {
	if n.Kind != Scalar || !n.Plain {
		return false
	}
	switch n.Text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// IsNumberOrBoolean reports whether YAML or JSON read n as a number or a boolean. Other programs
// may change such texts: 010 becomes 8.
func (n *Node) IsNumberOrBoolean() bool {
	if n.Kind != Scalar || !n.Plain {
		return false
	}
	switch strings.ToLower(n.Text) {
	case "true", "false", ".inf", "-.inf", "+.inf", ".nan":
		return true
	}
	text := strings.TrimPrefix(strings.ToLower(strings.TrimLeft(n.Text, "+-")), "0o")
	if text == "" || !strings.ContainsAny(text[:1], ".0123456789") || strings.Contains(text, "_") {
		return false
	}
	_, intErr := strconv.ParseInt(text, 0, 64)
	_, floatErr := strconv.ParseFloat(text, 64)
	return intErr == nil || floatErr == nil || errors.Is(intErr, strconv.ErrRange) ||
		errors.Is(floatErr, strconv.ErrRange)
}

// Describe returns n in words, for errors. It quotes the text of scalars.
func (n *Node) Describe() string {
	switch {
	case n.Kind == List:
		return "a list"
	case n.Kind == Map && len(n.Entries) == 0:
		return "an empty map"
	case n.Kind == Map:
		return "a map"
	case n.IsNull():
		return "nothing"
	}
	return Quote(n.Text)
}

// Quote returns a text of a document as errors show it.
func Quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
