package keyfuncs

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
)

// proxies is a set of trusted peers and hops.
type proxies struct {
	ranges rangeSet
	unix   bool // trusts peers over a unix socket too
}

var (
	errNoProxies = errors.New(`must be a CIDR range, an IP address without zone, or "unix"`)
	errTrustsAll = errors.New("trusts every address: list only the addresses of your proxies")
)

// parseProxies parses CIDR ranges, single IP addresses and "unix". It reports every
// mistake among them under the name of constructor.
func parseProxies(constructor string, texts []string) (*proxies, error) {
	isUnix := func(text string) bool { return text == "unix" }
	unix := slices.ContainsFunc(texts, isUnix)
	ranges, err := parseRanges(constructor, slices.DeleteFunc(slices.Clone(texts), isUnix),
		parseProxyRange)
	return &proxies{ranges, unix}, err
}

func parseProxyRange(text string) (netip.Prefix, error) {
	prefix, err := parseRange(text)
	if err == errNoRange {
		return netip.Prefix{}, errNoProxies
	}
	if err == nil && prefix.Bits() == 0 {
		return netip.Prefix{}, errTrustsAll
	}
	return prefix, err
}

// peer returns the address at the other end of the connection, and whether p trusts it.
// Over a trusted unix socket it returns no address and true.
func (p *proxies) peer(r *http.Request) (addr netip.Addr, trusted bool, err error) {
	if p.unix && overUnixSocket(r) {
		return netip.Addr{}, true, nil
	}
	addr, err = Peer(r)
	return addr, err == nil && p.ranges.contains(addr), err
}

// client returns the peer if p does not trust it, otherwise the rightmost hop that p does not
// trust. If p trusts all hops, it returns the farthest, which a trusted proxy has written.
func (p *proxies) client(r *http.Request, list *forwardList) (netip.Addr, error) {
	addr, trusted, err := p.peer(r)
	if err != nil || !trusted {
		return addr, err
	}
	hops := list.of(r)
	for first := true; ; first = false {
		hop, err := hops.next()
		switch {
		case err == errNoMoreHops && first:
			return netip.Addr{}, errMissing
		case err == errNoMoreHops:
			return addr, nil
		case err != nil:
			return netip.Addr{}, err
		}
		if addr, err = list.parse(hop); err != nil || !p.ranges.contains(addr) {
			return addr, err
		}
	}
}
