package keyfuncs

import (
	"net/netip"

	"github.com/weir-go/weir/internal/ground/address"
)

// parseHop parses an IP address as proxies write it in X-Forwarded-For.
func parseHop(s string) (netip.Addr, error) {
	addr, _, err := address.Parse(s)
	return unidentifiedHop(addr, err)
}

// parseNode parses the IP address of an RFC 7239 node.
func parseNode(s string) (netip.Addr, error) {
	return unidentifiedHop(address.ParseNode(s))
}

// clean is [address.Clean] with errors of this package.
func clean(addr netip.Addr) (netip.Addr, error) {
	return unidentifiedHop(address.Clean(addr))
}

// unidentifiedHop replaces an error of package address with one of this package.
func unidentifiedHop(addr netip.Addr, err error) (netip.Addr, error) {
	switch err {
	case nil:
		return addr, nil
	case address.ErrUnspecified:
		return netip.Addr{}, errAddress
	}
	return netip.Addr{}, errHop
}
