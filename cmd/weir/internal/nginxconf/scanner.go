package nginxconf

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// scanner splits a text into tokens, as ngx_conf_read_token does.
type scanner struct {
	text []byte // what is left
	at   Place  // of its first character
}

type token struct {
	Word
	kind tokenKind
}

type tokenKind uint8

const (
	end tokenKind = iota
	word
	semicolon
	opening
	closing
)

// advance moves on by n bytes.
func (s *scanner) advance(n int) {
	for _, c := range string(s.text[:n]) {
		if c == '\n' {
			s.at.Line++
			s.at.Column = 1
		} else {
			s.at.Column++
		}
	}
	s.text = s.text[n:]
}

// next returns the next token, or what is wrong.
func (s *scanner) next() (t token, why string) {
	s.skipBlanks()
	t.Place = s.at
	if len(s.text) == 0 {
		return t, ""
	}
	switch s.text[0] {
	case ';', '{', '}':
		t.kind = map[byte]tokenKind{';': semicolon, '{': opening, '}': closing}[s.text[0]]
		s.advance(1)
		return t, ""
	case '"', '\'':
		return s.quoted()
	}
	t.kind = word
	n := 0
	for n < len(s.text) {
		switch c := s.text[n]; {
		case c == '\\' && n+1 < len(s.text):
			n += 2
			continue
		case c == '$' && n+1 < len(s.text) && s.text[n+1] == '{':
			n += 2
			continue
		case strings.IndexByte(" \t\r\n;{", c) >= 0:
			t.Text = unescape(s.text[:n])
			s.advance(n)
			return t, ""
		}
		n++
	}
	t.Text = unescape(s.text)
	s.advance(len(s.text))
	return t, ""
}

// quoted reads a word in quotes.
func (s *scanner) quoted() (t token, why string) {
	t.kind, t.Place = word, s.at
	quote := s.text[0]
	for n := 1; n < len(s.text); n++ {
		switch s.text[n] {
		case '\\':
			n++
		case quote:
			t.Text = unescape(s.text[1:n])
			s.advance(n + 1)
			if len(s.text) > 0 && bytes.IndexByte([]byte(" \t\r\n;{)"), s.text[0]) < 0 {
				return token{Word: Word{Place: s.at}}, "a blank, ; or { must follow a quote"
			}
			return t, ""
		}
	}
	return t, "the quote does not end"
}

func (s *scanner) skipBlanks() {
	for len(s.text) > 0 {
		switch c := s.text[0]; {
		case c == '#':
			n := bytes.IndexByte(s.text, '\n')
			if n < 0 {
				n = len(s.text)
			}
			s.advance(n)
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			s.advance(1)
		case s.at.Line == 1 && s.at.Column == 1 && bytes.HasPrefix(s.text, []byte("\ufeff")):
			s.text = s.text[utf8.RuneLen('\ufeff'):]
		default:
			return
		}
	}
}

// skipLua skips a block of Lua behind its brace, and reports whether it ends.
func (s *scanner) skipLua() bool {
	depth := 1
	for n := 0; n < len(s.text); n++ {
		switch c := s.text[n]; {
		case c == '"' || c == '\'':
			n = luaQuote(s.text, n)
		case c == '-' && bytes.HasPrefix(s.text[n:], []byte("--")):
			if after := luaLong(s.text, n+2); after > 0 {
				n = after - 1
			} else if line := bytes.IndexByte(s.text[n:], '\n'); line >= 0 {
				n += line
			} else {
				return false
			}
		case c == '[':
			if after := luaLong(s.text, n); after > 0 {
				n = after - 1
			}
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				s.advance(n + 1)
				return true
			}
		}
	}
	return false
}

// luaQuote returns the index of the quote that ends the string at n.
func luaQuote(text []byte, n int) int {
	quote := text[n]
	for n++; n < len(text) && text[n] != quote; n++ {
		if text[n] == '\\' {
			n++
		}
	}
	return n
}

// luaLong returns the index behind the long bracket at n, such as [==[ ... ]==]; 0 without one.
func luaLong(text []byte, n int) int {
	if n >= len(text) || text[n] != '[' {
		return 0
	}
	level := n + 1
	for level < len(text) && text[level] == '=' {
		level++
	}
	if level >= len(text) || text[level] != '[' {
		return 0
	}
	ending := "]" + strings.Repeat("=", level-n-1) + "]"
	if i := bytes.Index(text[level:], []byte(ending)); i >= 0 {
		return level + i + len(ending)
	}
	return 0
}

// unescape returns a word without its escapes. nginx leaves a backslash in front of other
// characters.
func unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' && i+1 < len(raw) {
			if at := strings.IndexByte(`"'\trn`, raw[i+1]); at >= 0 {
				b.WriteByte("\"'\\\t\r\n"[at])
				i++
				continue
			}
		}
		b.WriteByte(raw[i])
	}
	return b.String()
}
