package accesslog

import "bytes"

// cutLast cuts s at its last space.
func cutLast(s []byte) (before, last []byte) {
	i := bytes.LastIndexByte(s, ' ')
	return s[:max(i, 0)], s[i+1:]
}

// cutSpace cuts s at its first space.
func cutSpace(s []byte) (before, after []byte, ok bool) {
	i := bytes.IndexByte(s, ' ')
	if i < 0 {
		return s, nil, false
	}
	return s[:i], s[i+1:], true
}

// hasBlanks reports whether s has at least two spaces.
func hasBlanks(s []byte) bool {
	_, s, _ = cutSpace(s)
	return bytes.IndexByte(s, ' ') >= 0
}

// cutQuoted returns the quoted text at the start of s, and the rest. A backslash escapes a quote.
func cutQuoted(s []byte) (text, after []byte, ok bool) {
	if len(s) == 0 || s[0] != '"' {
		return nil, nil, false
	}
	from := 1
	for {
		i := bytes.IndexByte(s[from:], '"')
		if i < 0 {
			return nil, nil, false
		}
		end := from + i
		escapes := 0
		for escapes < end-1 && s[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return s[1:end], s[end+1:], true
		}
		from = end + 1
	}
}

// dashless returns s, or "" for a dash.
func dashless(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
