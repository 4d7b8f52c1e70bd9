// Package echo5mw limits the requests of echo handlers, version 5.
//
//	go get github.com/weir-go/weir/echo5mw github.com/labstack/echo/v5@latest
//
// Without @latest a new program gets the oldest release that works, which is all that weir asks for.
//
// A [Limiter] decides each request against its rules before the next handler sees it. It describes
// the decision in response header fields and answers requests that are denied. It wraps all routes,
// the routes of a group, or a single route:
//
//	limiter := echo5mw.MustPerAddress(limits.PerMinute(100), echo5mw.Lift(keyfuncs.Peer))
//	e.Use(limiter.Middleware())                       // everything, 404s too
//	api := e.Group("/api", limiter.Middleware())      // a group
//	e.POST("/login", postLogin, limiter.Middleware()) // one route
//
// [New] takes any rules. The answers are those of package nethttp. The limiter writes the answer
// itself and its middleware returns a nil error, so that the error handler of the Echo does not
// replace the answer. To have the error handler answer denials, set [Config].Denied.
//
// Do not use nethttp by echo.WrapMiddleware for rules that have an end: echo answers the errors of
// handlers after that middleware.
//
// # Order of middleware
//
// Middleware passed to Use runs after routing and knows the route. Middleware passed to Pre runs
// before routing and does not. If earlier middleware has committed the response, it is too late for
// header fields and for an answer. A denial then only ends the request.
//
// The response of the context is passed on unchanged, so streaming, hijacking and protocol upgrades
// work as without the limiter.
package echo5mw
