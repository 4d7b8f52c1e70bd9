package grpcmw

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir/keyfuncs"
)

// Lift adapts a function of *http.Request to [*Call], by [Call.Request]. It is for LimitFor, and
// for the key functions of package keyfuncs that read an address, a certificate, or header fields,
// which are the metadata of a call:
//
//	Key: grpcmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
//	Key: grpcmw.Lift(keyfuncs.Header("x-tenant"))
//	Key: grpcmw.Lift(keyfuncs.BearerToken)
//	Key: grpcmw.Lift(keyfuncs.SPIFFEID)
//
// Combinators take lifted functions together with those of this package. If f is nil, the result is
// nil.
func Lift[T any](f func(*http.Request) (T, error)) func(*Call) (T, error) {
	if f == nil {
		return nil
	}
	return func(c *Call) (T, error) { return f(c.Request()) }
}

// Peer returns the address at the other end of the connection. It is [keyfuncs.Peer] without
// building an http.Request, for [keyfuncs.Address]:
//
//	Key: keyfuncs.Address(grpcmw.Peer)
//
// It fails over a unix socket and over a bufconn, which have no address. Another address costs a
// client another machine or network. Behind a proxy all clients share the proxy's address: see
// [keyfuncs.TrustedProxies].
func Peer(c *Call) (netip.Addr, error) {
	p, ok := peer.FromContext(c.Context)
	if !ok || p.Addr == nil {
		return keyfuncs.Peer(new(http.Request))
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone(""), nil
	}
	if network := p.Addr.Network(); network == "unix" || network == "unixpacket" {
		return keyfuncs.Peer(new(http.Request))
	}
	return keyfuncs.Peer((&http.Request{RemoteAddr: p.Addr.String()}).WithContext(c.Context))
}

// Method is the key function of the full method, such as "/package.Service/Method". All
// unregistered methods share the key "", if a handler of unknown services serves them. Method never
// fails.
//
// Another key costs a client nothing, but it can only choose among the methods you registered.
func Method(c *Call) (string, error) {
	if c.unregistered {
		return "", nil
	}
	return c.FullMethod, nil
}

// Service is the key function of the service, such as "package.Service": [Method] for all methods
// of a service together.
func Service(c *Call) (string, error) {
	if c.unregistered {
		return "", nil
	}
	service := strings.TrimPrefix(c.FullMethod, "/")
	return service[:max(0, strings.LastIndexByte(service, '/'))], nil
}
