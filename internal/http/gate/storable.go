package gate

import (
	"net/http"
	"strings"
	"time"
)

// StoreFields are the fields of an answer that tell shared caches whether to store it.
var StoreFields = [...]string{"Cache-Control", "Expires", "X-Accel-Expires"}

// isStorable reports whether a shared cache is told that it may store an answer: Cache-Control says
// public, max-age or s-maxage, or Expires is to come, and Cache-Control says neither no-store nor
// private (RFC 9111, section 5.2.2). private with the names of fields lets it store the others.
// X-Accel-Expires tells nginx alone, which then ignores Cache-Control.
func isStorable(h http.Header) bool {
	if accel := h["X-Accel-Expires"]; len(accel) > 0 && accel[0] != "0" {
		return true
	}
	storable := false
	if expires := h["Expires"]; len(expires) > 0 {
		at, err := http.ParseTime(expires[0])
		storable = err == nil && at.After(time.Now())
	}
	for _, line := range h["Cache-Control"] {
		for line != "" {
			var name string
			var named bool
			name, named, line = cutDirective(line)
			switch {
			case strings.EqualFold(name, "no-store"), strings.EqualFold(name, "private") && !named:
				return false
			case strings.EqualFold(name, "public"), strings.EqualFold(name, "max-age"),
				strings.EqualFold(name, "s-maxage"):
				storable = true
			}
		}
	}
	return storable
}

// cutDirective cuts the first directive of a list, whose argument may be a quoted list.
//
//	private="Set-Cookie, RateLimit", max-age=60
func cutDirective(list string) (name string, named bool, rest string) {
	end, quoted := 0, false
	for end < len(list) && (quoted || list[end] != ',') {
		switch {
		case list[end] == '"':
			quoted = !quoted
		case quoted && list[end] == '\\':
			end++
		}
		end++
	}
	end = min(end, len(list)) // a backslash may be the last byte
	name, _, named = strings.Cut(list[:end], "=")
	return strings.TrimSpace(name), named, list[min(end+1, len(list)):]
}
