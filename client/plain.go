package client

import "strings"

// plain reads RateLimit with one member of the commonest form, "name";r=1;t=2, whose policy
// has the form "name";q=1;w=2. It answers as the parser of structured fields does,
// in a twentieth of the time and without allocating. Whatever looks otherwise is left
// to the parser.
func plain(values, policies []string) (quota, bool) {
	if len(values) != 1 || len(policies) > 1 {
		return quota{}, false
	}
	name, rest, ok := plainName(values[0])
	if !ok {
		return quota{}, false
	}
	left, rest, ok := plainParam(rest, 'r')
	if !ok {
		return quota{}, false
	}
	end, rest, ok := plainParam(rest, 't')
	if !ok || rest != "" {
		return quota{}, false
	}
	q := quota{left: left, end: end, source: sourceRateLimit}
	if len(policies) == 0 {
		return q, true
	}
	policy, rest, ok := plainName(policies[0])
	if !ok || policy != name {
		return quota{}, false
	}
	if q.limit, rest, ok = plainParam(rest, 'q'); !ok {
		return quota{}, false
	}
	if rest != "" {
		if _, rest, ok = plainParam(rest, 'w'); !ok || rest != "" {
			return quota{}, false
		}
	}
	return q, true
}

// plainName cuts a String without escapes (RFC 9651, section 3.3.3), which is not empty.
func plainName(s string) (name, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", "", false
	}
	end := strings.IndexByte(s[1:], '"')
	if end < 1 {
		return "", "", false
	}
	name, rest = s[1:end+1], s[end+2:]
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' || name[i] == '\\' {
			return "", "", false
		}
	}
	return name, rest, true
}

// plainParam cuts ;key=n, where n has at most 15 digits (RFC 9651, section 3.3.1).
func plainParam(s string, key byte) (n int64, rest string, ok bool) {
	if s == "" || s[0] != ';' {
		return 0, "", false
	}
	if s = s[1:]; s != "" && s[0] == ' ' {
		s = s[1:]
	}
	if len(s) < 3 || s[0] != key || s[1] != '=' {
		return 0, "", false
	}
	i := 2
	for ; i < len(s) && i < 17 && s[i]-'0' <= 9; i++ {
		n = n*10 + int64(s[i]-'0')
	}
	return n, s[i:], i > 2
}
