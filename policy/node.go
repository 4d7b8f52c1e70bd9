package policy

import (
	"errors"
	"strconv"
	"strings"
)

// node is a value of the file with its place. The rest of the package reads nodes; only yaml.go
// knows YAML.
type node struct {
	kind         nodeKind
	text         string  // scalar only
	plain        bool    // scalar without quotes
	items        []*node // list only
	entries      []entry // map only, in the order of the file
	line, column int
}

type entry struct{ name, value *node }

type nodeKind uint8

const (
	scalar nodeKind = iota
	list
	mapping
)

// isNull reports whether n is null or a field without a value.
func (n *node) isNull() bool {
	if n.kind != scalar || !n.plain {
		return false
	}
	switch n.text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// isNumberOrBoolean reports whether YAML or JSON read n as a number or a boolean. Other programs
// may change such texts: 010 becomes 8.
func (n *node) isNumberOrBoolean() bool {
	if n.kind != scalar || !n.plain {
		return false
	}
	switch strings.ToLower(n.text) {
	case "true", "false", ".inf", "-.inf", "+.inf", ".nan":
		return true
	}
	text := strings.TrimPrefix(strings.ToLower(strings.TrimLeft(n.text, "+-")), "0o")
	if text == "" || !strings.ContainsAny(text[:1], ".0123456789") || strings.Contains(text, "_") {
		return false
	}
	_, intErr := strconv.ParseInt(text, 0, 64)
	_, floatErr := strconv.ParseFloat(text, 64)
	return intErr == nil || floatErr == nil || errors.Is(intErr, strconv.ErrRange) ||
		errors.Is(floatErr, strconv.ErrRange)
}

// describe returns n in words, for errors. It quotes the text of scalars.
func (n *node) describe() string {
	switch {
	case n.kind == list:
		return "a list"
	case n.kind == mapping && len(n.entries) == 0:
		return "an empty map"
	case n.kind == mapping:
		return "a map"
	case n.isNull():
		return "nothing"
	}
	return quote(n.text)
}

// quote returns a text of the file as errors show it.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
