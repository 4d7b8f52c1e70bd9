// Package ginmw limits the requests of gin handlers.
//
// A [Limiter] decides each request against its rules before the handlers after
// it, describes the decision in response header fields, and answers requests
// that are denied. It goes before all routes, those of a group, or a single one:
//
//	limit := ginmw.MustNew(ginmw.Config{
//		Rules: []ginmw.Rule{{
//			Name:  "per-client",
//			Limit: core.SlidingWindow(core.PerMinute(100)),
//			Key:   ginmw.Lift(keyfuncs.Address(keyfuncs.Peer)),
//		}},
//	})
//	r.Use(limit.Handler())                       // everything, 404s too
//	api := r.Group("/api", limit.Handler())      // a group
//	r.POST("/login", limit.Handler(), postLogin) // one route
//
// What it answers is described in package nethttp, whose twin it is. After an
// answer of its own it calls Abort, so that no later handler runs.
//
// # Where it goes
//
// gin answers some requests before any handler: redirects to the path with or
// without a trailing slash cost nothing. A handler sees 404s and 405s only if it
// was given to Use of the engine. What earlier handlers have written stays: it can
// be given no header fields any more, nor an answer, and a denial then only stops
// the chain.
//
// The writer of the context is handed on as it is, so streaming, hijacking and protocol upgrades
// work as without the limiter. c.Copy has the outcome as well.
package ginmw
