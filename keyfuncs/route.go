package keyfuncs

import "net/http"

// RoutePattern is the key function of the pattern by which [http.ServeMux]
// routed the request, such as "GET /items/{id}". The key is "" where no pattern
// matched or no mux has been passed yet, so that all such requests share one,
// and [Join] keeps its other parts. It never fails.
//
// It is for limiters inside the mux, around a handler; outside use
// [MuxPattern]. Under chi, gin or echo use the RoutePattern of the adapter: those
// routers need not set the field that this one reads, and then all routes share
// one key.
//
// To have another key costs a client nothing, but it can only choose among the
// patterns you registered.
func RoutePattern(r *http.Request) (string, error) { return r.Pattern, nil }

// MuxPattern returns the key function of the pattern by which mux is going to
// route the request, for limiters outside mux. The mux thus looks up the route
// twice. Otherwise it is [RoutePattern]. If mux is nil, so is the result.
func MuxPattern(mux *http.ServeMux) func(*http.Request) (string, error) {
	if mux == nil {
		return nil
	}
	return func(r *http.Request) (string, error) {
		_, pattern := mux.Handler(r)
		return pattern, nil
	}
}
