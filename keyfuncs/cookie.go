package keyfuncs

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/token"
)

// Cookie returns the key function of the [Digest] of a cookie's value. The cookie is
// the one that [http.Request.Cookie] returns: the first valid cookie of that name. The
// key function returns core.ErrAbsent without such a cookie, or if its value is empty. If name
// is not a token, the result is nil.
//
// If a request has more cookies than net/http reads, no cookie is found in it. That
// limit is 3,000 cookies of any name, or GODEBUG=httpcookiemaxnum if that is at least
// 50.
//
// Another key costs a client nothing unless something has checked the cookie, and most
// clients never send one. Count requests without a valid cookie by address: see [First]
// and [Known].
func Cookie(name string) func(*http.Request) (string, error) {
	if !token.Is(name) {
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

// fewCookies is the largest number of cookies that Cookie parses by itself: as many as every
// browser keeps for a site (RFC 6265, section 6.1). With more cookies it calls Request.Cookie,
// because GODEBUG may change how many net/http reads. Request.Cookie is correct for few cookies
// too, but allocates room for every one.
const fewCookies = 50

// areMany reports whether lines hold more than fewCookies cookies, counted as in net/http.
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

// cookieValue returns the value of pair, and whether pair is a valid cookie of that
// name.
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
