// Package envoy answers Envoy and Istio over gRPC: the rate limit service
// (envoy.service.ratelimit.v3) by package descriptors, and the external authorization service
// (envoy.service.auth.v3) by a limiter of package nethttp.
//
//	server := envoy.MustNewServer(envoy.ServerOptions{})
//	envoy.RegisterRateLimits(server, service, envoy.RateLimitOptions{})
//	envoy.RegisterAuthorization(server, limiter, envoy.AuthorizationOptions{})
//	envoy.RegisterHealth(server)
//
// The rate limit service asks for descriptors, which the configuration of Envoy makes. The
// authorization service sees the request, so the rules of a policy file apply as they stand.
// docs/gateway.md has configurations of both.
package envoy
