package keyfuncs

import (
	"net/http"
	"net/netip"

	"github.com/weir-go/weir/internal/ground/address"
)

// TrustedRemoteAddr is the [AddrSource] that returns [http.Request.RemoteAddr] as earlier
// middleware has left it, with a port or without one. It is for programs whose middleware has found the
// client already, and for servers that net/http does not run, such as adapters for AWS Lambda. It fails
// if RemoteAddr is not one IP address.
//
// It trusts that middleware, and nothing else: it cannot see whom the middleware has believed. Use
// it only behind middleware that believes proxies which you have named to it. Where the middleware
// leaves RemoteAddr as it was, the peer counts, as with [Peer]; over a unix socket that is a name
// which the peer may choose.
//
// Another address costs a client what the middleware demands. It costs nothing behind middleware
// that believes every peer: chi's RealIP, ProxyHeaders of gorilla/handlers, and RealIP of
// go-pkgz/rest do if a client can reach the server past its proxy, and the first two if the proxy
// passes on what the client has sent. Describe your proxies to [TrustedProxies] in place of these.
func TrustedRemoteAddr(r *http.Request) (netip.Addr, error) {
	addr, _, err := address.Parse(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, errPeer
	}
	return addr, nil
}
