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

// TrustedProxies returns the [AddrSource] for servers behind proxies of known
// addresses that append to X-Forwarded-For. Hops are read from the right, the
// peer first: the first that is not in ranges is the client. So a peer that is
// not in ranges is the client, whatever header it sends, and what a client
// wrote is never reached.
//
// Ranges are CIDR ranges, single IP addresses, or "unix", which stands for a
// peer over a unix socket; without it such a peer is an error. None may cover all
// addresses. Every mistake is reported. Without ranges the source is [Peer], so
// that a program may leave them to its configuration; if a proxy is there all the
// same, all clients share its key.
//
// The source fails if a trusted peer sent no X-Forwarded-For (a load balancer's
// health check, perhaps: exempt its path), if all hops are trusted, if a hop it
// has to look at is not an IP address (with or without port), or after 64 hops.
//
// To have another address costs a client another machine or network, as long as
// every proxy in ranges appends its own peer's address. Trusting ranges that
// others can send from, such as those of a CDN that any customer of it can use,
// makes it free to them.
func TrustedProxies(ranges ...string) (AddrSource, error) {
	return trustedList("TrustedProxies", xForwardedFor, ranges)
}

// MustTrustedProxies is [TrustedProxies] for use at start-up: it panics on an error.
func MustTrustedProxies(ranges ...string) AddrSource { return must(TrustedProxies(ranges...)) }

// trustedList returns the source that reads list. Without ranges no peer is
// trusted, so that it is Peer.
func trustedList(constructor string, list *forwardList, ranges []string) (AddrSource, error) {
	trusted, err := parseProxies(constructor, ranges)
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) (netip.Addr, error) { return trusted.client(r, list) }, nil
}

// ProxyCount returns the [AddrSource] for servers behind exactly n proxies that
// each append to X-Forwarded-For, and whose addresses are unknown or change.
// The client is the n-th hop from the right. n is 1 to 64.
//
// The source fails if there are fewer than n hops or if the n-th is not an IP
// address. It does not look at the peer: only a firewall or network that lets
// nobody but the proxies connect makes it safe. If you know the proxies'
// addresses, [TrustedProxies] checks more.
//
// To have another address costs a client another machine or network, as long as
// all requests pass all n proxies. It is free to clients that can skip one.
func ProxyCount(n int) (AddrSource, error) {
	if n < 1 || n > maxHops {
		return nil, fmt.Errorf("keyfuncs: ProxyCount: number of proxies must be 1 to %d (got %d)", maxHops, n)
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

// MustProxyCount is [ProxyCount] for use at start-up: it panics on an error.
func MustProxyCount(n int) AddrSource { return must(ProxyCount(n)) }

func tooFew(err error) error {
	if err == errNoMoreHops {
		return errTooFewHops
	}
	return err
}
