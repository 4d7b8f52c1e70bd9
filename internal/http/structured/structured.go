// Package structured reads structured fields of HTTP by the algorithm of RFC 9651, section 4.2: a
// List, a Dictionary or an Item, with all their types. It allocates nothing, except where a field
// has several lines or a Display String. It passes the test suite of the HTTP working group.
//
//	limits := structured.List(h["Ratelimit"])
//	for limits.Member() {
//		name := limits.Value
//		for limits.Parameter() {
//			// limits.Key, limits.Value
//		}
//	}
//	if limits.Malformed() {
//		// the RFC wants the whole field ignored
//	}
//
// A field is known to be well-formed only after its last member: look at Malformed before anything
// that was read is believed.
package structured

import "strings"

// grammar is one of the three types of a field.
type grammar uint8

const (
	list grammar = iota
	dictionary
	item
)

// Scanner reads the members of a field one by one, and the parameters of each. What a program does
// not ask for is read all the same, since it may be malformed.
type Scanner struct {
	Key   string // of the member of a Dictionary, or of the parameter
	Value Value  // of the member, the item of an Inner List, or the parameter

	rest      string
	grammar   grammar
	inner     bool // an Inner List is open
	unread    bool // it is, and Item was not called
	after     bool // an item or an Inner List was read: parameters may follow
	malformed bool
}

// List returns a Scanner of a List. All lines of a field are one, as RFC 9110, section 5.3, says.
func List(lines []string) Scanner { return Scanner{rest: joined(lines), grammar: list} }

// Dictionary returns a Scanner of a Dictionary. Of members with one key the last counts.
func Dictionary(lines []string) Scanner { return Scanner{rest: joined(lines), grammar: dictionary} }

// Item returns a Scanner of an Item, which is its only member.
func Item(lines []string) Scanner { return Scanner{rest: joined(lines), grammar: item} }

// joined returns the lines of a field as one, without spaces before it.
func joined(lines []string) (s string) {
	switch len(lines) {
	case 0:
	case 1:
		s = lines[0]
	default:
		s = strings.Join(lines, ", ")
	}
	for s != "" && s[0] == ' ' {
		s = s[1:]
	}
	return s
}

// Malformed reports whether what was read so far is no structured field.
func (s *Scanner) Malformed() bool { return s.malformed }

// Member goes on to the next member, and reports whether there is one. Value.Kind is InnerList if
// that is one: then Item reads what is in it.
func (s *Scanner) Member() bool {
	if s.inner || s.rest != "" && s.rest[0] == ';' {
		s.skip()
	}
	switch {
	case s.malformed:
		return false
	case s.after && s.grammar == item:
		s.skipSpaces()
		return s.rest != "" && s.fail()
	case s.after:
		if s.skipBlanks(); s.rest == "" {
			return false
		}
		if s.rest[0] != ',' {
			return s.fail()
		}
		s.rest = s.rest[1:]
		s.skipBlanks()
		if s.rest == "" {
			return s.fail()
		}
	case s.rest == "":
		return s.grammar == item && s.fail()
	}
	s.after = true
	if s.grammar == dictionary {
		if !s.key() {
			return false
		}
		if s.rest == "" || s.rest[0] != '=' {
			s.Value = Value{Kind: Boolean, N: 1}
			return true
		}
		s.rest = s.rest[1:]
	}
	if s.grammar != item && s.rest != "" && s.rest[0] == '(' {
		s.Value, s.rest = Value{Kind: InnerList}, s.rest[1:]
		s.inner, s.unread, s.after = true, true, false
		return true
	}
	return s.bare()
}

// Item goes on to the next item of an Inner List, and reports whether there is one. After the last
// one, Parameter reads those of the list.
func (s *Scanner) Item() bool {
	if !s.inner {
		return false
	}
	s.unread = false
	for s.after && s.Parameter() {
	}
	if s.malformed {
		return false
	}
	before := len(s.rest)
	s.skipSpaces()
	switch {
	case s.rest == "":
		return s.fail()
	case s.rest[0] == ')':
		s.rest, s.inner, s.after = s.rest[1:], false, true
		return false
	case s.after && len(s.rest) == before:
		return s.fail()
	}
	s.after = true
	return s.bare()
}

// Parameter goes on to the next parameter of the member, or of the item that Item has read, and
// reports whether there is one. Of parameters with one key the last counts.
func (s *Scanner) Parameter() bool {
	if s.unread {
		s.skipInner()
	}
	if !s.after || s.rest == "" || s.rest[0] != ';' {
		return false
	}
	s.rest = s.rest[1:]
	s.skipSpaces()
	if !s.key() {
		return false
	}
	if s.rest == "" || s.rest[0] != '=' {
		s.Value = Value{Kind: Boolean, N: 1}
		return true
	}
	s.rest = s.rest[1:]
	return s.bare()
}

// skip reads the rest of the present member.
func (s *Scanner) skip() {
	s.skipInner()
	for s.Parameter() {
	}
}

func (s *Scanner) skipInner() {
	for s.Item() {
	}
}

// fail makes the field malformed. It returns false.
func (s *Scanner) fail() bool {
	s.malformed, s.rest, s.inner, s.unread = true, "", false, false
	return false
}

func (s *Scanner) skipSpaces() {
	for s.rest != "" && s.rest[0] == ' ' {
		s.rest = s.rest[1:]
	}
}

// skipBlanks skips spaces and tabs.
func (s *Scanner) skipBlanks() {
	for s.rest != "" && (s.rest[0] == ' ' || s.rest[0] == '\t') {
		s.rest = s.rest[1:]
	}
}

// key reads a key (section 4.2.3.3).
func (s *Scanner) key() bool {
	if s.rest == "" || classes[s.rest[0]]&keyStart == 0 {
		return s.fail()
	}
	end := 1
	for end < len(s.rest) && classes[s.rest[end]]&inKey != 0 {
		end++
	}
	s.Key, s.rest = s.rest[:end], s.rest[end:]
	return true
}

// bare reads a bare item (section 4.2.3.1).
func (s *Scanner) bare() bool {
	rest, ok := cut(s.rest, &s.Value)
	if s.rest = rest; !ok {
		return s.fail()
	}
	return true
}
