package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
)

// proxies is a set of peers and hops that are trusted.
type proxies struct {
	ranges []netip.Prefix
	unix   bool // peers over a unix socket are trusted too
}

// parseProxies parses CIDR ranges, single IP addresses and "unix". It reports every
// mistake among them under the name of constructor.
func parseProxies(constructor string, texts []string) (*proxies, error) {
	p := new(proxies)
	var errs []error
	for _, text := range texts {
		if text == "unix" {
			p.unix = true
			continue
		}
		prefix, err := parseRange(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("keyfuncs: %s: range %q: %w", constructor, text, err))
			continue
		}
		p.ranges = append(p.ranges, prefix)
	}
	return p, errors.Join(errs...)
}

func parseRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, errors.New(`must be a CIDR range, an IP address without zone, or "unix"`)
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if addr := prefix.Addr(); addr.Is4In6() {
		if prefix.Bits() < 96 {
			return netip.Prefix{}, errors.New("covers more than the IPv4 addresses mapped into IPv6: write an IPv4 range")
		}
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	if prefix.Bits() == 0 {
		return netip.Prefix{}, errors.New("trusts every address: list only the addresses of your proxies")
	}
	return prefix.Masked(), nil
}

// peer returns the address at the other end of the connection, and whether p trusts it.
// Over a trusted unix socket it returns no address and true.
func (p *proxies) peer(r *http.Request) (addr netip.Addr, trusted bool, err error) {
	if p.unix && overUnixSocket(r) {
		return netip.Addr{}, true, nil
	}
	addr, err = Peer(r)
	return addr, err == nil && p.contains(addr), err
}

func (p *proxies) contains(addr netip.Addr) bool {
	for _, prefix := range p.ranges {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// client returns the peer if p does not trust it, otherwise the rightmost hop that p
// does not trust.
func (p *proxies) client(r *http.Request, list *forwardList) (netip.Addr, error) {
	addr, trusted, err := p.peer(r)
	if err != nil || !trusted {
		return addr, err
	}
	hops := list.of(r)
	ifNone := errMissing
	for {
		hop, err := hops.next()
		if err == errNoMoreHops {
			return netip.Addr{}, ifNone
		}
		if err != nil {
			return netip.Addr{}, err
		}
		if addr, err = list.parse(hop); err != nil || !p.contains(addr) {
			return addr, err
		}
		ifNone = errAllTrusted
	}
}
