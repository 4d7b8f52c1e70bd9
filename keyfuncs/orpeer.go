package keyfuncs

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/weir-go/weir/core"
)

// OrPeer returns the [AddrSource] that calls source and, if source fails, [Peer]. It is for
// programs that cannot know their network, and for health checks that a load balancer sends itself.
// It fails if Peer fails too. If source is nil, the result is nil.
//
// Another address costs a client as much as with source alone, or a request that makes source fail.
// Such a request counts by the address of its proxy, together with all such requests through that
// proxy, and one client can use up their limit. No client gets a new key of its own for free, but
// it may use the proxy's key beside its own: do not exempt the proxy's address from a limit. OrPeer
// hides a source that does not describe the network: nothing reports it.
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
