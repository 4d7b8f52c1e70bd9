package accesslog

import "bytes"

// maxLine is the maximal length of a line. A longer line is counted and skipped.
const maxLine = 1 << 18

// trim removes white space and zeros around a line. A log that was truncated while a server wrote
// it begins with zeros.
func trim(line []byte) []byte {
	return bytes.TrimLeft(bytes.TrimRight(bytes.TrimPrefix(line, []byte("\ufeff")), "\r\n"),
		" \x00")
}

// unwrap removes the text that other programs add around a server's line: the quotes of a CSV
// column, an object of Docker's json-file, and the prefixes of CRI, syslog, docker compose and
// kubectl. It returns any other line unchanged. Each line is unwrapped on its own, so wrapped lines
// may be mixed with others.
func unwrap(line []byte) []byte {
	for range maxWraps {
		inner := unwrapOnce(line)
		if len(inner) == len(line) {
			break
		}
		line = inner
	}
	return line
}

// maxWraps is the maximal number of wrappings of a line: docker compose adds a coloured prefix, and
// Docker an object around it.
const maxWraps = 6

func unwrapOnce(line []byte) []byte {
	if len(line) < 2 {
		return line
	}
	switch c := line[0]; {
	case c == '{':
		return unwrapDocker(bytes.TrimSuffix(line, []byte{','})) // an element of an array
	case c == '"':
		return unquoteLine(line)
	case c == '\x1b':
		if end := bytes.IndexByte(line, 'm'); line[1] == '[' && end > 0 && end < 20 {
			return line[end+1:] // a colour
		}
		return line
	case c == '<': // priority of syslog
		if end := bytes.IndexByte(line, '>'); end > 1 && end <= 4 && isDigits(line[1:end]) {
			return line[end+1:]
		}
		return line
	case bytes.HasPrefix(line, []byte("[pod/")):
		if _, rest, ok := bytes.Cut(line, []byte("] ")); ok {
			return rest
		}
		return line
	case '0' <= c && c <= '9' && isISO(line):
		_, rest, _ := cutSpace(line)
		// CRI; P marks a partial line
		for _, stream := range []string{"stdout F ", "stderr F ", "stdout P ", "stderr P "} {
			if inner, ok := bytes.CutPrefix(rest, []byte(stream)); ok {
				return inner
			}
		}
		return cutTag(rest, rest)
	case len(line) > len("Feb 24 12:00:59 ") && line[3] == ' ' && line[6] == ' ' &&
		line[9] == ':' && line[12] == ':' && line[15] == ' ':
		return cutTag(line[16:], line)
	}
	return cutCompose(line)
}

// unwrapDocker returns the log text of an object such as
// {"log":"…\n","stream":"stdout","time":"…"}.
func unwrapDocker(line []byte) []byte {
	value, ok := bytes.CutPrefix(line, []byte(`{"log":`))
	if !ok {
		return line
	}
	text, rest, ok := quotedText(value)
	if !ok || !bytes.HasPrefix(rest, []byte(`,"stream":"`)) {
		return line
	}
	return bytes.TrimRight(text, "\r\n")
}

// unquoteLine removes the quotes around a line. Quotes inside are escaped by a backslash, doubled
// as in CSV, or unescaped.
func unquoteLine(line []byte) []byte {
	if text, rest, ok := quotedText(line); ok && len(rest) == 0 {
		return text
	}
	inner, closed := bytes.CutSuffix(line[1:], []byte{'"'})
	if doubled := bytes.Count(inner, []byte(`""`)); closed && doubled > 0 &&
		bytes.Count(inner, []byte{'"'}) == 2*doubled {
		return bytes.ReplaceAll(inner, []byte(`""`), []byte{'"'})
	}
	return line[1:] // OpenLiteSpeed never closes the quote
}

// isISO reports whether line begins with a time such as 2024-02-24T12:00:59Z and a space.
func isISO(line []byte) bool {
	return len(line) > len("2024-02-24T12:00:59 ") && line[4] == '-' && line[7] == '-' &&
		line[10] == 'T' && line[13] == ':' && line[16] == ':' &&
		isDigits(line[:4]) && bytes.IndexByte(line, ' ') >= 19
}

// cutTag returns the text after the host and tag of syslog, as in web1 nginx[12]: …, or otherwise
// if line has none.
func cutTag(line, otherwise []byte) []byte {
	_, rest, _ := cutSpace(line)
	tag, rest, ok := cutSpace(rest)
	tag, isTag := bytes.CutSuffix(tag, []byte{':'})
	// an IPv6 address may end in two colons
	if !ok || !isTag || len(tag) == 0 || bytes.IndexByte(tag, ':') >= 0 {
		return otherwise
	}
	return rest
}

// cutCompose removes the prefix of docker compose, as in web-1  | ….
func cutCompose(line []byte) []byte {
	name, rest, ok := cutSpace(line)
	if !ok || len(name) == 0 {
		return line
	}
	if inner, ok := bytes.CutPrefix(bytes.TrimLeft(rest, " "), []byte("| ")); ok {
		return inner
	}
	return line
}

func isDigits(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) > 0
}
