package keyfuncs

import (
	"fmt"
	"net/http"
	"net/netip"
)

var xForwardedFor = &forwardList{
	header:    "X-Forwarded-For",
	lastComma: lastComma,
	parse:     parseHop,
}

// TrustedProxies returns the [AddrSource] for servers behind proxies of known addresses that append
// to X-Forwarded-For. The source reads the hops from the right, the peer first. The client is the
// first hop that is not in ranges. A peer that is not in ranges is therefore the client, whatever
// header it sends, and the source never reads text that a client wrote.
//
// Ranges are CIDR ranges, single IP addresses, or "unix". "unix" trusts peers over a unix socket;
// without it, such a peer is an error. No range may cover all addresses. Every mistake is reported.
// Without ranges the source is [Peer], so that a program may leave them to its configuration. If
// there is a proxy all the same, all clients share its key.
//
// If all hops are in ranges, the farthest is the client, as for nginx, Express and Rails: a program
// on the machine of a proxy, such as curl on the local host, or a proxy itself.
//
// The source fails if a trusted peer sent no X-Forwarded-For, as a load balancer's health check may
// (exempt its path), or if the proxy does not append to it. It fails if a hop that it has to read
// is not an IP address (with or without port), and after 64 hops.
//
// Another address costs a client another machine or network, as long as every proxy in ranges
// appends the address of its own peer. It is free for clients that send from ranges themselves:
// they may claim any address, in ranges or not. So leave out addresses from which others can send,
// such as those of a CDN that any customer of it can use.
func TrustedProxies(ranges ...string) (AddrSource, error) {
	return trustedList("TrustedProxies", xForwardedFor, ranges)
}

// MustTrustedProxies is [TrustedProxies] for use at start-up. It panics on an error.
func MustTrustedProxies(ranges ...string) AddrSource { return must(TrustedProxies(ranges...)) }

// trustedList returns the source that reads list. Without ranges it trusts no peer, so
// it is Peer.
func trustedList(constructor string, list *forwardList, ranges []string) (AddrSource, error) {
	trusted, err := parseProxies(constructor, ranges)
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) (netip.Addr, error) { return trusted.client(r, list) }, nil
}

// ProxyCount returns the [AddrSource] for servers behind exactly n proxies that each append to
// X-Forwarded-For and whose addresses are unknown or change. The client is the n-th hop from the
// right. n is 1 to 64.
//
// The source fails if there are fewer than n hops or if the n-th is not an IP address. It does not
// check the peer, so it is safe only behind a firewall or network that lets only the proxies
// connect. If you know the addresses of the proxies, [TrustedProxies] checks more.
//
// Another address costs a client another machine or network, as long as all requests pass all n
// proxies. It is free for clients that can bypass one.
func ProxyCount(n int) (AddrSource, error) {
	if n < 1 || n > maxHops {
		return nil,
			fmt.Errorf("keyfuncs: ProxyCount: number of proxies must be 1 to %d (got %d)", maxHops,
				n)
	}
	return func(r *http.Request) (netip.Addr, error) {
		hops := xForwardedFor.of(r)
		for range n - 1 {
			if _, err := hops.next(); err != nil {
				return netip.Addr{}, tooFew(err)
			}
		}
		hop, err := hops.next()
		if err != nil {
			return netip.Addr{}, tooFew(err)
		}
		return xForwardedFor.parse(hop)
	}, nil
}

// MustProxyCount is [ProxyCount] for use at start-up. It panics on an error.
func MustProxyCount(n int) AddrSource { return must(ProxyCount(n)) }

func tooFew(err error) error {
	if err == errNoMoreHops {
		return errTooFewHops
	}
	return err
}
