package policy

import (
	"strings"

	"github.com/weir-go/weir/internal/ground/token"
)

// declared is the program section: the names that the file expects the program to supply.
type declared struct{ keys, plans, costs wordSet }

var programObject = object[declared]{"program", []field[declared]{
	{"keys", false, func(d *decoder, n *node, p *declared) { p.keys.read(d, n) }},
	{"plans", false, func(d *decoder, n *node, p *declared) { p.plans.read(d, n) }},
	{"costs", false, func(d *decoder, n *node, p *declared) { p.costs.read(d, n) }},
}}

// wordSet is a set of words, in the order of the file and by text.
type wordSet struct {
	words []word
	at    map[string]*node
}

// word is a text of the file with its place.
type word struct {
	text string
	at   *node
}

// read reads names of functions of the program.
func (s *wordSet) read(d *decoder, n *node) {
	s.at = make(map[string]*node)
	d.list(n, func(item *node) {
		text, ok := d.text(item)
		if !ok {
			return
		}
		other := s.at[text]
		switch {
		case other != nil:
			d.mistake(item, "%s is here twice, also in line %d: remove one", quote(text),
				other.Line)
		case !isName(text):
			d.mistake(item, "a name must have 1 to 40 letters, digits, - and _, and begin with "+
				"a letter (got %s)", quote(text))
		case isReserved(text):
			d.mistake(item, "%s has a meaning of its own: give the function another name",
				quote(text))
		default:
			s.words, s.at[text] = append(s.words, word{text, item}), item
		}
	})
}

// check reports w if s does not have it. kind is the field of s. builtIn are keys that may have
// been meant instead.
func (s *wordSet) check(d *decoder, w word, kind string, builtIn ...string) {
	if s.at[w.text] != nil {
		return
	}
	for i := 0; i < len(s.words) && d.helps(); i++ {
		if known := s.words[i].text; isNearly(known, w.text) {
			d.mistake(w.at, "program.%s has no %s: write %s", kind, quote(w.text), known)
			return
		}
	}
	for _, key := range builtIn {
		if isNearly(key, w.text) && d.helps() {
			d.mistake(w.at, "there is no key %s: write %s", quote(w.text), key)
			return
		}
	}
	d.mistake(w.at, "program.%s has no %s: declare it there if the program supplies it", kind,
		quote(w.text))
}

// texts returns the words of s, in the order of the file.
func (s *wordSet) texts() (texts []string) {
	for _, w := range s.words {
		texts = append(texts, w.text)
	}
	return texts
}

// isWord reports whether s consists of 1 to most letters, digits, - and _.
func isWord(s string, most int) bool {
	return len(s) <= most && token.Is(s) && !strings.ContainsAny(s, "!#$%&'*+.^`|~")
}

// isName reports whether s is a valid name for a function of the program.
func isName(s string) bool {
	return isWord(s, 40) && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z')
}
