package nethttp

import "net/http"

// Quota returns a handler that tells a client how much it has left under each rule, and takes no
// units. The answer is JSON in the form of GitHub's /rate_limit:
//
//	{"resources":{"per-client":{"limit":100,"used":3,"remaining":97,"reset":1795345200}}}
//
// reset is the instant at which the client has its whole limit again, in seconds since the Unix
// epoch; a concurrency limit has none. "unit" says what the numbers count, if that is not requests.
// No cache may store the answer.
//
// The client is the one whom the Key of each rule finds in the request itself, so it sees the same
// numbers as in header fields. The handler shows no more than these: no shadow, no rule of
// [headers.Options].Hidden, with [headers.OnDenial] only rules that deny now, and with
// [headers.Omit] none. If a key is free to choose, such as a name in the query, anyone can ask for
// it: hide its rule.
//
// A rule is absent if it does not apply to the request of the handler itself. routes says for which
// requests to ask instead, such as "GET /search" and "POST /items": the rules see the request with
// this method and this path, and the answer has the rules of all routes. Of a rule that has another
// key for each route, the answer has the one that binds. Each route is one question to the backend.
// The rules of all routes read the same body, at most 1 MiB of it: beyond that the answer is a 413.
//
// If the backend or a function of a rule fails, the answer is a 503, as for other requests; the
// fallback is not asked. Put the handler beside the limited handlers, not behind the limiter, or
// asking costs a unit. It limits nothing: put another limiter around it if clients ask often. Quota
// panics if l is nil or was not made by [New], or if a route is not a method and a path.
func (l *Limiter) Quota(routes ...string) http.Handler {
	if l == nil || l.gate == nil {
		panic("nethttp: Limiter.Quota: the limiter is nil or zero: make one with New")
	}
	serve := l.gate.Quota(routes, withRequest)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = serve(w, r, r) // Denied returns nil
	})
}

// withRequest returns r, the request to ask the rules for.
func withRequest(_, r *http.Request) *http.Request { return r }
