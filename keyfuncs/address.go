package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"

	"github.com/weir-go/weir/internal/ground/address"
)

// Address returns the key function of the client's address, as source finds it. An IPv4 address is
// its own key; an IPv6 address counts by its /64. Keys are canonical texts such as "203.0.113.7"
// and "2001:db8:1:2::/64", never text from a header. The key function fails if source fails. If
// source is nil, the result is nil.
//
// A host chooses the last 64 bits of its IPv6 address freely (RFC 8981), so a host could evade a
// limit on single IPv6 addresses. IPv4 addresses that a translator has embedded in IPv6 (RFC 6052,
// 6to4) count as IPv6. If all your IPv4 clients come through such a translator they share one key,
// unless an [AddrSource] of your own extracts their addresses.
//
// source may also take another type of request, such as a function that returns the client address
// of a web framework.
//
// Another key costs a client as much as another address: see the documentation of source. With IPv6
// it costs another network, of which an end site may have 256 (/56) or 65,536 (/48) (RFC 6177).
func Address[R any](source func(R) (netip.Addr, error)) func(R) (string, error) {
	return addressKey(source, 64)
}

// AddressPrefix is [Address] with IPv6 addresses counted by their first ipv6Bits bits, 32 to 128.
// Providers assign /48 to /64. Fewer bits put whole neighbourhoods under one key; more bits give a
// single host many keys.
func AddressPrefix[R any](
	source func(R) (netip.Addr, error), ipv6Bits int,
) (func(R) (string, error), error) {
	var errs []error
	if source == nil {
		errs = append(errs, errors.New("keyfuncs: AddressPrefix: source must not be nil"))
	}
	if ipv6Bits < 32 || ipv6Bits > 128 {
		errs = append(errs,
			fmt.Errorf("keyfuncs: AddressPrefix: IPv6 bits must be 32 to 128 (got %d)", ipv6Bits))
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return addressKey(source, ipv6Bits), nil
}

// MustAddressPrefix is [AddressPrefix] for use at start-up. It panics on an error.
func MustAddressPrefix[R any](
	source func(R) (netip.Addr, error), ipv6Bits int,
) func(R) (string, error) {
	return must(AddressPrefix(source, ipv6Bits))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func addressKey[R any](source func(R) (netip.Addr, error), ipv6Bits int) func(R) (string, error) {
	if source == nil {
		return nil
	}
	direct := isPeer(source)
	return func(r R) (string, error) {
		request, ok := any(r).(*http.Request)
		if direct { // saves reading RemoteAddr twice, 6% of a request
			if _, text := ipv4Peer(request); text != "" {
				return text, nil
			}
		}
		addr, err := source(r)
		if err != nil {
			return "", err
		}
		if addr, err = clean(addr); err != nil {
			return "", err
		}
		// The text of an IPv4 peer is already canonical. Sharing it with the request saves the only
		// allocation of this function.
		if ok {
			if peer, host := address.IPv4(request.RemoteAddr); host > 0 && peer == addr {
				return request.RemoteAddr[:host], nil
			}
		}
		var buf [address.MaxKey]byte
		return string(address.AppendKey(buf[:0], addr, ipv6Bits)), nil
	}
}

// isPeer reports whether source is [Peer] itself. No other function has its code.
func isPeer[R any](source func(R) (netip.Addr, error)) bool {
	return reflect.ValueOf(source).Pointer() == reflect.ValueOf(Peer).Pointer()
}
