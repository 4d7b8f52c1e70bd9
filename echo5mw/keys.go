package echo5mw

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/keyfuncs"
)

// Lift makes a function of the request that net/http has one of echo's: the key
// functions of package keyfuncs, and functions for LimitFor. Combinators take
// lifted functions and echo's own together. If f is nil, so is the result.
func Lift[T any](f func(*http.Request) (T, error)) func(*echo.Context) (T, error) {
	if f == nil {
		return nil
	}
	return func(c *echo.Context) (T, error) { return f(c.Request()) }
}

// RoutePattern is the key function of the pattern by which echo routed the
// request, such as "/users/:id", without the method. The key is "" where none
// matched and in middleware given to Pre, so that all 404s and 405s share one,
// and [keyfuncs.Join] keeps its other parts; but from echo 5.3 on a group that has
// middleware answers its 404s under a pattern of its own, such as "/api/*". It
// never fails.
//
// To have another key costs a client nothing, but it can only choose among the
// patterns you registered.
func RoutePattern(c *echo.Context) (string, error) {
	if c.Get(echo.ContextKeyHeaderAllow) != nil { // 405: the pattern is that of other methods
		return "", nil
	}
	return c.Path(), nil
}

// PathParam returns the key function of a parameter in the path, such as "id" of
// "/users/:id", unescaped, also where c.Param is not: "/users/%61" has the key of
// "/users/a". Without it, or if it is empty, the key is core.ErrAbsent. A value of
// more than 64 bytes is represented as [keyfuncs.Header] says. If name is empty the
// result is nil.
//
// To echo, a parameter after which no route goes on is the rest of the path, with
// its slashes: "/users/a/" then has another key, and c.Param is "a/".
//
// To have another key costs a client nothing, and there may be no end of them:
// it limits what is done to one thing, not what one client does.
func PathParam(name string) func(*echo.Context) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(c *echo.Context) any { return pathParam(c, name) })
}

// pathParam unescapes what c.Param returns if that is escaped: if echo routed by
// URL.RawPath, which it does where there is one, unless [echo.RouterConfig] says
// otherwise, and left the values as they were, unless it says otherwise. Then, and
// only then, do the route and its values make URL.RawPath.
func pathParam(c *echo.Context, name string) string {
	value, raw := c.Param(name), c.Request().URL.RawPath
	if raw == "" || !strings.Contains(value, "%") {
		return value
	}
	var values []any
	for _, v := range c.PathValues() {
		values = append(values, v.Value)
	}
	unescaped, err := url.PathUnescape(value)
	if err != nil || c.RouteInfo().Reverse(values...) != raw {
		return value
	}
	return unescaped
}

// ContextValue returns the key function of a value that earlier middleware left
// by c.Set(name, value), such as a user's id: a string, an integer or a
// fmt.Stringer, as [keyfuncs.Value] says. Without it the key is core.ErrAbsent.
// If name is empty the result is nil.
//
// To have another key costs a client what that middleware asks for it.
func ContextValue(name string) func(*echo.Context) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(c *echo.Context) any { return c.Get(name) })
}

// RealIP finds the address that c.RealIP returns, for those who have set
// echo.Echo.IPExtractor and want one place for it:
//
//	Key: keyfuncs.Address(echo5mw.RealIP)
//
// It fails if echo finds no address, or one in RemoteAddr that [keyfuncs.Peer]
// refuses, since middleware has put it there. An IPExtractor that only starts from
// RemoteAddr, as that of X-Forwarded-For does, believes what it finds there: let
// nothing overwrite it.
//
// To have another costs a client what the IPExtractor says. Without one, echo v5
// goes by the connection; [echo.ExtractIPFromXFFHeader] and
// [echo.ExtractIPFromRealIPHeader] believe every private address by default.
func RealIP(c *echo.Context) (netip.Addr, error) {
	text := c.RealIP()
	addr, err := netip.ParseAddr(text)
	if err != nil { // err has the text, which may be a client's
		return netip.Addr{}, errNoRealIP
	}
	if strings.Contains(c.Request().RemoteAddr, text) {
		if _, err := keyfuncs.Peer(c.Request()); err != nil {
			return netip.Addr{}, err
		}
	}
	return addr, nil
}

var errNoRealIP = fmt.Errorf("%w: echo found no IP address", keyfuncs.ErrUnidentified)
