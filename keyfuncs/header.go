package keyfuncs

import (
	"net/http"
	"net/textproto"

	"github.com/weir-go/weir/core"
)

// Header returns the key function of a header's value, without the white space
// around it. A value of more than 64 bytes is represented by "sha256:" and its
// SHA-256 in hexadecimal, which is longer than any value that stands for
// itself. Without the header, or with an empty one, it returns core.ErrAbsent;
// several lines of it are an error, since it would be a guess which one the
// handler goes by (RFC 9110, section 5.3).
//
// The value goes to the backend as it is: for secrets use [APIKey]. The result
// is nil if name is not a header's name, or is Host (see [Host]),
// X-Forwarded-For or Forwarded (see [Address]).
//
// To have another key costs a client nothing, unless something in front of the
// limiter sets or checks the header. See [Known].
func Header(name string) func(*http.Request) (string, error) {
	name, ok := headerName(name)
	if !ok {
		return nil
	}
	return func(r *http.Request) (string, error) {
		value, err := onlyLine(r, name)
		if err != nil {
			return "", err
		}
		return bounded(value), nil
	}
}

// onlyLine returns the value of a header that may have one line.
func onlyLine(r *http.Request, name string) (string, error) {
	lines := r.Header[name]
	if len(lines) > 1 {
		return "", errSeveral
	}
	if len(lines) == 0 {
		return "", core.ErrAbsent
	}
	value := textproto.TrimString(lines[0])
	if value == "" {
		return "", core.ErrAbsent
	}
	return value, nil
}

// headerName returns the canonical form of name, and whether it is the name of
// a header that net/http leaves in the request's header and that has one value
// set by one party.
func headerName(name string) (string, bool) {
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "Host", "Forwarded", "X-Forwarded-For":
		return name, false
	}
	return name, isToken(name)
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && !isTokenPunctuation(s[i]) {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isTokenPunctuation(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return false
}
