package keyfuncs

import (
	"net/http"
	"net/netip"
)

// WithPeer returns the [AddrSource] that calls source with the result of peer in place of
// [http.Request.RemoteAddr]. It is for servers with middleware that overwrites RemoteAddr and keeps
// the true peer elsewhere, such as in the request's context.
//
// peer returns an address with a port, as net/http writes it. An address without a port is refused,
// as in [Peer]; if you know that the address is true, add a port with net.JoinHostPort(address,
// "0"). An empty text is an error too. A request over a unix socket remains one. source gets a
// shallow copy of the request. If either argument is nil, the result is nil.
//
// Another address costs a client as much as with source alone, as long as no client can write the
// result of peer. [ProxyCount], and a [SingleHeader] without ranges, do not look at the peer.
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
