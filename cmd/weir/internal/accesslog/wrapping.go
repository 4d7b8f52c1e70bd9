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

// unwrap removes the text that other programs add around a server's line: colours, the quotes of a
// CSV column, an object of Docker's json-file, and the prefixes of CRI, syslog (RFC 3164 and 5424),
// docker compose, kubectl, gunicorn and hypercorn. It returns any other line unchanged. Each line
// is unwrapped on its own, so wrapped lines may be mixed with others.
func unwrap(line []byte) []byte {
	for range maxWraps {
		if bytes.IndexByte(line, '\x1b') >= 0 {
			line = withoutColours(line)
		}
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
	case c == '<': // priority of syslog
		if end := bytes.IndexByte(line, '>'); end > 1 && end <= 4 && isDigits(line[1:end]) {
			return cutSyslog(line[end+1:])
		}
		return line
	case c == '[' && line[1] == '2':
		return cutPython(line)
	case c == '1' && line[1] == ' ':
		return cutSyslog(line)
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
// if line has none. HAProxy writes a tag alone.
func cutTag(line, otherwise []byte) []byte {
	first, rest, ok := cutSpace(line)
	if ok && isTag(first) {
		return rest
	}
	if tag, rest, ok := cutSpace(rest); ok && isTag(tag) {
		return rest
	}
	return otherwise
}

// isTag reports whether s is a tag of syslog. An IPv6 address may end in two colons.
func isTag(s []byte) bool {
	tag, ok := bytes.CutSuffix(s, []byte{':'})
	return ok && len(tag) > 0 && bytes.IndexByte(tag, ':') < 0
}

// cutSyslog returns the message of a line of RFC 5424, without its priority, or another line as it
// is.
//
//	1 2026-02-24T12:00:59.003Z web1 nginx 1234 ACCESS [id a="b"] 192.0.2.7 - - …
func cutSyslog(line []byte) []byte {
	rest, ok := bytes.CutPrefix(line, []byte("1 "))
	if !ok || !isISO(rest) && !bytes.HasPrefix(rest, []byte("- ")) {
		return line
	}
	for range 5 { // time, host, program, process and kind
		if _, rest, ok = cutSpace(rest); !ok {
			return line
		}
	}
	for len(rest) > 0 && rest[0] == '[' {
		if _, rest, ok = cutElement(rest[1:]); !ok {
			return line
		}
	}
	rest = bytes.TrimPrefix(rest, []byte{'-'})
	message, ok := bytes.CutPrefix(rest, []byte{' '})
	if !ok {
		return line
	}
	return bytes.TrimPrefix(message, []byte("\ufeff"))
}

// cutElement cuts structured data at the bracket that ends it, which none in quotes does.
func cutElement(s []byte) (element, rest []byte, ok bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ']':
			if !quoted {
				return s[:i], s[i+1:], true
			}
		}
	}
	return nil, nil, false
}

// cutPython removes what gunicorn and hypercorn write in front, as in
// [2026-11-29 07:51:39 +0000] [11334] [INFO] ….
func cutPython(line []byte) []byte {
	const stamp = "[2006-01-02 15:04:05 -0700] ["
	if len(line) <= len(stamp) || line[11] != ' ' || string(line[len(stamp)-3:len(stamp)]) != "] [" {
		return line
	}
	process, rest, _ := bytes.Cut(line[len(stamp):], []byte("] ["))
	if _, message, ok := bytes.Cut(rest, []byte("] ")); ok && isDigits(process) {
		return message
	}
	return line
}

// withoutColours returns a line without the colours of a terminal.
func withoutColours(line []byte) []byte {
	clean := make([]byte, 0, len(line))
	for {
		before, after, ok := bytes.Cut(line, []byte("\x1b["))
		clean = append(clean, before...)
		if !ok {
			return clean
		}
		n := 0
		for n < len(after) && n < 20 && (after[n] >= '0' && after[n] <= '9' || after[n] == ';') {
			n++
		}
		if n < len(after) && after[n] == 'm' {
			after = after[n+1:]
		} else {
			clean = append(clean, "\x1b["...)
		}
		line = after
	}
}

// cutCompose removes the prefix of docker compose, as in web-1  | ….
func cutCompose(line []byte) []byte {
	name, rest, ok := cutSpace(line)
	if !ok || len(name) == 0 || bytes.IndexByte(name, ':') >= 0 { // Fiber writes 07:51:53 | 200 | …
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
