package ginmw

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/keyfuncs"
)

// Lift adapts a function of *http.Request to *gin.Context. It is for the key functions
// of package keyfuncs. Combinators take lifted functions
// together with those of this package. If f is nil, the result is nil.
func Lift[T any](f func(*http.Request) (T, error)) func(*gin.Context) (T, error) {
	if f == nil {
		return nil
	}
	return func(c *gin.Context) (T, error) { return f(c.Request) }
}

// LiftCondition adapts a condition of *http.Request, such as that of nethttp.Probes, to
// *gin.Context. It is for [core.When] and [core.Unless], and for conditions of a shedder. If f
// is nil, the result is nil.
func LiftCondition(f func(*http.Request) bool) func(*gin.Context) bool {
	if f == nil {
		return nil
	}
	return func(c *gin.Context) bool { return f(c.Request) }
}

// LiftDenied adapts a Denied of package nethttp, such as that of agents.Verifier.Challenge, for
// [Config].Denied. If denied is nil, the result is nil.
func LiftDenied(denied func(http.ResponseWriter, *http.Request, core.Outcome)) func(*gin.Context, core.Outcome) {
	if denied == nil {
		return nil
	}
	return func(c *gin.Context, o core.Outcome) { denied(c.Writer, c.Request, o) }
}

// RoutePattern is the key function of the pattern that gin routed the request by, such as
// "/users/:id", without the method. The key is "" if no pattern matched: all 404s and 405s share
// one key, and [keyfuncs.Join] keeps its other parts. RoutePattern never fails.
//
// Another key costs a client nothing, but it can only choose among the patterns you registered.
func RoutePattern(c *gin.Context) (string, error) { return c.FullPath(), nil }

// PathParam returns the key function of a parameter in the path, such as "id" of "/users/:id". The
// value is the one that c.Param returns. It is unescaped, so that one thing has one key, unless you
// set UseRawPath or UseEscapedPath of the engine without UnescapePathValues. If the parameter is
// missing or empty, the key is core.ErrAbsent. A value of more than 64 bytes is represented by its
// digest, as in [keyfuncs.Header]. If name is empty, the result is nil.
//
// Another key costs a client nothing, and there may be endless keys: PathParam limits requests for
// one thing, not requests of one client.
func PathParam(name string) func(*gin.Context) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(c *gin.Context) any { return c.Param(name) })
}

// ContextValue returns the key function of a value that an earlier handler stored with
// c.Set(name, value), such as the id of a user. The value is a string, an integer or a
// fmt.Stringer, as in [keyfuncs.Value]. Without it the key is core.ErrAbsent. If name
// is empty, the result is nil.
//
// Another key costs a client what that handler demands for another value.
func ContextValue(name string) func(*gin.Context) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(c *gin.Context) any {
		value, _ := c.Get(name)
		return value
	})
}

// ClientIP returns the address that c.ClientIP returns. It is for programs that configure trusted
// proxies in the engine and want to do so in one place:
//
//	Key: keyfuncs.Address(ginmw.ClientIP)
//
// It fails if gin finds no address.
//
// Another address costs a client nothing until you call [gin.Engine.SetTrustedProxies], because by
// default gin believes X-Forwarded-For from any client. Even after that call, gin believes any
// client on a unix socket, and believes the header named by [gin.Engine].TrustedPlatform from any
// client. The sources of package keyfuncs, lifted, believe no client by default.
func ClientIP(c *gin.Context) (netip.Addr, error) {
	addr, err := netip.ParseAddr(c.ClientIP())
	if err != nil { // drop err: its text may come from a client
		return netip.Addr{}, errNoClientIP
	}
	return addr, nil
}

var errNoClientIP error = &failure.Safe{
	Err: fmt.Errorf("%w: gin found no IP address", keyfuncs.ErrUnidentified),
}
