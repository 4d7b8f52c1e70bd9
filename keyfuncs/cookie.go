package keyfuncs

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/weir-go/weir/core"
)

// Cookie returns the key function of the [Digest] of a cookie's value: of the
// cookie that [http.Request.Cookie] returns, the first of that name that is
// valid. It returns core.ErrAbsent if there is none, or if the value is empty. If
// name is not a token the result is nil.
//
// A request with more cookies than net/http reads has none: 3,000 of any name, or
// what GODEBUG=httpcookiemaxnum says, if that is at least 50.
//
// To have another key costs a client nothing as long as nobody has checked the
// cookie; most clients never send one. Count those without by address: see
// [First] and [Known].
func Cookie(name string) func(*http.Request) (string, error) {
	if !isToken(name) {
		return nil
	}
	return func(r *http.Request) (string, error) {
		lines := r.Header["Cookie"]
		if areMany(lines) {
			cookie, err := r.Cookie(name)
			if err != nil || cookie.Value == "" {
				return "", core.ErrAbsent
			}
			return Digest(cookie.Value), nil
		}
		for _, line := range lines {
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

// fewCookies is how many cookies are looked through here: as many as every
// browser keeps for a site (RFC 6265, section 6.1). Of more, net/http knows
// whether it reads them, which GODEBUG may change. Request.Cookie would do for
// few as well, but it allocates room for every cookie.
const fewCookies = 50

// areMany reports whether lines hold more than fewCookies, counted as net/http
// does.
func areMany(lines []string) bool {
	count := len(lines)
	for _, line := range lines {
		if count > fewCookies {
			break
		}
		count += strings.Count(line, ";")
	}
	return count > fewCookies
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
