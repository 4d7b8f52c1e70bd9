package chimw

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

var contexts = sync.Pool{New: func() any { return chi.NewRouteContext() }}

var slash = []byte("/")

// lookUp returns the context of r's route to its end: rctx, r's own, where chi
// knows all of it, otherwise another, with what is found from the outermost
// router on. That one has no patterns if none matches. Release it afterwards.
func lookUp(rctx *chi.Context, r *http.Request) *chi.Context {
	if isWhole(rctx) || rctx.Routes == nil {
		return rctx
	}
	ahead := contexts.Get().(*chi.Context)
	ahead.Reset()
	ahead.URLParams.Keys = append(ahead.URLParams.Keys, rctx.URLParams.Keys...)
	ahead.URLParams.Values = append(ahead.URLParams.Values, rctx.URLParams.Values...)
	found := rctx.Routes.Find(ahead, cmp.Or(rctx.RouteMethod, r.Method), routedPath(rctx, r))

	passed := min(len(ahead.RoutePatterns), len(rctx.RoutePatterns))
	if !slices.Equal(ahead.RoutePatterns[:passed], rctx.RoutePatterns[:passed]) {
		release(ahead, rctx)
		return rctx // better a part of the pattern than that of another route
	}
	if found == "" {
		ahead.RoutePatterns = ahead.RoutePatterns[:0]
	}
	return ahead
}

// release gives back what lookUp returned for rctx.
func release(route, rctx *chi.Context) {
	if route != rctx {
		contexts.Put(route)
	}
}

// isWhole reports whether the patterns that rctx knows by now are all of the
// request's: a wildcard at the end may be where a router is mounted.
func isWhole(rctx *chi.Context) bool {
	n := len(rctx.RoutePatterns)
	return n > 0 && !strings.HasSuffix(rctx.RoutePatterns[n-1], "*")
}

// routedPath returns the path by which the outermost router routes r. Middleware
// may have given chi another than that of the URL, and a router that is mounted
// knows only what is left of it: what came before is in the patterns passed and
// their parameters.
func routedPath(rctx *chi.Context, r *http.Request) string {
	if len(rctx.RoutePatterns) == 0 {
		return cmp.Or(rctx.RoutePath, r.URL.RawPath, r.URL.Path, "/")
	}
	path, params := make([]byte, 0, 64), rctx.URLParams
	start := 0 // of what the last pattern adds
	for _, pattern := range rctx.RoutePatterns {
		before, wild := strings.CutSuffix(pattern, "*")
		path = bytes.TrimSuffix(path, slash)
		start = len(path)
		path = fill(path, before, &params)
		if !wild {
			return string(path)
		}
		if rest := take(&params, "*"); rest != "" { // chi empties it where it enters a mounted router
			return string(append(path, rest...))
		}
	}
	if !bytes.HasSuffix(path, slash) || r.PathValue("*") == "" && rctx.RoutePath == string(path[start:]) {
		return string(path) // a wildcard that matched nothing: RoutePath is the path that it was part of
	}
	return string(append(bytes.TrimSuffix(path, slash), cmp.Or(rctx.RoutePath, "/")...))
}

// fill appends pattern to path, with the values of its parameters in their place.
func fill(path []byte, pattern string, params *chi.RouteParams) []byte {
	depth := 0 // of braces, which a regular expression may have too
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '{':
			if depth++; depth == 1 {
				name := pattern[i+1:]
				path = append(path, take(params, name[:strings.IndexAny(name, ":}")])...)
			}
		case c == '}':
			depth--
		case depth == 0:
			path = append(path, c)
		}
	}
	return path
}

// take removes the first parameter of a name, and those before it, and returns
// its value.
func take(params *chi.RouteParams, name string) string {
	i := slices.Index(params.Keys, name)
	if i < 0 {
		return ""
	}
	value := params.Values[i]
	params.Keys, params.Values = params.Keys[i+1:], params.Values[i+1:]
	return value
}
