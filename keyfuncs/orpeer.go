package keyfuncs

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/weir-go/weir/core"
)

// OrPeer returns the [AddrSource] that is source, and [Peer] for the requests of
// which source cannot tell the client. It is for programs that cannot know what
// stands in front of them, and for health checks that a load balancer sends
// itself. It fails where Peer fails too. If source is nil, so is the result.
//
// To have another address costs a client what source says, or a request that
// makes source fail. Such a request is counted by the address of the proxy it
// came through, together with all others of that kind, and one client can use up
// what they share. Nobody gets a key of one's own for free, but a client may have
// the proxy's besides: do not exempt the proxy's address from a limit. Nothing
// reports any more that source does not fit.
func OrPeer(source AddrSource) AddrSource {
	if source == nil {
		return nil
	}
	return func(r *http.Request) (netip.Addr, error) {
		addr, err := source(r)
		if err == nil {
			addr, err = clean(addr)
		}
		if err == nil || errors.Is(err, core.ErrDoesNotApply) {
			return addr, err
		}
		return Peer(r)
	}
}
