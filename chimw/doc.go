// Package chimw limits the requests of chi routers.
//
// chi's handlers and middleware are those of net/http, and so is the [Limiter]:
// that of package nethttp. This package names it for users of chi and adds the
// key functions that know chi's routes.
//
//	limit := chimw.MustNew(chimw.Config{
//		Rules: []chimw.Rule{{
//			Name:  "per-client",
//			Limit: core.SlidingWindow(core.PerMinute(100)),
//			Key:   keyfuncs.Address(keyfuncs.Peer),
//		}},
//	})
//	r.Use(limit.Handler)                           // everything, 404s too
//	r.Route("/api", func(r chi.Router) {
//		r.Use(limit.Handler)                       // a sub-router
//	})
//	r.With(limit.Handler).Post("/login", postLogin) // one route
//
// What it answers is described in package nethttp.
package chimw
