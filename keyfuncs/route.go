package keyfuncs

import (
	"net/http"
	"path"
	"strings"
	"sync/atomic"
)

// RoutePattern is the key function of the pattern by which [http.ServeMux] routed the
// request, such as "GET /items/{id}". It fails with [ErrTooEarly] if the request has not
// passed a mux.
//
// Use it inside the mux, around a handler; outside the mux use [MuxPattern]. With chi,
// gin or echo use the RoutePattern of the adapter: those routers need not set the field
// that this function reads.
//
// Another key costs a client nothing, but it can only choose among the patterns you
// registered.
func RoutePattern(r *http.Request) (string, error) {
	if r.Pattern == "" {
		return "", errNoMux
	}
	return registered(r.Pattern, r), nil
}

// MuxPattern returns the key function of the pattern by which mux will route the
// request. It is [RoutePattern] for limiters outside mux. The mux then looks up the
// route twice. The key is "" if no pattern matches: all such requests share one key, and
// [Join] keeps its other parts. If mux is nil, the result is nil.
//
// The limiter must be where mux sees the same path: inside [http.StripPrefix]. As long as
// no request has matched, a path that the mux knows without its first parts is an error,
// [ErrTooEarly].
func MuxPattern(mux *http.ServeMux) func(*http.Request) (string, error) {
	if mux == nil {
		return nil
	}
	var matched atomic.Bool
	return func(r *http.Request) (string, error) {
		_, pattern := mux.Handler(r)
		switch {
		case matched.Load():
		case pattern != "":
			matched.Store(true)
		case knowsRest(mux, r):
			return "", errStripped
		}
		return registered(pattern, r), nil
	}
}

// mostParts bounds the search of knowsRest, since clients choose paths.
const mostParts = 8

// knowsRest reports whether mux has a pattern for the path of r without its first parts.
func knowsRest(mux *http.ServeMux, r *http.Request) bool {
	rest := *r.URL
	rest.RawPath = ""
	inner := *r
	inner.URL = &rest
	for range mostParts {
		_, path, ok := strings.Cut(strings.TrimPrefix(rest.Path, "/"), "/")
		if !ok || path == "" {
			return false
		}
		rest.Path = "/" + path
		if _, pattern := mux.Handler(&inner); pattern != "" {
			return true
		}
	}
	return false
}

// registered returns the pattern of r. When http.ServeMux redirects to a path with a final slash,
// it reports that path as the pattern, for CONNECT and in Go 1.25 for all methods. Clients choose
// it, so registered returns "".
func registered(pattern string, r *http.Request) string {
	if !strings.HasSuffix(pattern, "/") || pattern[0] != '/' ||
		strings.HasSuffix(r.URL.Path, "/") || path.Clean(r.URL.Path)+"/" != pattern {
		return pattern
	}
	return ""
}
