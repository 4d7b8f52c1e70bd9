package document

import (
	"bytes"
	"unicode/utf8"
)

// placeOf returns the place of a mistake that the YAML library reports without one; zeros if
// unknown.
func placeOf(why string, text []byte) (line, column int) {
	if why == oneDocument {
		return placeOfSecond(text)
	}
	return placeOfNoText(text)
}

// placeOfSecond returns where a second document begins.
func placeOfSecond(text []byte) (line, column int) {
	begun, ended := false, false
	for l := range bytes.Lines(text) {
		line++
		l = bytes.TrimRight(l, " \t\r\n")
		switch {
		case len(l) == 0 || l[0] == '#' || l[0] == '%' && !begun:
		case begun && (ended || string(l) == "---" || bytes.HasPrefix(l, []byte("--- "))):
			return line, 1
		default:
			begun, ended = true, string(l) == "..."
		}
	}
	return 0, 0
}

// placeOfNoText returns the place of the first byte that is not UTF-8 text; zeros if none.
// The library does not report it.
func placeOfNoText(text []byte) (line, column int) {
	line, column = 1, 1
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		switch {
		case c == utf8.RuneError && size == 1, c < ' ' && c != '\t' && c != '\n' &&
			c != '\r', c == 0x7f, 0x80 <= c && c < 0xa0 && c != 0x85:
			return line, column
		case c == '\n':
			line, column = line+1, 0
		}
		text = text[size:]
		column++
	}
	return 0, 0
}
