package quota

import "strings"

// maxDigits is how many digits an Integer has at most (RFC 9651, section 3.3.1).
const maxDigits = 15

// absent is the value of a parameter that is missing, or no Integer.
const absent = -1

// member is a member of RateLimit, RateLimit-Policy or Cache-Status, with the parameters that
// count.
//
//	RateLimit:        "minute";r=3;t=20
//	RateLimit-Policy: "minute";q=10;w=60
//	Cache-Status:     ExampleCache;hit
type member struct {
	name      string
	value     int64 // name=value of a Dictionary
	r, t, q   int64
	otherUnit bool // counts something else than requests
	hit       bool // of Cache-Status
}

// structured reads RateLimit: a List since draft -08, a Dictionary in draft -07. The member with
// the least left counts; of equal ones, the one that lasts Longest. A member without a window does
// not limit a rate. structured checks what separates members and parameters, as RFC 9651 asks, but
// not the parameters that it ignores.
func structured(values, policies []string) (least Rest, ok bool) {
	old := Rest{Left: absent, Limit: absent, end: absent, Whole: true, Source: sourceRateLimit}
	list := members{lines: values}
	for m, more := list.next(); more; m, more = list.next() {
		switch {
		case m.name == "limit" && m.value >= 0:
			old.Limit = m.value
		case m.name == "remaining" && m.value >= 0:
			old.Left = m.value
		case m.name == "reset" && m.value >= 0:
			old.end = m.value
		case m.name == "" || m.value != absent || m.r < 0 || m.t < 0:
		default:
			q := Rest{Left: m.r, end: m.t, Source: sourceRateLimit}
			if least.Source != "" &&
				(q.Left > least.Left || q.Left == least.Left && q.end <= least.end) {
				continue
			}
			if p := policyOf(policies, m.name); !p.otherUnit {
				q.Limit = max(p.q, 0)
				least = q
			}
		}
	}
	if old.Limit >= 0 && old.Left >= 0 && old.end >= 0 {
		least = old
	}
	return least, least.Source != "" && !list.malformed
}

// policyOf returns the member of RateLimit-Policy with a name.
func policyOf(policies []string, name string) member {
	list := members{lines: policies}
	for m, more := list.next(); more; m, more = list.next() {
		if m.name == name {
			return m
		}
	}
	return member{}
}

// members reads the first maxLimits members of a List or a Dictionary. All lines of a field are
// one, which is malformed if it is longer than maxStructured.
type members struct {
	lines     []string
	rest      string // of the present line
	size      int    // of the lines so far
	read      int
	malformed bool
}

func (l *members) next() (m member, more bool) {
	if l.rest == "" && len(l.lines) > 0 && !l.malformed {
		l.rest, l.lines = strings.Trim(l.lines[0], " "), l.lines[1:]
		l.size += len(l.rest)
		l.malformed = l.rest == "" || l.size > maxStructured
	}
	if l.rest == "" || l.malformed || l.read == maxLimits {
		return member{}, false
	}
	l.read++
	m, rest, ok := cutMember(l.rest)
	l.rest = strings.TrimLeft(rest, " \t")
	if ok && l.rest != "" {
		if l.rest, ok = strings.CutPrefix(l.rest, ","); ok {
			l.rest = strings.TrimLeft(l.rest, " \t")
			ok = l.rest != ""
		}
	}
	l.malformed = !ok
	return m, ok
}

// cutMember cuts the first member of a List or a Dictionary.
func cutMember(s string) (m member, rest string, ok bool) {
	var key, value string
	m = member{value: absent, r: absent, t: absent, q: absent}
	if c := s[0]; c != '"' && c != '*' && (c|0x20 < 'a' || c|0x20 > 'z') {
		return m, s, false
	}
	m.name, value, s, ok = cutPair(s)
	if value != "" {
		m.value = integer(value)
	}
	for ok && strings.HasPrefix(s, ";") {
		key, value, s, ok = cutPair(strings.TrimLeft(s[1:], " "))
		switch key {
		case "r", "a": // a and w are in a pending change of draft -11: pull request 166
			m.r = integer(value)
		case "t", "w": // w of a policy is ignored
			m.t = integer(value)
		case "q":
			m.q = integer(value)
		case "hit":
			m.hit = value == "" || value == "?1"
		case "qu":
			m.otherUnit = value != "request" && value != "requests"
		}
	}
	return m, s, ok
}

// cutPair cuts an item, or a key and its value.
func cutPair(s string) (key, value, rest string, ok bool) {
	key, rest, ok = cutItem(s, '=')
	if after, has := strings.CutPrefix(rest, "="); has && ok {
		value, rest, ok = cutItem(after, ';')
	}
	return key, value, rest, ok
}

// cutItem cuts a String without its quotes, or a text that ends before stop, a separator or the
// end.
func cutItem(s string, stop byte) (item, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		end := 0
		for end < len(s) && s[end] != stop && strings.IndexByte(";, \t", s[end]) < 0 {
			end++
		}
		return s[:end], s[end:], end > 0
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[1:i], s[i+1:], true
		case c == '\\':
			i++
		case c < ' ' || c > '~':
			return "", s, false
		}
	}
	return "", s, false
}

// integer reads a non-negative Integer, of which -0 is one.
func integer(s string) (n int64) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > maxDigits {
		return absent
	}
	for i := range len(digits) {
		digit := digits[i] - '0'
		if digit > 9 {
			return absent
		}
		n = 10*n + int64(digit)
	}
	if n > 0 && len(digits) < len(s) {
		return absent
	}
	return n
}
