package httpsig

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/weir-go/weir/internal/http/structured"
)

// Message is the request that was signed, as its client sees it.
type Message struct {
	Request *http.Request
	Scheme  string // https or http
}

// ErrComponent is the error for a component that the request does not have, or whose value this
// package does not know.
var ErrComponent = errors.New("httpsig: the signature covers what the request does not have")

// length returns the length of the identifier in its canonical form.
func (c *component) length() int {
	n := len(`""`) + len(c.name)
	switch c.part {
	case member:
		n += len(`;key=""`) + len(c.key)
	case query:
		n += len(`;name=""`) + len(c.key)
	case binary:
		n += len(`;bs`)
	}
	return n
}

// appendValue appends the value of a component. It reports false if m does not have it.
func (m *Message) appendValue(b []byte, c *component) ([]byte, bool) {
	if c.name[0] == '@' {
		return m.appendDerived(b, c)
	}
	lines, ok := m.field(c.name)
	if !ok {
		return b, false
	}
	switch c.part {
	case member:
		return appendMember(b, lines, c.key)
	case binary:
		for i, line := range lines {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(b, ':')
			b = base64.StdEncoding.AppendEncode(b, []byte(textproto.TrimString(line)))
			b = append(b, ':')
		}
		return b, true
	}
	for i, line := range lines {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, textproto.TrimString(line)...)
	}
	return b, true
}

// field returns the lines of a field of the request, with those that net/http moves out of its
// header. ok is false if the request lacks the field, or if net/http has lost it.
func (m *Message) field(name string) (lines []string, ok bool) {
	r := m.Request
	switch name {
	case "host":
		return []string{r.Host}, r.Host != ""
	case "content-length":
		return []string{strconv.FormatInt(r.ContentLength, 10)}, r.ContentLength >= 0
	case "transfer-encoding", "trailer":
		return nil, false
	}
	lines, ok = r.Header[textproto.CanonicalMIMEHeaderKey(name)]
	return lines, ok && len(lines) > 0
}

// appendMember appends the canonical text of a member of a Dictionary field (RFC 9421, section
// 2.1.2). It reports false if the field has none of that key or several.
func appendMember(b []byte, lines []string, key string) ([]byte, bool) {
	if size(lines) > maxField {
		return b, false
	}
	found, ok := 0, true
	members := structured.Dictionary(lines)
	for members.Member() {
		if members.Key != key {
			continue
		}
		found++
		if members.Value.Kind == structured.InnerList {
			b = append(b, '(')
			for first := true; members.Item(); first = false {
				if !first {
					b = append(b, ' ')
				}
				b, ok = appendWithParameters(b, &members, ok)
			}
			b = append(b, ')')
		} else {
			b, ok = appendBare(b, members.Value, ok)
		}
		b, ok = appendParameters(b, &members, ok)
	}
	return b, ok && found == 1 && !members.Malformed()
}

// appendWithParameters appends the item that s has read and its parameters. It reports ok, or false
// if their canonical text is not known.
func appendWithParameters(b []byte, s *structured.Scanner, ok bool) ([]byte, bool) {
	b, ok = appendBare(b, s.Value, ok)
	return appendParameters(b, s, ok)
}

func appendParameters(b []byte, s *structured.Scanner, ok bool) ([]byte, bool) {
	var seen keys
	for s.Parameter() {
		ok = seen.add(s.Key) && ok
		b = append(append(b, ';'), s.Key...)
		if s.Value.Kind != structured.Boolean || s.Value.N == 0 {
			b, ok = appendBare(append(b, '='), s.Value, ok)
		}
	}
	return b, ok
}

// appendBare is appendItem for the types that other fields have, too.
func appendBare(b []byte, v structured.Value, ok bool) ([]byte, bool) {
	switch v.Kind {
	case structured.Bytes:
		content, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v.Text, "="))
		b = base64.StdEncoding.AppendEncode(append(b, ':'), content)
		return append(b, ':'), ok && err == nil
	case structured.Date:
		return strconv.AppendInt(append(b, '@'), v.N, 10), ok
	case structured.Decimal:
		return appendDecimal(b, v.N), ok
	}
	b, written := appendItem(b, v) // a Display String is not written
	return b, ok && written
}

