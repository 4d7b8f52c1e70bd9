package keyfuncs

import (
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
// connection, [http.Request.RemoteAddr]. It fails if there is none: a unix
// socket, a pipe.
//
// To have another costs a client another machine or network, since the address
// has taken part in a TCP or QUIC handshake. Behind a proxy all clients share
// the proxy's.
func Peer(r *http.Request) (netip.Addr, error) {
	addr, err := parseHop(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, errPeer
	}
	return addr, nil
}
