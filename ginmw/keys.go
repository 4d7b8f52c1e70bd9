package ginmw

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/keyfuncs"
)

// Lift makes a function of the request that net/http has one of gin's: the key
// functions of package keyfuncs, and functions for LimitFor. Combinators take
// lifted functions and gin's own together. If f is nil, so is the result.
func Lift[T any](f func(*http.Request) (T, error)) func(*gin.Context) (T, error) {
	if f == nil {
		return nil
	}
	return func(c *gin.Context) (T, error) { return f(c.Request) }
}

// RoutePattern is the key function of the pattern by which gin routed the
// request, such as "/users/:id", without the method. The key is "" where none
// matched, so that all 404s and 405s share one, and [keyfuncs.Join] keeps its
// other parts. It never fails.
//
// To have another key costs a client nothing, but it can only choose among the
// patterns you registered.
func RoutePattern(c *gin.Context) (string, error) { return c.FullPath(), nil }

// PathParam returns the key function of a parameter in the path, such as "id" of
// "/users/:id", as c.Param returns it: unescaped, so that one thing has one key,
// unless you tell the engine to UseRawPath or UseEscapedPath without
// UnescapePathValues. Without it, or if it is empty, the key is core.ErrAbsent. A
// value of more than 64 bytes is represented as [keyfuncs.Header] says. If name is
// empty the result is nil.
//
// To have another key costs a client nothing, and there may be no end of them:
// it limits what is done to one thing, not what one client does.
func PathParam(name string) func(*gin.Context) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(c *gin.Context) any { return c.Param(name) })
}

// ContextValue returns the key function of a value that an earlier handler left
// by c.Set(name, value), such as a user's id: a string, an integer or a
// fmt.Stringer, as [keyfuncs.Value] says. Without it the key is core.ErrAbsent.
// If name is empty the result is nil.
//
// To have another key costs a client what that handler asks for it.
func ContextValue(name string) func(*gin.Context) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(c *gin.Context) any {
		value, _ := c.Get(name)
		return value
	})
}

// ClientIP finds the address that c.ClientIP returns, for those who have told
// the engine what to trust and want one place for it:
//
//	Key: keyfuncs.Address(ginmw.ClientIP)
//
// It fails if gin finds no address.
//
// To have another costs a client nothing until you call
// [gin.Engine.SetTrustedProxies]: by default gin believes X-Forwarded-For of
// everybody, and so it does of everybody on a unix socket or, of the header that
// [gin.Engine].TrustedPlatform names, wherever it comes from. The sources of
// package keyfuncs, lifted, believe nobody by default.
func ClientIP(c *gin.Context) (netip.Addr, error) {
	addr, err := netip.ParseAddr(c.ClientIP())
	if err != nil { // err has the text, which may be a client's
		return netip.Addr{}, errNoClientIP
	}
	return addr, nil
}

var errNoClientIP = fmt.Errorf("%w: gin found no IP address", keyfuncs.ErrUnidentified)
