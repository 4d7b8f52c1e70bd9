package keyfuncs

import (
	"net/http"
	"strings"
)

// Method is the key function of the request's method. HEAD counts as GET, otherwise
// each page would have a second limit. Methods other than those of RFC 9110, PATCH and
// QUERY share one key, "other", because clients can invent methods. Method never fails.
//
// Another key costs a client nothing, but there are only ten: joined with an address,
// it gives each address ten limits instead of one.
func Method(r *http.Request) (string, error) {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead:
		return http.MethodGet, nil
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, "QUERY":
		return r.Method, nil
	}
	return "other", nil
}

// Host is the key function of the host that the request is for, in lower case, without port and
// trailing dot. An IPv6 address keeps its brackets. Without a host the key is "". All hosts that
// are too long to be a name (RFC 1035, section 2.3.4) share one key, "*". Host never fails.
//
// Another key costs a client nothing, and there are endless keys: a client may ask for any host.
// Unless something in front refuses hosts that are not yours, a client can evade a limit by host,
// even joined with an address. See [Known].
func Host(r *http.Request) (string, error) {
	host := r.Host
	if len(host) > maxHost+len(".:65535") {
		return "*", nil
	}
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host = host[:colon]
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxHost {
		return "*", nil
	}
	return asciiLower(host), nil
}

const maxHost = 253

// Path is the key function of the URL's path, unescaped and otherwise as the client
// sent it. A path of more than 64 bytes is represented by its digest, as in [Header].
// Path never fails.
//
// Another key costs a client nothing, and there are endless keys: "/a", "//a", "/a/",
// "/no/such/page". Prefer [RoutePattern].
func Path(r *http.Request) (string, error) {
	if r.URL == nil {
		return "", nil
	}
	return bounded(r.URL.Path), nil
}

// asciiLower returns s in lower case. s has at most maxHost bytes. Without a capital in
// s, it does not allocate.
func asciiLower(s string) string {
	if !strings.ContainsFunc(s, isCapital) {
		return s
	}
	var buf [maxHost]byte
	lower := append(buf[:0], s...)
	for i, c := range lower {
		if isCapital(rune(c)) {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

func isCapital(c rune) bool { return 'A' <= c && c <= 'Z' }
