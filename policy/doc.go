// Package policy reads rules of limiters from a file, and again when the file changes.
//
//	version: 1
//	client: {peer: true}
//	rules:
//	  - name: log-in
//	    match: POST /login
//	    key: address
//	    limit: 5/minute
//
// The file says which requests a rule is for, whom it counts, and how many it allows. It
// is YAML or JSON, and docs/policy.md of the repository describes it on one page. [Load]
// reports every mistake of a file at once, each with its line and column:
//
//	p, err := policy.Load("weir.yaml", policy.Names[*http.Request]{})
//	limiter, err := nethttp.New(nethttp.Config{Rules: p.Rules()})
//
// [Watch] follows the file and applies its changes.
//
// # What a file may name
//
// A file finds clients by address, header, cookie and credential by itself. Functions of
// the program, such as the one that finds the user, have names: the program supplies them
// in [Names], and the file declares them. There are no expressions, no functions and no
// secrets in a file, and it says nothing of backends and answers.
//
// # Frameworks
//
// The type parameter R is the request type of the framework. Other than net/http and chi,
// frameworks need the first two fields of [Names]:
//
//	policy.Names[*gin.Context]{Request: func(c *gin.Context) *http.Request { return c.Request }, Route: (*gin.Context).FullPath}
//	policy.Names[echo.Context]{Request: echo.Context.Request, Route: echo.Context.Path}       // echo v4
//	policy.Names[*echo.Context]{Request: (*echo.Context).Request, Route: (*echo.Context).Path} // echo v5
//
// # Patterns and unusual paths
//
// The patterns of match are those of [http.ServeMux]. Routers differ in how they read a
// path such as //login or /api%2Flogin, and the rules of a file are to hold for all of
// them. So a rule applies if the request matches in any of these readings: as ServeMux
// reads it, redirections included, unescaped first, not cleaned, or with one slash more or
// less at the end. An exception is the other way round: it holds only for a path that has
// one reading. A cost by pattern is the highest of those that match where there are
// several. Middleware that gives a request another path or method before it is routed,
// such as one that strips a prefix, must run before the limiter.
package policy
