package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core"
)

// decoder knows the place in the file and collects mistakes. It reads the values that several parts
// of a file have, such as texts and numbers; a type such as limit reads its own form.
type decoder struct {
	file     string
	rule     string   // name of the current rule
	path     []string // fields that lead to the current one
	mistakes []*Mistake
}

// mistake reports a mistake at n in the current field.
func (d *decoder) mistake(n *node, format string, args ...any) {
	d.mistakes = append(d.mistakes, &Mistake{
		File: d.file, Line: n.Line, Column: n.Column, Rule: d.rule,
		Field: strings.Join(d.path, "."), Text: fmt.Sprintf(format, args...),
	})
}

// in calls read with field added to the path.
func (d *decoder) in(field string, read func()) {
	d.path = append(d.path, field)
	read()
	d.path = d.path[:len(d.path)-1]
}

// object lists the fields that a map of the file may have. A test compares the objects with the
// schema.
type object[T any] struct {
	name   string // in the schema
	fields []field[T]
}

type field[T any] struct {
	name     string
	required bool
	read     func(d *decoder, n *node, into *T)
}

// readObject reads a map by the fields of o.
func readObject[T any](d *decoder, o *object[T], n *node, into *T) {
	if n.Kind != mapping {
		d.mistake(n, "must be a map with the fields %s (got %s)", o.names(), n.Describe())
		return
	}
	var few [24]*node
	seen := few[:len(o.fields)]
	for _, e := range n.Entries {
		i := slices.IndexFunc(o.fields, func(f field[T]) bool {
			return e.Name.Kind == scalar && f.name == e.Name.Text
		})
		if i < 0 {
			d.mistake(e.Name, "%s", o.unknown(e.Name, d.helps()))
			continue
		}
		f := &o.fields[i]
		d.in(f.name, func() {
			switch {
			case seen[i] != nil:
				d.mistake(e.Name, "is here twice, also in line %d: remove one", seen[i].Line)
			case e.Value.IsNull():
				d.mistake(e.Name, "has no value: write one or remove the field")
			default:
				f.read(d, e.Value, into)
			}
		})
		seen[i] = e.Name
	}
	for i, f := range o.fields {
		if f.required && seen[i] == nil {
			d.in(f.name, func() { d.mistake(n, "is required: add it") })
		}
	}
}

// names returns the names of the fields of o, for errors.
func (o *object[T]) names() string {
	names := make([]string, len(o.fields))
	for i, f := range o.fields {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

// unknown returns the error text for a field that o does not have. If helps is true, it suggests
// the field that was meant.
func (o *object[T]) unknown(name *node, helps bool) string {
	if name.Kind == scalar && helps {
		for _, f := range o.fields {
			if isNearly(name.Text, f.name) {
				return fmt.Sprintf("there is no field %s: write %s", quote(name.Text), f.name)
			}
		}
	}
	return fmt.Sprintf("there is no field %s: the fields are %s", name.Describe(), o.names())
}

// helps reports whether the next mistake will be shown, so that a suggestion is worth the time.
func (d *decoder) helps() bool { return len(d.mistakes) < maxShown }

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// isNearly reports whether a misspelling turns one word into the other: different separators or
// case, one letter missing, added or wrong, or two letters swapped.
func isNearly(a, b string) bool {
	a, b = strings.ToLower(separators.Replace(a)), strings.ToLower(separators.Replace(b))
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 || a == "" {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i == len(a) || a[i+1:] == b[i+1:] ||
			i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	}
	return a[i:] == b[i+1:]
}

// text returns the text of a scalar, and reports any other node.
func (d *decoder) text(n *node) (string, bool) {
	if n.Kind != scalar || n.IsNull() {
		d.mistake(n, "must be a text (got %s)", n.Describe())
		return "", false
	}
	if n.Text == "" {
		d.mistake(n, "must not be empty")
		return "", false
	}
	if n.IsNumberOrBoolean() {
		d.mistake(n, "must be a text: write it in quotes (got %s)", n.Text)
		return "", false
	}
	return n.Text, true
}

// texts reads one text or a list of texts.
func (d *decoder) texts(n *node) (texts []string) {
	d.each(n, func(item *node) {
		if text, ok := d.text(item); ok {
			texts = append(texts, text)
		}
	})
	return texts
}

// name reads the name of a rule, a scope or a class.
func (d *decoder) name(n *node) string {
	text, ok := d.text(n)
	if !ok {
		return ""
	}
	if len(text) > 64 ||
		strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
		d.mistake(n, "must have 1 to 64 printable ASCII characters (got %s)", quote(text))
	}
	return text
}

// mode reads a mode such as shadow or enforce 25%.
func (d *decoder) mode(n *node) core.Mode {
	text, ok := d.text(n)
	if !ok {
		return core.Enforce
	}
	m, err := core.ParseMode(text)
	if err != nil {
		d.mistake(n, "must be enforce, shadow, disabled or a share of the keys such as enforce "+
			"25%% (got %s)", quote(text))
	}
	return m
}

// boolean reads true or false.
func (d *decoder) boolean(n *node) bool {
	if n.Kind != scalar || !n.Plain || n.Text != "true" && n.Text != "false" {
		d.mistake(n, "must be true or false (got %s)", n.Describe())
	}
	return n.Text == "true"
}

// number reads a whole number between least and most.
func (d *decoder) number(n *node, least, most int64) int64 {
	if n.Kind == scalar && n.Plain && isDigits(n.Text) {
		if v, err := strconv.ParseInt(n.Text, 10, 64); err == nil && least <= v && v <= most {
			return v
		}
	}
	d.mistake(n, "must be a whole number, %d to %d (got %s)", least, most, n.Describe())
	return least
}

// isDigits reports whether s is a decimal number without leading zeros: programs disagree about
// 010.
func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && (s == "0" || s[0] != '0')
}

// choice reads one of words and returns its index.
func (d *decoder) choice(n *node, words []string) int {
	i := slices.Index(words, n.Text)
	if n.Kind != scalar || i < 0 {
		last := len(words) - 1
		d.mistake(n, "must be %s or %s (got %s)", strings.Join(words[:last], ", "), words[last],
			n.Describe())
		return 0
	}
	return i
}

// each calls read for every item of a list. A scalar or a map counts as a list of one.
func (d *decoder) each(n *node, read func(*node)) {
	if n.Kind != list {
		read(n)
		return
	}
	d.list(n, read)
}

// list calls read for every item of a list, which must not be empty.
func (d *decoder) list(n *node, read func(*node)) {
	if n.Kind != list {
		d.mistake(n, "must be a list (got %s)", n.Describe())
		return
	}
	if len(n.Items) == 0 {
		d.mistake(n, "is an empty list: add something or remove the field")
	}
	for _, item := range n.Items {
		if item.IsNull() {
			d.mistake(item, "has an item without a value: write one or remove it")
			continue
		}
		read(item)
	}
}
