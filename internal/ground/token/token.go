// Package token knows which characters a token of HTTP may have.
package token

import "strings"

// Is reports whether s is a token (RFC 9110, section 5.6.2), as names of fields and methods are.
func Is[T string | []byte](s T) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return len(s) > 0
}
