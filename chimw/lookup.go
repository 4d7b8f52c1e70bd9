package chimw

import (
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

// lookup is what was found out about the route of a request that chi has not
// yet routed to the end.
type lookup struct {
	chi.Context // for the parameters
	pattern     string
}

var lookups = sync.Pool{New: func() any { return new(lookup) }}

// lookUp finds the route of r, whose context is rctx, from the outermost router
// on. Release it afterwards.
func lookUp(rctx *chi.Context, r *http.Request) *lookup {
	ahead := lookups.Get().(*lookup)
	ahead.Reset()
	ahead.pattern = ""
	if rctx.Routes != nil {
		method := rctx.RouteMethod
		if method == "" {
			method = r.Method
		}
		ahead.pattern = whole(rctx.Routes.Find(&ahead.Context, method, routedPath(rctx, r)))
	}
	return ahead
}

func (l *lookup) release() { lookups.Put(l) }

// isWhole reports whether pattern, as known by now, is all of the request's: one
// that ends in a wildcard may be where a router is mounted.
func isWhole(pattern string) bool { return pattern != "" && !strings.HasSuffix(pattern, "*") }

// whole brings what Find returns into the form of chi.Context.RoutePattern.
func whole(pattern string) string {
	for strings.Contains(pattern, "/*/") {
		pattern = strings.ReplaceAll(pattern, "/*/", "/")
	}
	if pattern == "/" {
		return pattern
	}
	return strings.TrimSuffix(strings.TrimSuffix(pattern, "//"), "/")
}

// routedPath returns the path by which the outermost router routes r. chi keeps
// what is left to route in rctx.RoutePath, which middleware may have shortened
// at its end, as chi's StripSlashes does.
func routedPath(rctx *chi.Context, r *http.Request) string {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	if path == "" {
		path = "/"
	}
	rest := rctx.RoutePath
	switch {
	case len(rctx.RoutePatterns) == 0 && rest != "":
		return rest
	case rest == "" || rest == "/" || strings.HasSuffix(path, rest):
		return path
	}
	if i := strings.LastIndex(path, rest); i >= 0 {
		return path[:i+len(rest)]
	}
	return path
}
