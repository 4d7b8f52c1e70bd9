// Package policy reads the rules of limiters from a file, and reads it again when it changes.
//
//	version: 1
//	client: {peer: true}
//	rules:
//	  - name: log-in
//	    match: POST /login
//	    key: address
//	    limit: 5/minute
//
// Each rule says which requests it applies to, how they are counted, and how many it allows. The
// file is YAML or JSON, and docs/policy.md of the repository describes it on one page. [Load]
// reports every mistake of a file at once, each with its line and column:
//
//	p, err := policy.Load("weir.yaml", policy.Names[*http.Request]{})
//	limiter, err := nethttp.New(nethttp.Config{Rules: p.Rules()})
//
// [Watch] follows the file and applies its changes.
//
// # What a file may name
//
// A file can identify clients by address, header, cookie and credential. Everything else, such as
// finding the user of a request, is a function of the program: the program supplies it in [Names],
// and the file declares its name. A file has no expressions, no functions and no secrets. It
// configures no backends and no answers.
//
// # Frameworks
//
// The type parameter R is the request type of the framework. Frameworks other than net/http and chi
// need the first two fields of [Names]:
//
//	policy.Names[*gin.Context]{
//		Request: func(c *gin.Context) *http.Request { return c.Request },
//		Route:   (*gin.Context).FullPath,
//	}
//	policy.Names[echo.Context]{ // echo v4
//		Request: echo.Context.Request, Route: echo.Context.Path,
//	}
//	policy.Names[*echo.Context]{ // echo v5
//		Request: (*echo.Context).Request, Route: (*echo.Context).Path,
//	}
//
// # Patterns and unusual paths
//
// The patterns of match are those of [http.ServeMux]. Routers read a path such as //login or
// /api%2Flogin in different ways, and the rules of a file must hold for all of them. A rule
// therefore applies if the request matches in any of these readings: as ServeMux reads it,
// including its redirections; unescaped first; not cleaned; with one slash more or less at the end.
// An exception applies only if the path has a single reading. A cost by pattern is the highest cost
// of all patterns that match in some reading. Middleware that changes the path or method of a
// request before it is routed, such as one that strips a prefix, must run before the limiter.
package policy
