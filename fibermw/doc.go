// Package fibermw limits the requests of Fiber handlers, version 3.
//
//	go get github.com/weir-go/weir/fibermw github.com/gofiber/fiber/v3@latest
//
// Without @latest a new program gets the oldest release that works, which is all that weir asks for.
//
// A [Limiter] decides each request against its rules before the next handler sees it. It describes
// the decision in response header fields and answers requests that are denied. It wraps all routes,
// the routes of a group, or a single route:
//
//	limiter := fibermw.MustPerAddress(limits.PerMinute(100), fibermw.Peer)
//	app.Use(limiter.Middleware())                      // everything, 404s too
//	api := app.Group("/api", limiter.Middleware())     // a group
//	app.Post("/login", limiter.Middleware(), postLogin) // one route
//
// [New] takes any rules. The answers are those of package nethttp. The limiter writes the answer
// itself and its middleware returns a nil error, so that the ErrorHandler of the app does not
// replace the answer. To have the ErrorHandler answer denials, set [Config].Denied.
//
// Do not use nethttp by Fiber's adaptor.HTTPMiddleware for rules that have an end: Fiber calls the
// handlers after that middleware.
//
// # Memory
//
// fasthttp uses the memory of a request again for the next one. This package copies what it keeps:
// the results of every Key and Value, whatever text they are made of, and what [Lift] passes on. So
// a key function may return c.Get(name) or c.Params(name) as it is. The other functions of a rule,
// and an Observer, must copy text of the request that they keep, and must not keep the fiber.Ctx.
//
// # The end of a request
//
// fasthttp sends an answer after all handlers have returned. A request ends when the handlers
// behind the limiter have returned or panicked. It ends later, when its answer has been sent, if
//
//   - the body is a stream, as of SendStream, SendStreamWriter, SendFile and the middleware sse,
//   - the connection was taken over, as by a WebSocket: when the hijack handler has returned,
//   - a handler returned an error and a rule has a FinalCost: the ErrorHandler chooses the status.
//
// In these three cases the client may have the whole answer a moment before the request ends. If
// the context of the request has ended, as after a time-out outside the limiter, the request ends
// with its handlers in all cases. After Fiber's own time-out the status is that of its answer.
//
// fasthttp does not notice that a client has left. So such a request is served, stays in a queue
// until its turn, and holds its units until then. Contexts that middleware sets by SetContext are
// obeyed.
package fibermw
