package keyfuncs

import (
	"net"
	"net/http"
	"net/netip"
)

// AddrSource finds the address of the client that sent a request, by one model
// of what can be trusted. It returns an IPv4 address as such, never mapped into
// IPv6, without zone, and never the unspecified address; or an error if the
// request does not fit the model.
//
// It is safe for concurrent use. Write your own for what none of this package's
// sources describes; [Address] accepts any, and puts its result into that form.
type AddrSource = func(*http.Request) (netip.Addr, error)

// Peer is the [AddrSource] that returns the address at the other end of the
// connection, [http.Request.RemoteAddr]. It fails if there is none: over a unix
// socket, whatever name the client has bound itself to, and a pipe.
//
// It also fails if RemoteAddr has no port, as net/http always writes one: then
// middleware has put something else there. chi's RealIP and gorilla's ProxyHeaders
// do, with what a header says that anybody can send. Remove them, and describe
// your proxies to [TrustedProxies] or [SingleHeader]. Where RemoteAddr is bare and
// true, as in some adapters for AWS Lambda, write an [AddrSource] that reads it.
//
// To have another address costs a client another machine or network, since it has
// taken part in a TCP or QUIC handshake, as long as nothing overwrites RemoteAddr.
// Middleware that writes a port too, as ProxyHeaders does if the header has one,
// cannot be noticed, and makes it free. Behind a proxy all clients share the
// proxy's.
func Peer(r *http.Request) (netip.Addr, error) {
	host, port, bare, ok := cutPort(r.RemoteAddr)
	if !ok || !bare && !isPort(port) {
		return netip.Addr{}, errPeer
	}
	addr, err := parseHost(host, r.RemoteAddr[0] == '[')
	if err != nil || overUnixSocket(r) {
		return netip.Addr{}, errPeer
	}
	if bare {
		return netip.Addr{}, errOverwritten
	}
	return addr, nil
}

// overUnixSocket goes by the listener's own address: the peer's, in RemoteAddr,
// is a name that a local process may choose, or "@".
func overUnixSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	network := local.Network()
	return network == "unix" || network == "unixpacket"
}
