// Package gateway answers proxies that ask before they pass a request on: nginx by
// auth_request, Traefik by ForwardAuth, Caddy by forward_auth, HAProxy by a script.
//
//	limiter := nethttp.MustNew(nethttp.Config{Rules: rules})
//	check, err := gateway.New(limiter, []string{"10.0.0.0/8"}, gateway.Options{})
//	http.Handle("/check", check)
//
// A check is a request of its own, with fields that describe the original request. The
// limiter decides the original one, as if the program stood in place of the proxy:
//
//	method   X-Forwarded-Method or X-Original-Method
//	path     X-Forwarded-Uri, X-Original-Uri or X-Original-Url
//	host     X-Forwarded-Host or X-Original-Url
//	address  the last hop of X-Forwarded-For
//
// All other fields are those of the client. The hops of X-Forwarded-For before the last
// one stay in the field, so a rule may trust proxies further out.
//
// # What is believed
//
// The fields are believed only from peers that the program names. A check from another
// peer, a check without one of the four, a field with two lines, and two fields that
// contradict each other are answered 503: nothing is guessed, and nothing passes.
//
// # Answers
//
// An allowed check is answered 204, a denied one 429 or Options.DeniedStatus, both with the
// fields of package headers. The proxy says which fields reach the client. A check that
// cannot be decided is answered 503.
//
// A check ends before the original request begins. So rules that wait for the end of a
// request have no place here: concurrency limits, and rules with a FinalCost. [Suits]
// reports them.
//
// Package descriptors limits by the descriptors of Envoy, and package envoy has both kinds
// of checks over gRPC. The command "weir serve" puts them together.
package gateway
