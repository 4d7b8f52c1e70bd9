package keyfuncs

import (
	"net"
	"net/http"
	"net/netip"

	"github.com/weir-go/weir/internal/ground/address"
)

// AddrSource finds the address of the client that sent a request. It trusts the parts of a request
// that its documentation names. It returns an IPv4 address that is not mapped into IPv6, or an IPv6
// address without a zone, and never the unspecified address. It returns an error if the request
// contradicts that trust.
//
// An AddrSource is safe for concurrent use. Write your own if no source of this package describes
// your network. [Address] accepts any source and converts its result into the form above.
type AddrSource = func(*http.Request) (netip.Addr, error)

// Peer is the [AddrSource] that returns the address at the other end of the connection,
// [http.Request.RemoteAddr]. It fails if there is no such address: over a pipe, and over a unix
// socket, whatever name the client has bound its end to.
//
// It also fails if RemoteAddr has no port. net/http always writes one, so middleware has
// overwritten RemoteAddr. chi's RealIP and gorilla's ProxyHeaders do, with a header that any client
// can send. Remove them, and describe your proxies to [TrustedProxies] or [SingleHeader]. If the
// middleware believes named proxies alone, use [TrustedRemoteAddr].
//
// Another address costs a client another machine or network, because it must complete a TCP or QUIC
// handshake from that address. This holds as long as nothing overwrites RemoteAddr. Peer cannot
// detect middleware that writes an address with a port, as ProxyHeaders does if the header has one;
// another address is free then. Behind a proxy all clients share the proxy's address.
func Peer(r *http.Request) (netip.Addr, error) {
	if addr, text := ipv4Peer(r); text != "" {
		return addr, nil
	}
	addr, hasPort, err := address.Parse(r.RemoteAddr)
	if err != nil || overUnixSocket(r) {
		return netip.Addr{}, errPeer
	}
	if !hasPort {
		return netip.Addr{}, errOverwritten
	}
	return addr, nil
}

// ipv4Peer is [Peer] for IPv4. text is the address as RemoteAddr has it, which is its canonical text,
// or "" if Peer must read RemoteAddr.
func ipv4Peer(r *http.Request) (addr netip.Addr, text string) {
	addr, host := address.IPv4(r.RemoteAddr)
	if host == 0 || host == len(r.RemoteAddr) || overUnixSocket(r) {
		return netip.Addr{}, ""
	}
	return addr, r.RemoteAddr[:host]
}

// overUnixSocket reports whether r came over a unix socket. It checks the address of the listener.
// The peer's address, in RemoteAddr, is "@" or a name that a local process may choose.
func overUnixSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	network := local.Network()
	return network == "unix" || network == "unixpacket"
}
