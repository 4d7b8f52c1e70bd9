package connect2mw

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/weir-go/weir/keyfuncs"
)

// Lift adapts a function of *http.Request to [*Call], by [Call.Request]. It is for LimitFor, and
// for the key functions of package keyfuncs that read header fields, an address or a certificate:
//
//	Key: connect2mw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
//	Key: connect2mw.Lift(keyfuncs.Header("X-Tenant"))
//	Key: connect2mw.Lift(keyfuncs.BearerToken)
//	Key: connect2mw.Lift(keyfuncs.SPIFFEID)
//
// Combinators take lifted functions together with those of this package. If f is nil, the result is
// nil.
func Lift[T any](f func(*http.Request) (T, error)) func(*Call) (T, error) {
	if f == nil {
		return nil
	}
	return func(c *Call) (T, error) { return f(c.Request()) }
}

// Peer returns the address at the other end of the connection. It is [keyfuncs.Peer], for
// [keyfuncs.Address]:
//
//	Key: keyfuncs.Address(connect2mw.Peer)
//
// It fails over a unix socket and within a process, which have no address. Another address costs a
// client another machine or network. Behind a proxy all clients share the proxy's address: see
// [keyfuncs.TrustedProxies].
func Peer(c *Call) (netip.Addr, error) { return keyfuncs.Peer(c.Request()) }

// Method is the key function of the procedure, such as "/package.Service/Method". It never fails.
//
// Another key costs a client nothing, but it can only choose among the methods you registered. If
// the server has a handler for unknown methods, it may choose any name.
func Method(c *Call) (string, error) { return c.Spec.Procedure, nil }

// Service is the key function of the service, such as "package.Service": [Method] for all methods
// of a service together.
func Service(c *Call) (string, error) {
	service := strings.TrimPrefix(c.Spec.Procedure, "/")
	return service[:max(0, strings.LastIndexByte(service, '/'))], nil
}
