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

// lookUp returns a context with the whole route of r. If rctx, the context of r, has the whole
// route, lookUp returns rctx. Otherwise it searches from the outermost router and returns a pooled
// context, which has no patterns if none matches. Pass the result to release afterwards.
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
		return rctx // a part of the pattern is better than the pattern of another route
	}
	if found == "" {
		ahead.RoutePatterns = ahead.RoutePatterns[:0]
	}
	return ahead
}

// release returns the result of lookUp for rctx to the pool.
func release(route, rctx *chi.Context) {
	if route != rctx {
		contexts.Put(route)
	}
}

// isWhole reports whether rctx has all patterns of the request's route. If the last
// pattern ends in a wildcard, a router may be mounted there.
func isWhole(rctx *chi.Context) bool {
	n := len(rctx.RoutePatterns)
	return n > 0 && !strings.HasSuffix(rctx.RoutePatterns[n-1], "*")
}

// routedPath returns the path that the outermost router routes r by. Middleware may have replaced
// the path of the URL for chi. A mounted router has only the rest of the path, so routedPath
// rebuilds the start from the patterns so far and their parameters.
func routedPath(rctx *chi.Context, r *http.Request) string {
	if len(rctx.RoutePatterns) == 0 {
		return cmp.Or(rctx.RoutePath, r.URL.RawPath, r.URL.Path, "/")
	}
	path, params := make([]byte, 0, 64), rctx.URLParams
	start := 0 // start of the part of the last pattern
	for _, pattern := range rctx.RoutePatterns {
		before, wild := strings.CutSuffix(pattern, "*")
		path = bytes.TrimSuffix(path, slash)
		start = len(path)
		path = fill(path, before, &params)
		if !wild {
			return string(path)
		}
		// chi empties "*" when it enters a mounted router
		if rest := popParam(&params, "*"); rest != "" {
			return string(append(path, rest...))
		}
	}
	if !bytes.HasSuffix(path, slash) ||
		r.PathValue("*") == "" && rctx.RoutePath == string(path[start:]) {
		// the wildcard matched nothing, and RoutePath is the path that contains it
		return string(path)
	}
	return string(append(bytes.TrimSuffix(path, slash), cmp.Or(rctx.RoutePath, "/")...))
}

// fill appends pattern to path, with the values of its parameters in place of their
// names.
func fill(path []byte, pattern string, params *chi.RouteParams) []byte {
	depth := 0 // of braces, which regular expressions may contain too
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '{':
			if depth++; depth == 1 {
				name := pattern[i+1:]
				path = append(path, popParam(params, name[:strings.IndexAny(name, ":}")])...)
			}
		case c == '}':
			depth--
		case depth == 0:
			path = append(path, c)
		}
	}
	return path
}

// popParam removes all parameters up to the first one called name, and returns its value or "".
func popParam(params *chi.RouteParams, name string) string {
	i := slices.Index(params.Keys, name)
	if i < 0 {
		return ""
	}
	value := params.Values[i]
	params.Keys, params.Values = params.Keys[i+1:], params.Values[i+1:]
	return value
}
