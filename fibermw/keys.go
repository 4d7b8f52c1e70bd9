package fibermw

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/internal/ground/address"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/keyfuncs"
)

// Peer returns the address at the other end of the connection, as [keyfuncs.Peer] does, without an
// http.Request:
//
//	Key: keyfuncs.Address(fibermw.Peer)
//
// It fails if there is no such address, as over a unix socket.
//
// Another address costs a client another machine or network, because it must complete a TCP
// handshake from that address. Behind a proxy all clients share the proxy's address: there, lift a
// source of keyfuncs such as [keyfuncs.TrustedProxies].
func Peer(c fiber.Ctx) (netip.Addr, error) {
	ctx := c.RequestCtx()
	if tcp, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		if addr, err := address.Clean(tcp.AddrPort().Addr()); err == nil {
			return addr, nil
		}
	}
	return keyfuncs.Peer(Request(c)) // an address of another kind, or none
}

// Header returns the key function of a header's value, as [keyfuncs.Header] does, without copying
// the other fields of the request. If name is not the name of a header of one line, the result is
// nil.
//
// Another key costs a client nothing, unless something in front of the limiter sets or checks the
// header. See [keyfuncs.Known].
func Header(name string) func(fiber.Ctx) (string, error) {
	key := keyfuncs.Header(name)
	if key == nil {
		return nil
	}
	name = http.CanonicalHeaderKey(name)
	return func(c fiber.Ctx) (string, error) {
		f := fields.Get().(*field)
		defer fields.Put(f)
		clear(f.request.Header)
		f.lines = f.lines[:0]
		for _, line := range c.Request().Header.PeekAll(name) {
			f.lines = append(f.lines, string(line))
		}
		f.request.Header[name] = f.lines
		return key(&f.request)
	}
}

// field is a request with one field.
type field struct {
	request http.Request
	lines   []string
}

var fields = sync.Pool{New: func() any {
	return &field{request: http.Request{Header: make(http.Header)}}
}}

// RoutePattern is the key function of the route that answers the request, such as "/users/:id",
// without the method. It is for middleware of a route: Fiber finds the route of a request after the
// middleware of Use and of groups has run. There RoutePattern fails with [keyfuncs.ErrTooEarly].
//
// Another key costs a client nothing, but it can only choose among the routes you registered.
func RoutePattern(c fiber.Ctx) (string, error) {
	if !c.Matched() {
		return "", errNoRoute
	}
	return c.FullPath(), nil
}

var errNoRoute error = &failure.Safe{
	Err: fmt.Errorf("%w: Fiber looks for the route after Use and groups: "+
		"put the limiter into the routes", keyfuncs.ErrTooEarly),
}

func pattern(c fiber.Ctx) string {
	if !c.Matched() {
		return ""
	}
	return c.FullPath()
}

// PathParam returns the key function of a parameter in the path, such as "id" of "/users/:id". The
// value is unescaped, whether the app has UnescapePath set or not: "/users/%61" has the key of
// "/users/a". It is for middleware of a route: in Use and groups whose path has no such parameter it
// fails with [keyfuncs.ErrTooEarly]. If the parameter is missing or empty, the key is
// core.ErrAbsent. A value of more than 64 bytes is represented by its digest, as
// in [keyfuncs.Header]. If name is empty, the result is nil.
//
// Another key costs a client nothing, and there may be endless keys: PathParam limits requests for
// one thing, not requests of one client.
func PathParam(name string) func(fiber.Ctx) (string, error) {
	if name == "" {
		return nil
	}
	value := keyfuncs.Value(func(c fiber.Ctx) any { return pathParam(c, name) })
	return func(c fiber.Ctx) (string, error) {
		if !c.Matched() && !slices.Contains(c.Route().Params, name) {
			return "", errNoRoute
		}
		return value(c)
	}
}

// pathParam returns c.Params(name), unescaped unless Fiber has done so.
func pathParam(c fiber.Ctx, name string) string {
	value := c.Params(name)
	if !strings.Contains(value, "%") || c.App().Config().UnescapePath {
		return value
	}
	unescaped, err := url.PathUnescape(value)
	if err != nil {
		return value
	}
	return unescaped
}

// ContextValue returns the key function of a value that earlier middleware stored with
// c.Locals(name, value), such as the id of a user. The value is a string, an integer or a
// fmt.Stringer, as in [keyfuncs.Value]. Without it the key is core.ErrAbsent. If name
// is empty, the result is nil.
//
// Another key costs a client what that middleware demands for another value.
func ContextValue(name string) func(fiber.Ctx) (string, error) {
	if name == "" {
		return nil
	}
	return keyfuncs.Value(func(c fiber.Ctx) any { return c.Locals(name) })
}

// IP returns the address that c.IP returns. It is for programs that set TrustProxy and ProxyHeader
// of fiber.Config and want to configure trust in one place:
//
//	Key: keyfuncs.Address(fibermw.IP)
//
// It fails if c.IP is not one address. Without EnableIPValidation c.IP is the whole header, so it
// fails if there were several proxies.
//
// Another address costs a client what that configuration demands. With ProxyHeader alone, without
// TrustProxy, Fiber uses the address of the connection. With EnableIPValidation and no list of
// proxies, Fiber returns the leftmost address, which any client can choose.
func IP(c fiber.Ctx) (netip.Addr, error) {
	addr, err := netip.ParseAddr(c.IP())
	if err != nil || addr.Zone() != "" { // drop err: its text may come from a client
		return netip.Addr{}, errNoIP
	}
	return addr, nil
}

var errNoIP error = &failure.Safe{
	Err: fmt.Errorf("%w: c.IP is not one IP address", keyfuncs.ErrUnidentified),
}
