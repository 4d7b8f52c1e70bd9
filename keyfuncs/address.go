package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Address returns the key function of the client's address as source finds it:
// an IPv4 address whole, an IPv6 address by its /64. The keys are canonical
// texts such as "203.0.113.7" and "2001:db8:1:2::/64", never text from a
// header. It fails when source fails. If source is nil, so is the result.
//
// A host chooses the last 64 bits of its IPv6 address freely (RFC 8981), so
// counting single IPv6 addresses limits nobody. IPv4 addresses that a
// translator has embedded in IPv6 (RFC 6052, 6to4) count as IPv6. If all your
// IPv4 clients come through such a translator, unwrap theirs in an [AddrSource]
// of your own, or they share one key.
//
// source may also be one for another type of request, such as the address that
// a web framework has found in its own way.
//
// To have another key costs a client what source says; with IPv6, another
// network: an end site may have 256 (/56) or 65,536 (/48) of them (RFC 6177).
func Address[R any](source func(R) (netip.Addr, error)) func(R) (string, error) {
	return addressKey(source, 64)
}

// AddressPrefix is [Address] with IPv6 addresses counted by their first
// ipv6Bits bits, 32 to 128. Providers hand out /48 to /64: fewer bits put whole
// neighbourhoods under one key, more bits give a single host many.
func AddressPrefix[R any](source func(R) (netip.Addr, error), ipv6Bits int) (func(R) (string, error), error) {
	var errs []error
	if source == nil {
		errs = append(errs, errors.New("keyfuncs: AddressPrefix: source must not be nil"))
	}
	if ipv6Bits < 32 || ipv6Bits > 128 {
		errs = append(errs, fmt.Errorf("keyfuncs: AddressPrefix: IPv6 bits must be 32 to 128 (got %d)", ipv6Bits))
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return addressKey(source, ipv6Bits), nil
}

// MustAddressPrefix is [AddressPrefix] for use at start-up: it panics on an error.
func MustAddressPrefix[R any](source func(R) (netip.Addr, error), ipv6Bits int) func(R) (string, error) {
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
	return func(r R) (string, error) {
		addr, err := source(r)
		if err != nil {
			return "", err
		}
		if addr, err = clean(addr); err != nil {
			return "", err
		}
		var buf [maxAddrText + len("/128")]byte
		if addr.Is6() && ipv6Bits < 128 {
			prefix, _ := addr.Prefix(ipv6Bits) // no error: both were checked
			return string(prefix.AppendTo(buf[:0])), nil
		}
		text := addr.AppendTo(buf[:0])
		// An IPv4 peer's text is canonical already: sharing it with the
		// request saves the one allocation of this function.
		if r, ok := any(r).(*http.Request); ok && strings.HasPrefix(r.RemoteAddr, string(text)) {
			return r.RemoteAddr[:len(text)], nil
		}
		return string(text), nil
	}
}
