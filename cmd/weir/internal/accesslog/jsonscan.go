package accesslog

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the nesting of objects that is searched.
const maxDepth = 8

// isJSON reports whether line is one JSON object of any depth.
func isJSON(line []byte) bool { return (&scanner{deeper: 1000}).scan(line) }

// scanner scans one JSON object and keeps the values of wanted paths. encoding/json takes about ten
// times as long.
type scanner struct {
	wanted map[string]int // paths such as request.headers.User-Agent
	values []value        // by index in wanted
	path   []byte
	deeper int // added to maxDepth
	joined int // index of the value whose array is being read, or -1
}

// value is a scalar of a line. It aliases the line unless it was unescaped.
type value struct {
	text  []byte
	known bool // present and not null
	own   bool // text is a copy and may be appended to
}

// want returns the index of path in values.
func (s *scanner) want(path string) int {
	if s.wanted == nil {
		s.wanted = make(map[string]int)
	}
	i, ok := s.wanted[path]
	if !ok {
		i = len(s.values)
		s.wanted[path] = i
		s.values = append(s.values, value{})
	}
	return i
}

// scan reports whether line is one JSON object. It skips unwanted values without checking them.
func (s *scanner) scan(line []byte) bool {
	clear(s.values)
	s.path, s.joined = s.path[:0], -1
	rest, ok := s.object(line, 0)
	return ok && len(bytes.TrimLeft(rest, " \t\r\n")) == 0
}

func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// object reads an object at the start of b, and returns the rest.
func (s *scanner) object(b []byte, depth int) ([]byte, bool) {
	b = space(b)
	if len(b) == 0 || b[0] != '{' || depth > maxDepth+s.deeper {
		return nil, false
	}
	b = space(b[1:])
	if len(b) > 0 && b[0] == '}' {
		return b[1:], true
	}
	base := len(s.path)
	for {
		name, rest, ok := quotedText(space(b))
		if rest = space(rest); !ok || len(rest) == 0 || rest[0] != ':' {
			return nil, false
		}
		s.path = s.path[:base]
		if base > 0 {
			s.path = append(s.path, '.')
		}
		s.path = append(s.path, name...)
		if b, ok = s.value(space(rest[1:]), depth); !ok {
			return nil, false
		}
		s.path = s.path[:base]
		if b = space(b); len(b) == 0 {
			return nil, false
		}
		switch b[0] {
		case '}':
			return b[1:], true
		case ',':
			b = b[1:]
		default:
			return nil, false
		}
	}
}

// value reads a value at the start of b.
func (s *scanner) value(b []byte, depth int) ([]byte, bool) {
	if len(b) == 0 {
		return nil, false
	}
	switch b[0] {
	case '{':
		return s.object(b, depth+1)
	case '[':
		return s.array(b, depth+1)
	case '"':
		text, rest, ok := quotedText(b)
		if ok {
			s.keep(text)
		}
		return rest, ok
	}
	end := 0
	for end < len(b) && strings.IndexByte(" \t\r\n,]}", b[end]) < 0 {
		end++
	}
	word := b[:end]
	switch {
	// nginx writes a missing value as a dash or as nothing
	case string(word) == "null" || string(word) == "-" || end == 0 && b[0] != ']':
	case string(word) == "true" || string(word) == "false" || isJSONNumber(word):
		s.keep(word)
	default:
		return nil, false
	}
	return b[end:], true
}

// array reads an array. Its elements become one value with several lines, since header fields are
// lists in some logs.
func (s *scanner) array(b []byte, depth int) ([]byte, bool) {
	if depth > maxDepth+s.deeper {
		return nil, false
	}
	b = space(b[1:])
	if len(b) > 0 && b[0] == ']' {
		return b[1:], true
	}
	if i, ok := s.wanted[string(s.path)]; ok && !s.values[i].known {
		outer := s.joined
		s.joined = i
		defer func() { s.joined = outer }()
	}
	for {
		var ok bool
		if b, ok = s.value(space(b), depth); !ok {
			return nil, false
		}
		if b = space(b); len(b) == 0 {
			return nil, false
		}
		switch b[0] {
		case ']':
			return b[1:], true
		case ',':
			b = b[1:]
		default:
			return nil, false
		}
	}
}

// keep keeps a value of the current path: its first, or a further element of its array.
func (s *scanner) keep(text []byte) {
	i, ok := s.wanted[string(s.path)]
	switch {
	case !ok:
	case !s.values[i].known:
		s.values[i] = value{text: text, known: true}
	case i == s.joined:
		v := &s.values[i]
		if !v.own { // aliases the line
			v.text, v.own = slices.Clip(v.text), true
		}
		v.text = append(append(v.text, '\n'), text...)
	}
}

func isJSONNumber(s []byte) bool {
	if len(s) == 0 || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	_, err := strconv.ParseFloat(view(s), 64)
	return (err == nil || isRange(err)) && bytes.IndexByte(s, '_') < 0 &&
		!bytes.ContainsAny(s, "xXpP")
}

func isRange(err error) bool {
	number, ok := err.(*strconv.NumError)
	return ok && number.Err == strconv.ErrRange
}

// quotedText returns the unescaped text at the start of b, and the rest.
func quotedText(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	end, escaped := 1, false
	for end < len(b) && b[end] != '"' {
		switch {
		case b[end] == '\\':
			escaped = true
			end++
		case b[end] < ' ':
			return nil, nil, false
		}
		end++
	}
	if end >= len(b) {
		return nil, nil, false
	}
	text, rest = b[1:end], b[end+1:]
	if !escaped {
		return text, rest, true
	}
	text, ok = unescaped(text)
	return text, rest, ok
}

// unescaped unescapes a text as encoding/json does: invalid UTF-8 and lone surrogates become
// U+FFFD. It also accepts escapes such as \x22, which nginx writes unless log_format has
// escape=json.
func unescaped(text []byte) ([]byte, bool) {
	result := make([]byte, 0, len(text))
	for len(text) > 0 {
		if text[0] != '\\' {
			c, n := utf8.DecodeRune(text)
			result, text = utf8.AppendRune(result, c), text[n:]
			continue
		}
		if len(text) < 2 {
			return nil, false
		}
		if i := strings.IndexByte(`"\/bfnrt`, text[1]); i >= 0 {
			result, text = append(result, "\"\\/\b\f\n\r\t"[i]), text[2:]
			continue
		}
		if c, ok := hexEscape(text[1:]); ok {
			result, text = append(result, c), text[4:]
			continue
		}
		c, ok := escapedUnit(text)
		if !ok {
			return nil, false
		}
		text = text[6:]
		if utf16.IsSurrogate(c) {
			second, _ := escapedUnit(text)
			if c = utf16.DecodeRune(c, second); c != utf8.RuneError {
				text = text[6:]
			}
		}
		result = utf8.AppendRune(result, c)
	}
	return result, true
}

// escapedUnit parses an escape such as \u00e9 at the start of text.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' || bytes.ContainsAny(text[2:6], "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}
