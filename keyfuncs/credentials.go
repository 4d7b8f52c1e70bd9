package keyfuncs

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/weir-go/weir/core"
)

// APIKey returns the key function of the [Digest] of the API key in a header.
// It treats the header as [Header] does: without it core.ErrAbsent, several
// lines an error, nil if name cannot be one.
//
// To have another key costs a client nothing as long as nobody has checked the
// API key: combine it with [Known], or put the limiter behind authentication.
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

// BearerToken is the key function of the [Digest] of the token in an
// Authorization header of scheme Bearer, in upper or lower case (RFC 6750,
// section 2.1). It returns core.ErrAbsent if there is none, and an error if
// there are several Authorization lines.
//
// A token is a token68 (RFC 9110, section 11.2): letters, digits, "-._~+/", and
// "=" at its end. Anything else, such as two tokens or a token with a parameter
// behind it, is no token, and counts with the requests that have none: its key
// would vary with what comes beside the token. A token is compared byte by byte,
// "=" included.
//
// To have another key costs a client nothing as long as nobody has checked the
// token. Where tokens are renewed, each is another key of the same user; behind
// authentication count users instead, by [FromContext].
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

// inToken68 are the characters of a token68 but "=". Tokens are long: to look
// them up takes a third of the time of comparing.
var inToken68 = func() (in [256]bool) {
	for c := range in {
		in[c] = isAlphanumeric(byte(c)) || strings.IndexByte("-._~+/", byte(c)) >= 0
	}
	return in
}()

// BasicAuthUser is the key function of the user name in an Authorization header
// of scheme Basic (RFC 7617); the password takes no part. It returns
// core.ErrAbsent if there is none or if it is malformed, and an error if there
// are several Authorization lines or if the name has more than 767 bytes. Of
// more than 64 bytes, it is represented as [Header] says.
//
// To have another key costs a client nothing as long as nobody has checked the
// password. As the key of a login it limits the guessing of one user's
// password, and lets anybody use up that user's limit. Names are compared byte
// by byte: if your users' are not, each spelling of a name has a limit of its own.
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

// maxBasic is how many bytes of Basic credentials are decoded, a multiple of 4.
const maxBasic = 1024

// credentials returns what follows scheme in the Authorization header
// (RFC 9110, section 11.6.2).
func credentials(r *http.Request, scheme string) (string, error) {
	value, err := onlyLine(r, "Authorization")
	if err != nil {
		return "", err
	}
	n := len(scheme)
	if len(value) <= n || value[n] != ' ' && value[n] != '\t' || !strings.EqualFold(value[:n], scheme) {
		return "", core.ErrAbsent
	}
	return textproto.TrimString(value[n:]), nil
}
