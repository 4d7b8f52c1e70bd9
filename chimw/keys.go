package chimw

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/keyfuncs"
)

// RoutePattern is the key function of the pattern by which chi routes the
// request, such as "/users/{id}", without the method and with the patterns of all
// routers it passes. Where only a part of it is known yet, in middleware given
// to Use, the route is looked up ahead. The key is "" where no pattern matches
// and outside chi, so that 404s and 405s share one, and [keyfuncs.Join] keeps its
// other parts. It never fails.
//
// The key is the same wherever the limiter is, if middleware that rewrites paths
// or methods, such as chi's StripSlashes, is outside every limiter, and if
// routers are mounted as they are. In one that is wrapped, as in
// Mount("/sub", middleware.NoCache(sub)), the key of all that is looked up is
// "/sub/*": write With(middleware.NoCache).Mount("/sub", sub). The path at which
// a router is mounted is a pattern of its own: 404s and 405s there have the key
// "/sub".
//
// To have another key costs a client nothing, but it can only choose among the
// patterns you registered.
func RoutePattern(r *http.Request) (string, error) {
	rctx := chi.RouteContext(r.Context())
	if rctx == nil {
		return "", nil
	}
	route := lookUp(rctx, r)
	defer release(route, rctx)
	return route.RoutePattern(), nil
}

// PathParam returns the key function of a parameter in the path, such as "id" of
// "/users/{id}", or "*". Where it is not known yet, in middleware given to Use,
// the route is looked up ahead, as [RoutePattern] says. Without it, or if it is
// empty, the key is core.ErrAbsent. A value of more than 64 bytes is represented
// as [keyfuncs.Header] says. If name is empty the result is nil.
//
// The value is unescaped, so that /users/alice and /users/%61lice have one key,
// although chi.URLParam finds "%61lice" in the second: unescape it there too.
//
// To have another key costs a client nothing, and there may be no end of them:
// it limits what is done to one thing, not what one client does.
func PathParam(name string) func(*http.Request) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(r *http.Request) any {
		rctx := chi.RouteContext(r.Context())
		if rctx == nil {
			return nil
		}
		route := lookUp(rctx, r)
		defer release(route, rctx)
		if name == "*" && isWhole(route) {
			return nil // what is found is that of a mount, which chi empties as it goes on
		}
		return unescaped(rctx, r, route.URLParam(name))
	})
}

// unescaped returns a parameter's value without the escapes that it has where chi
// routed by URL.RawPath: wherever there is one, unless middleware has given chi
// URL.Path.
func unescaped(rctx *chi.Context, r *http.Request, value string) string {
	if r.URL.RawPath == "" || isPartOf(r.URL.Path, routedPath(rctx, r)) {
		return value
	}
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value // the pattern divides an escape
}

// isPartOf reports whether routed is path without the slash at its end, as
// [middleware.StripSlashes] leaves it, without the format, as
// [middleware.URLFormat] does, or both.
func isPartOf(path, routed string) bool {
	rest, ok := strings.CutPrefix(path, routed)
	if rest = strings.TrimSuffix(rest, "/"); !ok || rest == "" {
		return ok
	}
	format, ok := strings.CutPrefix(strings.TrimPrefix(rest, "/"), ".")
	return ok && !strings.ContainsAny(format, "./")
}

// ClientIP finds the address that [middleware.GetClientIPAddr] returns, for those
// who have put one of chi's ClientIPFrom middlewares before the limiter and want
// one place for it:
//
//	Key: keyfuncs.Address(chimw.ClientIP)
//
// It fails if there is no address: the middleware found none, or is missing.
//
// To have another costs a client what that middleware says. Do not put chi's
// middleware.RealIP, which believes everybody, before any limiter.
func ClientIP(r *http.Request) (netip.Addr, error) {
	addr := middleware.GetClientIPAddr(r.Context())
	if !addr.IsValid() {
		return netip.Addr{}, errNoClientIP
	}
	return addr, nil
}

var errNoClientIP = fmt.Errorf("%w: chi found no IP address", keyfuncs.ErrUnidentified)
