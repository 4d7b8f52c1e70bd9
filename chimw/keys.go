package chimw

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/keyfuncs"
)

// RoutePattern is the key function of the pattern that chi routes the request by, such as
// "/users/{id}". The pattern has no method, and includes the patterns of all routers on the way. In
// middleware passed to Use, chi knows only a part of the pattern, so RoutePattern looks up the rest
// of the route ahead. The key is "" if no pattern matches: all 404s and 405s share one key, and
// [keyfuncs.Join] keeps its other parts. Outside chi's routers, around them or around a mux that
// holds them, RoutePattern fails with [keyfuncs.ErrTooEarly].
//
// The key is the same wherever the limiter is, on two conditions. First, middleware that rewrites
// paths or methods, such as chi's StripSlashes, must be outside every limiter. Second, a mounted
// router must not be wrapped. In Mount("/sub", middleware.NoCache(sub)), every key that is looked
// up ahead is "/sub/*": write With(middleware.NoCache).Mount("/sub", sub).
//
// The path of a mounted router, with or without a final slash, has a key of its own: "/sub" is the
// key of requests that sub routes by "/" or by a catch-all "/*", and of 404s and 405s there. Such a
// catch-all therefore has two keys, since all other paths that it matches have "/sub/*". To count
// them together, cut "/*" off the key.
//
// Another key costs a client nothing, but it can only choose among the patterns you registered.
func RoutePattern(r *http.Request) (string, error) {
	rctx := chi.RouteContext(r.Context())
	if rctx == nil {
		return "", errOutside
	}
	route := lookUp(rctx, r)
	defer release(route, rctx)
	return route.RoutePattern(), nil
}

// PathParam returns the key function of a parameter in the path, such as "id" of "/users/{id}", or
// "*". In middleware passed to Use, chi does not know the parameter yet, so PathParam looks up the
// route ahead, as [RoutePattern] does. If the parameter is missing or empty, the key is
// core.ErrAbsent. A value of more than 64 bytes is represented by its digest, as in
// [keyfuncs.Header]. Outside chi's routers PathParam fails with [keyfuncs.ErrTooEarly]. If name is
// empty, the result is nil.
//
// The value is unescaped: /users/alice and /users/%61lice have one key. chi.URLParam returns
// "%61lice" for the second, so unescape it in your handler too.
//
// Another key costs a client nothing, and there may be endless keys: PathParam limits requests for
// one thing, not requests of one client.
func PathParam(name string) func(*http.Request) (string, error) {
	if name == "" {
		return nil
	}
	value := keyfuncs.Value(func(r *http.Request) any {
		rctx := chi.RouteContext(r.Context())
		route := lookUp(rctx, r)
		defer release(route, rctx)
		if name == "*" && isWhole(route) {
			return nil // the "*" belongs to a mount, and chi empties it later
		}
		return unescaped(rctx, r, route.URLParam(name))
	})
	return func(r *http.Request) (string, error) {
		if chi.RouteContext(r.Context()) == nil {
			return "", errOutside
		}
		return value(r)
	}
}

// unescaped returns the value of a parameter without escapes. The value has escapes if chi routed
// by URL.RawPath. chi does so if there is a RawPath, unless middleware set chi's path to URL.Path.
func unescaped(rctx *chi.Context, r *http.Request, value string) string {
	if r.URL.RawPath == "" || isPartOf(r.URL.Path, routedPath(rctx, r)) {
		return value
	}
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded
	}
	return value // the pattern splits an escape in two
}

// isPartOf reports whether routed is path without its trailing slash, as after
// chi's StripSlashes, without its format, as after its URLFormat, or
// without both.
func isPartOf(path, routed string) bool {
	rest, ok := strings.CutPrefix(path, routed)
	if rest = strings.TrimSuffix(rest, "/"); !ok || rest == "" {
		return ok
	}
	format, ok := strings.CutPrefix(strings.TrimPrefix(rest, "/"), ".")
	return ok && !strings.ContainsAny(format, "./")
}

// ClientIP returns the source of the address that get finds in the context of a request. It is for
// programs that use one of chi's ClientIPFrom middlewares, which chi has since 5.3.0, before the
// limiter and want to configure trust in one place:
//
//	Key: keyfuncs.Address(chimw.ClientIP(middleware.GetClientIPAddr))
//
// The source fails if get finds no address, as where the middleware is missing. If get is nil, the
// result is nil.
//
// Another address costs a client what that middleware demands. Do not put chi's middleware.RealIP
// before any limiter: it believes every client.
func ClientIP(
	get func(context.Context) netip.Addr,
) func(*http.Request) (netip.Addr, error) {
	if get == nil {
		return nil
	}
	return func(r *http.Request) (netip.Addr, error) {
		addr := get(r.Context())
		if !addr.IsValid() {
			return netip.Addr{}, errNoClientIP
		}
		return addr, nil
	}
}

var errOutside error = &failure.Safe{
	Err: fmt.Errorf("%w: no chi router has seen the request: "+
		"put the limiter into Use or With of the router", keyfuncs.ErrTooEarly),
}

var errNoClientIP error = &failure.Safe{
	Err: fmt.Errorf("%w: chi found no IP address", keyfuncs.ErrUnidentified),
}
