package echo5mw

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/keyfuncs"
)

// Lift adapts a function of *http.Request to *echo.Context. It is for the key functions
// of package keyfuncs. Combinators take lifted functions
// together with those of this package. If f is nil, the result is nil.
func Lift[T any](f func(*http.Request) (T, error)) func(*echo.Context) (T, error) {
	if f == nil {
		return nil
	}
	return func(c *echo.Context) (T, error) { return f(c.Request()) }
}

// LiftCondition adapts a condition of *http.Request, such as that of nethttp.Probes, to
// *echo.Context. It is for [core.When] and [core.Unless], and for conditions of a shedder. If f
// is nil, the result is nil.
func LiftCondition(f func(*http.Request) bool) func(*echo.Context) bool {
	if f == nil {
		return nil
	}
	return func(c *echo.Context) bool { return f(c.Request()) }
}

// LiftDenied adapts a Denied of package nethttp, such as that of agents.Verifier.Challenge, for
// [Config].Denied. If denied is nil, the result is nil.
func LiftDenied(
	denied func(http.ResponseWriter, *http.Request, core.Outcome),
) func(*echo.Context, core.Outcome) error {
	if denied == nil {
		return nil
	}
	return func(c *echo.Context, o core.Outcome) error {
		denied(c.Response(), c.Request(), o)
		return nil
	}
}

// RoutePattern is the key function of the pattern that echo routed the request by, such as
// "/users/:id", without the method. The key is "" if no pattern matched: all 404s and 405s share
// one key, and [keyfuncs.Join] keeps its other parts. From echo 5.3 on, a group that has
// middleware is an exception: it answers its 404s under a pattern of its own, such as "/api/*". In
// middleware passed to Pre, which runs before routing, RoutePattern fails with
// [keyfuncs.ErrTooEarly].
//
// Another key costs a client nothing, but it can only choose among the patterns you registered.
func RoutePattern(c *echo.Context) (string, error) {
	if c.Get(echo.ContextKeyHeaderAllow) != nil { // a 405: the pattern is for other methods
		return "", nil
	}
	if isEarly(c) {
		return "", errPre
	}
	return c.Path(), nil
}

// isEarly reports whether echo has not looked for a route yet.
func isEarly(c *echo.Context) bool { return c.Path() == "" && c.RouteInfo().Name == "" }

var errPre error = &failure.Safe{
	Err: fmt.Errorf("%w: echo has not looked for the route: pass the limiter to Use instead of Pre",
		keyfuncs.ErrTooEarly),
}

// PathParam returns the key function of a parameter in the path, such as "id" of "/users/:id". The
// value is unescaped, even if c.Param returns it escaped: "/users/%61" has the key of "/users/a".
// If the parameter is missing or empty, the key is core.ErrAbsent. A value of more than 64 bytes is
// represented by its digest, as in [keyfuncs.Header]. In middleware passed to Pre PathParam fails
// with [keyfuncs.ErrTooEarly]. If name is empty, the result is nil.
//
// If no route continues after a parameter, its value is the rest of the path with all slashes: for
// "/users/a/" c.Param is "a/", which is another key.
//
// Another key costs a client nothing, and there may be endless keys: PathParam limits requests for
// one thing, not requests of one client.
func PathParam(name string) func(*echo.Context) (string, error) {
	if name == "" {
		return nil
	}
	value := keyfuncs.Value(func(c *echo.Context) any { return pathParam(c, name) })
	return func(c *echo.Context) (string, error) {
		if isEarly(c) {
			return "", errPre
		}
		return value(c)
	}
}

// pathParam returns c.Param(name), unescaped if necessary. By default echo routes by URL.RawPath if
// there is one, and does not unescape values. [echo.RouterConfig] may change both. The values are
// escaped if and only if the route filled with them equals URL.RawPath.
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

// ContextValue returns the key function of a value that earlier middleware stored with
// c.Set(name, value), such as the id of a user. The value is a string, an integer or a
// fmt.Stringer, as in [keyfuncs.Value]. Without it the key is core.ErrAbsent. If name
// is empty, the result is nil.
//
// Another key costs a client what that middleware demands for another value.
func ContextValue(name string) func(*echo.Context) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(c *echo.Context) any { return c.Get(name) })
}

// RealIP returns the address that c.RealIP returns. It is for programs that set
// echo.Echo.IPExtractor and want to configure trust in one place:
//
//	Key: keyfuncs.Address(echo5mw.RealIP)
//
// It fails if echo finds no address. It also fails if echo took the address from a RemoteAddr that
// [keyfuncs.Peer] refuses, because middleware has overwritten it. It cannot check a RemoteAddr that
// an IPExtractor only starts from, as the one of X-Forwarded-For does: let no middleware overwrite
// RemoteAddr.
//
// Another address costs a client what the IPExtractor demands. Without one, echo v5 uses the
// address of the connection. [echo.ExtractIPFromXFFHeader] believes every private, loopback and
// link-local address unless told otherwise, and so does [echo.ExtractIPFromRealIPHeader].
func RealIP(c *echo.Context) (netip.Addr, error) {
	text := c.RealIP()
	addr, err := netip.ParseAddr(text)
	if err != nil { // drop err: its text may come from a client
		return netip.Addr{}, errNoRealIP
	}
	if strings.Contains(c.Request().RemoteAddr, text) {
		if _, err := keyfuncs.Peer(c.Request()); err != nil {
			return netip.Addr{}, err
		}
	}
	return addr, nil
}

var errNoRealIP error = &failure.Safe{
	Err: fmt.Errorf("%w: echo found no IP address", keyfuncs.ErrUnidentified),
}