// appendDecimal appends a Decimal (RFC 9651, section 4.1.5).
func appendDecimal(b []byte, thousandths int64) []byte {
	if thousandths < 0 {
		b, thousandths = append(b, '-'), -thousandths
	}
	b = append(strconv.AppendInt(b, thousandths/1000, 10), '.')
	rest := thousandths % 1000
	b = append(b, '0'+byte(rest/100))
	if rest %= 100; rest > 0 {
		b = append(b, '0'+byte(rest/10))
		if rest %= 10; rest > 0 {
			b = append(b, '0'+byte(rest))
		}
	}
	return b
}

// appendDerived appends the value of a derived component (RFC 9421, section 2.2).
func (m *Message) appendDerived(b []byte, c *component) ([]byte, bool) {
	r := m.Request
	path, query, hasQuery := m.target()
	switch c.name {
	case "@method":
		if r.Method == "" {
			return append(b, http.MethodGet...), true
		}
		return append(b, r.Method...), true
	case "@authority":
		return append(b, m.Authority()...), r.Host != ""
	case "@scheme":
		return append(b, m.Scheme...), true
	case "@target-uri":
		b = append(append(append(b, m.Scheme...), "://"...), m.Authority()...)
		return appendTarget(b, path, query, hasQuery), r.Host != "" && path[0] == '/'
	case "@request-target":
		if r.RequestURI != "" {
			return append(b, r.RequestURI...), true
		}
		return appendTarget(b, path, query, hasQuery), true
	case "@path":
		return append(b, path...), path[0] == '/'
	case "@query":
		return append(append(b, '?'), query...), true
	case "@query-param":
		return appendQueryParam(b, query, c.key)
	}
	return b, false
}

func appendTarget(b []byte, path, query string, hasQuery bool) []byte {
	b = append(b, path...)
	if hasQuery {
		b = append(append(b, '?'), query...)
	}
	return b
}

// Authority returns the host of the request in lower case, without the default port of its scheme
// (RFC 9421, section 2.2.3).
func (m *Message) Authority() string {
	port := ":443"
	if m.Scheme == "http" {
		port = ":80"
	}
	return strings.ToLower(strings.TrimSuffix(m.Request.Host, port))
}

// target returns the path and the query of the request's target as the client sent them. The path
// is not empty. It is no path if it does not begin with a slash: the target of OPTIONS may be "*".
func (m *Message) target() (path, query string, hasQuery bool) {
	r := m.Request
	path = r.RequestURI
	if path == "" { // the request was not read by a server
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
		hasQuery = r.URL.ForceQuery || query != ""
	} else {
		if path[0] != '/' { // RFC 9112, section 3.2.2: the absolute form
			if _, rest, ok := strings.Cut(path, "://"); ok {
				path = rest[strings.IndexAny(rest+"/", "/?"):]
			}
		}
		path, query, hasQuery = strings.Cut(path, "?")
	}
	if path == "" {
		path = "/"
	}
	return path, query, hasQuery
}

// appendQueryParam appends the value of a parameter of the query (RFC 9421, section 2.2.8). It
// reports false unless the query has exactly one of that name. name is encoded, as the signature
// has it.
func appendQueryParam(b []byte, query, name string) ([]byte, bool) {
	found := 0
	for query != "" {
		var pair string
		if pair, query, _ = strings.Cut(query, "&"); pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		var room [64]byte
		if string(appendEncoded(room[:0], decoded(key))) != name {
			continue
		}
		if found++; found > 1 {
			return b, false
		}
		b = appendEncoded(b, decoded(value))
	}
	return b, found == 1
}

// decoded reverses the encoding of application/x-www-form-urlencoded, as browsers do: a percent sign
// that escapes nothing stands for itself.
func decoded(s string) string {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '+':
			b = append(b, ' ')
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			n, _ := strconv.ParseUint(s[i+1:i+3], 16, 8)
			b, i = append(b, byte(n)), i+2
		default:
			b = append(b, c)
		}
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// appendEncoded appends s with all bytes escaped except letters, digits and "*-._" (the percent-encode
// set of application/x-www-form-urlencoded in the URL standard).
func appendEncoded(b []byte, s string) []byte {
	const upperHex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' ||
			c == '*' || c == '-' || c == '.' || c == '_' {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}
