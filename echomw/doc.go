// Package echomw limits the requests of echo handlers, version 4.
//
// A [Limiter] decides each request against its rules before the next handler
// sees it, describes the decision in response header fields, and answers
// requests that are denied. It goes around all routes, those of a group, or a
// single one:
//
//	limit := echomw.MustNew(echomw.Config{
//		Rules: []echomw.Rule{{
//			Name:  "per-client",
//			Limit: core.SlidingWindow(core.PerMinute(100)),
//			Key:   echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
//		}},
//	})
//	e.Use(limit.Middleware())                       // everything, 404s too
//	api := e.Group("/api", limit.Middleware())      // a group
//	e.POST("/login", postLogin, limit.Middleware()) // one route
//
// What it answers is described in package nethttp, whose twin it is. The answer
// is written by the limiter, and the error that its middleware returns is nil, so
// that the error handler of the Echo has nothing to replace;
// [Config].Denied can hand denials to it.
//
// # Where it goes
//
// Middleware given to Use runs after routing and knows the route; given to Pre it
// runs before, and does not. A response that earlier middleware has committed can
// be given no header fields any more, nor an answer: a denial then ends the
// request as it is.
//
// The response of the context is handed on as it is, so streaming, hijacking and
// protocol upgrades work as without the limiter.
package echomw
