package keyfuncs

import (
	"net/http"
	"net/netip"
)

// WithPeer returns the [AddrSource] that is source, with what peer returns in the
// place of [http.Request.RemoteAddr]. It is for servers whose RemoteAddr is not the
// peer's, because middleware writes another address into it and keeps the true one
// elsewhere, such as in the request's context.
//
// peer returns an address with port, as net/http writes it. Without a port it is
// refused, as [Peer] says: net.JoinHostPort(address, "0") adds one where the
// address is known to be true. "" is an error as well. A request over a unix
// socket stays one. source gets a shallow copy of the request. If either argument
// is nil, so is the result.
//
// To have another address costs a client what source says, as long as no client
// can write what peer returns. [ProxyCount], and a [SingleHeader] without ranges,
// do not look at the peer.
func WithPeer(peer func(*http.Request) string, source AddrSource) AddrSource {
	if peer == nil || source == nil {
		return nil
	}
	return func(r *http.Request) (netip.Addr, error) {
		seen := *r
		seen.RemoteAddr = peer(r)
		return source(&seen)
	}
}
