package keyfuncs

import (
	"net/http"
	"path"
	"strings"
)

// RoutePattern is the key function of the pattern by which [http.ServeMux] routed the
// request, such as "GET /items/{id}". The key is "" if no pattern matched or the
// request has not passed a mux: all such requests share one key, and [Join] keeps its
// other parts. RoutePattern never fails.
//
// Use it inside the mux, around a handler; outside the mux use [MuxPattern]. With chi,
// gin or echo use the RoutePattern of the adapter. Those routers need not set the field
// that this function reads, and all routes would share one key.
//
// Another key costs a client nothing, but it can only choose among the patterns you
// registered.
func RoutePattern(r *http.Request) (string, error) { return registered(r.Pattern, r), nil }

// MuxPattern returns the key function of the pattern by which mux will route the
// request. It is [RoutePattern] for limiters outside mux. The mux then looks up the
// route twice. If mux is nil, the result is nil.
func MuxPattern(mux *http.ServeMux) func(*http.Request) (string, error) {
	if mux == nil {
		return nil
	}
	return func(r *http.Request) (string, error) {
		_, pattern := mux.Handler(r)
		return registered(pattern, r), nil
	}
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
