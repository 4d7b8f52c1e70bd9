// Package chimw limits the requests of chi routers.
//
//	go get github.com/weir-go/weir/chimw github.com/go-chi/chi/v5@latest
//
// Without @latest a new program gets the oldest release that works, which is all that weir asks for.
//
// chi uses the handlers and middleware of net/http, so [Limiter] is the one of package nethttp.
// This package adds key functions that know chi's routes.
//
//	limiter := chimw.MustPerAddress(limits.PerMinute(100), keyfuncs.Peer)
//	r.Use(limiter.Handler)                            // everything, 404s too
//	r.Route("/api", func(r chi.Router) {
//		r.Use(limiter.Handler)                        // a sub-router
//	})
//	r.With(limiter.Handler).Post("/login", postLogin) // one route
//
// [New] takes any rules. Package nethttp describes the answers.
package chimw
