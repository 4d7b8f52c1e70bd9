package keyfuncs

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/weir-go/weir/core"
)

// APIKey returns the key function of the [Digest] of the API key in a header. The
// header is treated as in [Header]: core.ErrAbsent without it, an error if there are
// several lines, and a nil result if header is not a legal name.
//
// Another key costs a client nothing unless something has checked the API key. Combine
// APIKey with [Known], or put the limiter behind authentication.
func APIKey(header string) func(*http.Request) (string, error) {
	name, ok := headerName(header)
	if !ok {
		return nil
	}
	return func(r *http.Request) (string, error) {
		secret, err := onlyLine(r, name)
		if err != nil {
			return "", err
		}
		return Digest(secret), nil
	}
}

// BearerToken is the key function of the [Digest] of the token in an Authorization header of scheme
// Bearer, in upper or lower case (RFC 6750, section 2.1). It returns core.ErrAbsent if there is no
// token, and an error if there are several Authorization lines.
//
// A token is a token68 (RFC 9110, section 11.2): letters, digits, "-._~+/", and "=" at its end. Any
// other text counts as no token, such as two tokens, or a token followed by a parameter. Otherwise
// a client could get any number of keys by varying the text beside its token. Tokens are compared
// byte by byte, including "=".
//
// Another key costs a client nothing unless something has checked the token. A renewed token is
// another key of the same user; behind authentication, count users with [FromContext] instead.
func BearerToken(r *http.Request) (string, error) {
	token, err := credentials(r, "Bearer")
	if err != nil {
		return "", err
	}
	if !isToken68(token) {
		return "", core.ErrAbsent
	}
	return Digest(token), nil
}

// isToken68 reports whether s is a token68 (RFC 9110, section 11.2).
func isToken68(s string) bool {
	for s != "" && s[len(s)-1] == '=' {
		s = s[:len(s)-1]
	}
	for i := range len(s) {
		if !inToken68[s[i]] {
			return false
		}
	}
	return s != ""
}

// inToken68 marks the characters of a token68 other than "=". Tokens are long, and a table look-up
// takes a third of the time of comparisons.
var inToken68 = func() (in [256]bool) {
	for c := range in {
		in[c] = isAlphanumeric(byte(c)) || strings.IndexByte("-._~+/", byte(c)) >= 0
	}
	return in
}()

// BasicAuthUser is the key function of the user name in an Authorization header of scheme Basic
// (RFC 7617). The password is not part of the key. BasicAuthUser returns core.ErrAbsent if the user
// name is missing or the header malformed. It returns an error if there are several Authorization
// lines or the name has more than 767 bytes. A name of more than 64 bytes is represented by its
// digest, as in [Header].
//
// Another key costs a client nothing unless something has checked the password. As the key of a
// login, it limits guesses at the password of one user, but any client can use up that user's
// limit. Names are compared byte by byte: if your program ignores case, each spelling of a name has
// a limit of its own.
func BasicAuthUser(r *http.Request) (string, error) {
	encoded, err := credentials(r, "Basic")
	if err != nil {
		return "", err
	}
	var source [maxBasic]byte
	var decoded [maxBasic / 4 * 3]byte
	n, err := base64.StdEncoding.Decode(decoded[:], source[:copy(source[:], encoded)])
	if err != nil {
		return "", core.ErrAbsent
	}
	colon := bytes.IndexByte(decoded[:n], ':')
	if colon < 0 && len(encoded) > maxBasic {
		return "", errTooLong
	}
	if colon <= 0 {
		return "", core.ErrAbsent
	}
	return bounded(string(decoded[:colon])), nil
}

// maxBasic is how many bytes of Basic credentials are decoded. It is a multiple of 4.
const maxBasic = 1024

// credentials returns the credentials of the given scheme in the Authorization header
// (RFC 9110, section 11.6.2).
func credentials(r *http.Request, scheme string) (string, error) {
	value, err := onlyLine(r, "Authorization")
	if err != nil {
		return "", err
	}
	n := len(scheme)
	if len(value) <= n || value[n] != ' ' && value[n] != '\t' ||
		!strings.EqualFold(value[:n], scheme) {
		return "", core.ErrAbsent
	}
	return textproto.TrimString(value[n:]), nil
}
