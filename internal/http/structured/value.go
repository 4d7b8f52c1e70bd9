package structured

import (
	"strings"
	"unicode/utf8"
)

// Kind is the type of a bare item, or InnerList.
type Kind uint8

// The types of bare items (RFC 9651, section 3.3).
const (
	InnerList Kind = iota
	Integer
	Decimal
	String
	Token
	Bytes
	Boolean
	Date
	DisplayString
)

// Value is a bare item.
type Value struct {
	Kind Kind
	N    int64  // Integer, Date; Decimal in thousandths; Boolean: 1 is true
	Text string // of the others, as it stands in the field, without what delimits it
}

// Characters that a key, a Token or a base64 text consists of.
const (
	digit = 1 << iota
	keyStart
	inKey
	tokenStart
	inToken
	inBase64
	lowerHex
)

var classes = func() (of [256]uint8) {
	for c := range of {
		b := byte(c)
		lower, upper := b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z'
		add := func(is bool, class uint8) {
			if is {
				of[c] |= class
			}
		}
		number := b >= '0' && b <= '9'
		add(number, digit|inKey|inToken|inBase64|lowerHex)
		add(lower, keyStart|inKey|tokenStart|inToken|inBase64)
		add(upper, tokenStart|inToken|inBase64)
		add(b == '*', keyStart|inKey|tokenStart|inToken)
		add(strings.IndexByte("_-.", b) >= 0, inKey|inToken)
		add(strings.IndexByte("!#$%&'+^`|~:/", b) >= 0, inToken)
		add(b == '+' || b == '/', inBase64)
		add(b >= 'a' && b <= 'f', lowerHex)
	}
	return of
}()

// cut cuts a bare item from the beginning of s and sets v to it.
func cut(s string, v *Value) (rest string, ok bool) {
	if s == "" {
		return s, false
	}
	switch c := s[0]; {
	case c == '"':
		return cutString(s, v)
	case c == '-' || classes[c]&digit != 0:
		return cutNumber(s, v)
	case classes[c]&tokenStart != 0:
		end := 1
		for end < len(s) && classes[s[end]]&inToken != 0 {
			end++
		}
		*v = Value{Kind: Token, Text: s[:end]}
		return s[end:], true
	case c == '?':
		if len(s) < 2 || s[1] != '0' && s[1] != '1' {
			return s, false
		}
		*v = Value{Kind: Boolean, N: int64(s[1] - '0')}
		return s[2:], true
	case c == ':':
		return cutBytes(s, v)
	case c == '@':
		rest, ok = cutNumber(s[1:], v)
		ok = ok && v.Kind == Integer
		v.Kind = Date
		return rest, ok
	case c == '%':
		return cutDisplay(s, v)
	}
	return s, false
}

// cutNumber cuts an Integer or a Decimal (section 4.2.4).
func cutNumber(s string, v *Value) (rest string, ok bool) {
	const integerDigits, wholeDigits, decimals = 15, 12, 3
	first := 0
	if s != "" && s[0] == '-' {
		first = 1
	}
	i, n, kind := first, int64(0), Integer
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		if i-first == integerDigits {
			return s, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	if i == first {
		return s, false
	}
	if i < len(s) && s[i] == '.' {
		if i-first > wholeDigits {
			return s, false
		}
		point := i
		for i++; i < len(s) && s[i]-'0' <= 9; i++ {
			if i-point > decimals {
				return s, false
			}
			n = 10*n + int64(s[i]-'0')
		}
		if i == point+1 {
			return s, false
		}
		for digits := i - point; digits <= decimals; digits++ {
			n *= 10
		}
		kind = Decimal
	}
	if first > 0 {
		n = -n
	}
	*v = Value{Kind: kind, N: n}
	return s[i:], true
}

// cutString cuts a String (section 4.2.5). Its Text is escaped: two Strings are equal if their
// texts are, since nothing else than quotes and backslashes may be escaped, and they have to be.
func cutString(s string, v *Value) (rest string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			*v = Value{Kind: String, Text: s[1:i]}
			return s[i+1:], true
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return s, false
			}
		case c < ' ' || c > '~':
			return s, false
		}
	}
	return s, false
}

// cutBytes cuts a Byte Sequence (section 4.2.7). Padding may be missing.
func cutBytes(s string, v *Value) (rest string, ok bool) {
	end := strings.IndexByte(s[1:], ':')
	if end < 0 {
		return s, false
	}
	text := s[1 : 1+end]
	digits := len(text)
	for digits > 0 && text[digits-1] == '=' {
		digits--
	}
	for i := range digits {
		if classes[text[i]]&inBase64 == 0 {
			return s, false
		}
	}
	padding := len(text) - digits
	if digits%4 == 1 || padding > 0 && len(text)%4 != 0 || padding > 2 {
		return s, false
	}
	*v = Value{Kind: Bytes, Text: text}
	return s[end+2:], true
}

// cutDisplay cuts a Display String (section 4.2.10). Its Text is escaped.
func cutDisplay(s string, v *Value) (rest string, ok bool) {
	if len(s) < 2 || s[1] != '"' {
		return s, false
	}
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			*v = Value{Kind: DisplayString, Text: s[2:i]}
			return s[i+1:], utf8.Valid(unescaped(v.Text))
		case c == '%':
			if i+2 >= len(s) || classes[s[i+1]]&lowerHex == 0 || classes[s[i+2]]&lowerHex == 0 {
				return s, false
			}
			i += 2
		case c < ' ' || c > '~':
			return s, false
		}
	}
	return s, false
}

// unescaped returns the bytes of the Text of a Display String.
func unescaped(text string) []byte {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b = append(b, text[i])
			continue
		}
		b = append(b, nibble(text[i+1])<<4|nibble(text[i+2]))
		i += 2
	}
	return b
}

// nibble returns the value of a digit in lower hexadecimal.
func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}
