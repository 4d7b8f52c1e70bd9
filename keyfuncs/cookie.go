package keyfuncs

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/weir-go/weir/core"
)

// Cookie returns the key function of the [Digest] of a cookie's value. Of
// several cookies of that name it takes the one that [http.Request.Cookie]
// returns, the first that is valid. It returns core.ErrAbsent if there is none,
// or if the value is empty. If name is not a token the result is nil.
//
// To have another key costs a client nothing as long as nobody has checked the
// cookie; most clients never send one. Count those without by address: see
// [First] and [Known].
func Cookie(name string) func(*http.Request) (string, error) {
	if !isToken(name) {
		return nil
	}
	return func(r *http.Request) (string, error) {
		// Request.Cookie would allocate room for every cookie it was sent.
		for _, line := range r.Header["Cookie"] {
			for more := true; more; {
				var pair string
				pair, line, more = strings.Cut(line, ";")
				if value, ok := cookieValue(pair, name); ok {
					if value == "" {
						return "", core.ErrAbsent
					}
					return Digest(value), nil
				}
			}
		}
		return "", core.ErrAbsent
	}
}

// cookieValue returns the value of pair if it is a valid cookie of that name.
func cookieValue(pair, name string) (string, bool) {
	key, value, _ := strings.Cut(textproto.TrimString(pair), "=")
	if textproto.TrimString(key) != name {
		return "", false
	}
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return value, true
}
