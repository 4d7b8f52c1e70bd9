// Package ginmw limits the requests of gin handlers.
//
//	go get github.com/weir-go/weir/ginmw github.com/gin-gonic/gin@latest
//
// Without @latest a new program gets the oldest release that works, which is all that weir asks for.
//
// A [Limiter] decides each request against its rules before the handlers after it. It describes the
// decision in response header fields and answers requests that are denied. It goes before all
// routes, the routes of a group, or a single route:
//
//	limiter := ginmw.MustPerAddress(limits.PerMinute(100), ginmw.Lift(keyfuncs.Peer))
//	r.Use(limiter.Handler())                       // everything, 404s too
//	api := r.Group("/api", limiter.Handler())      // a group
//	r.POST("/login", limiter.Handler(), postLogin) // one route
//
// [New] takes any rules. The answers are those of package nethttp. After an answer of its own it
// calls Abort, so that no later handler runs.
//
// # Order of handlers
//
// gin answers some requests before any handler runs: its redirects to the path with or without a
// trailing slash cost nothing. A handler sees 404s and 405s only if it was passed to Use of the
// engine. If an earlier handler has written to the response, it is too late for header fields and
// for an answer. A denial then only stops the chain.
//
// The writer of the context is passed on unchanged, so streaming, hijacking and protocol upgrades
// work as without the limiter. A copy made by c.Copy has the outcome too.
package ginmw
