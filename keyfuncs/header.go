package keyfuncs

import (
	"net/http"
	"net/textproto"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/token"
)

// Header returns the key function of a header's value, without surrounding white space. A value of
// more than 64 bytes is represented by "sha256:" and its SHA-256 in hexadecimal, which is longer
// than any value that is used unchanged. If the header is missing or empty, the key function
// returns core.ErrAbsent. Several lines of the header are an error, because the handler may use
// another line than the limiter (RFC 9110, section 5.3).
//
// The backend sees the value unchanged: for secrets use [APIKey]. The result is nil if name is not
// the name of a header, or is Host (see [Host]), X-Forwarded-For or Forwarded (see [Address]).
//
// Another key costs a client nothing, unless something in front of the limiter sets or checks the
// header. See [Known].
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

// onlyLine returns the value of a header that may have only one line.
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

// headerName returns the canonical form of name. It reports whether name is a header field that
// net/http keeps in the request's header and that one party sets as a whole.
func headerName(name string) (string, bool) {
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "Host", "Forwarded", "X-Forwarded-For":
		return name, false
	}
	return name, token.Is(name)
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
