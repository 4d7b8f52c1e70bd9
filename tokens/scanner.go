package tokens

import (
	"math"
	"slices"

	"github.com/weir-go/weir/internal/ground/arith"
)

// scanner finds the usage in a JSON value of any length. It knows where in the value it is, so a
// usage in a text or deeper in the value does not count. It accepts everything: what is not JSON
// tells nothing.
type scanner struct {
	told  told
	text  bool  // whether to count text
	shown int64 // bytes of text that the value shows

	depth   int
	places  [6]place // of the containers around the next byte; deeper ones are like the last
	name    name     // of the last member
	word    [32]byte // the beginning of the last string; no name that counts is longer
	length  int64    // of the last string
	quoted  bool     // the next byte is in a string
	escaped bool     // behind a backslash
	pending bool     // the last string may be a value
	number  number
	value   int64 // of the number
}

// restart begins another value, and keeps what was told.
func (s *scanner) restart() { *s = scanner{told: s.told, text: s.text} }

// number is the state of a number.
type number uint8

const (
	noNumber number = iota
	inDigits
	behindDigits
	notWhole
)

// told are the largest numbers that were read, each plus one; 0: none. Usages of one stream are
// sums of what came before, so the largest is the newest.
type told [fields]int64

// counted returns t, or nothing if all its numbers are 0: each request has at least a token of
// input, so the server has not counted.
func (t told) counted() told {
	if slices.Max(t[:]) <= 1 {
		return told{}
	}
	return t
}

func (t *told) known(f field) bool { return t[f] > 0 }

// hasInput reports whether the input is known.
func (t *told) hasInput() bool { return t.known(prompt) || t.known(input) }

func (t *told) of(f field) int64 { return max(0, t[f]-1) }

// field is a number of a usage.
type field uint8

const (
	prompt field = iota // all of the input
	input               // of Anthropic: without what was read from or written to a cache
	cached
	cacheRead
	cacheWrite
	output
	reasoning
	total // input and output together
	fields
)

// isDetail reports whether f is a member of the details of a usage.
func (f field) isDetail() bool { return f == cached || f == reasoning }

// place is a container in a JSON value.
type place uint8

const (
	outside  place = iota // of the value
	other                 // nothing in it counts
	top                   // the outermost object
	started               // "message" of Anthropic: its output has only begun
	response              // "response" of OpenAI
	usage
	usageStarted // that of started
	details      // of a usage
	choices
	choice
	delta // what the model has just written
)

// name is a name that counts of a member.
type name uint8

const (
	otherName name = iota
	usageName
	messageName
	responseName
	detailsName
	choicesName
	deltaName
	labelName // in a delta, of what is no text
	firstField
)

// nameOf returns the name that word is, as it is written: servers do not escape these.
func nameOf(word []byte) name {
	switch string(word) {
	case "usage":
		return usageName
	case "message":
		return messageName
	case "response":
		return responseName
	case "prompt_tokens_details", "input_tokens_details",
		"completion_tokens_details", "output_tokens_details":
		return detailsName
	case "choices":
		return choicesName
	case "delta":
		return deltaName
	case "type", "role", "id", "signature":
		return labelName
	case "prompt_tokens":
		return firstField + name(prompt)
	case "input_tokens":
		return firstField + name(input)
	case "cached_tokens":
		return firstField + name(cached)
	case "cache_read_input_tokens":
		return firstField + name(cacheRead)
	case "cache_creation_input_tokens":
		return firstField + name(cacheWrite)
	case "completion_tokens", "output_tokens":
		return firstField + name(output)
	case "reasoning_tokens":
		return firstField + name(reasoning)
	case "total_tokens":
		return firstField + name(total)
	}
	return otherName
}

// inner returns the place of an object or array that is the member name of a container at p.
func (p place) inner(name name, isArray bool) place {
	switch {
	case p == delta, name == deltaName && (p == top || p == choice):
		return delta
	case isArray:
		if p == top && name == choicesName {
			return choices
		}
		return other
	case p == outside:
		return top
	case p == choices:
		return choice
	case name == usageName && (p == top || p == response):
		return usage
	case name == usageName && p == started:
		return usageStarted
	case name == messageName && p == top:
		return started
	case name == responseName && p == top:
		return response
	case name == detailsName && p == usage:
		return details
	}
	return other
}

// hasNumbers reports whether numbers at p may be those of a usage.
func (p place) hasNumbers() bool { return p == usage || p == usageStarted || p == details }

// at returns the place of the next byte.
func (s *scanner) at() place { return s.places[min(s.depth, len(s.places)-1)] }

func (s *scanner) read(p []byte) {
	for i := 0; i < len(p); {
		if s.quoted {
			i += s.readString(p[i:])
			continue
		}
		c := p[i]
		i++
		switch c {
		case '"':
			s.quoted, s.pending, s.length = true, false, 0
			s.number = notWhole
		case ':':
			s.name = otherName
			if s.pending && s.length <= int64(len(s.word)) {
				s.name = nameOf(s.word[:s.length])
			}
			s.pending, s.number = false, noNumber
		case '{', '[':
			s.enter(s.at().inner(s.name, c == '['))
		case '}', ']':
			s.endValue()
			s.depth = max(0, s.depth-1)
			s.name, s.number = otherName, notWhole
		case ',':
			s.endValue()
		case ' ', '\t', '\r', '\n':
			if s.number == inDigits {
				s.number = behindDigits
			}
		default:
			s.digit(c)
		}
	}
}

// readString reads the part of p that belongs to a string, and returns its length.
func (s *scanner) readString(p []byte) int {
	end := s.stringEnd(p)
	if s.length < int64(len(s.word)) {
		copy(s.word[s.length:], p[:end])
	}
	s.length += int64(end)
	if end == len(p) {
		return end
	}
	s.quoted, s.pending = false, true
	return end + 1
}

// stringEnd returns the index of the quote that ends the string, or len(p).
func (s *scanner) stringEnd(p []byte) int {
	i := 0
	if s.escaped {
		s.escaped, i = false, 1
	}
	for i < len(p) {
		switch p[i] {
		case '"':
			return i
		case '\\':
			i++
		}
		i++
	}
	s.escaped = i > len(p)
	return len(p)
}

func (s *scanner) enter(p place) {
	s.pending, s.number = false, noNumber
	if s.depth++; s.depth < len(s.places) {
		s.places[s.depth] = p
	}
}

func (s *scanner) digit(c byte) {
	switch {
	case c < '0' || c > '9' || s.number > inDigits:
		s.number = notWhole
	case s.number == noNumber:
		s.number, s.value = inDigits, int64(c-'0')
	default:
		s.value = tenfold(s.value, c)
	}
}

// endValue ends a member or an element.
func (s *scanner) endValue() {
	p := s.at()
	switch {
	case s.pending:
		if s.text && s.name != labelName && p.inner(s.name, false) == delta {
			s.shown = arith.Sum(s.shown, s.length)
		}
	case s.name >= firstField && p.hasNumbers() && (s.number == inDigits || s.number == behindDigits):
		f := field(s.name - firstField)
		if f.isDetail() == (p == details) && (f != output || p != usageStarted) {
			s.told[f] = max(s.told[f], min(s.value, math.MaxInt64-1)+1)
		}
	}
	s.pending, s.number = false, noNumber
}
