package keyfuncs

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/weir-go/weir/core"
)

// Inside returns key, restricted to the requests whose address is in ranges. For all other requests
// it returns [core.ErrDoesNotApply]: the rule does not apply to them. source finds the address. Use
// it for a strict rule for known networks (a deny list):
//
//	strict, err := keyfuncs.Inside(source, listed, keyfuncs.Address(source))
//
// Ranges are CIDR ranges or single IP addresses. "0.0.0.0/0" is all IPv4 addresses, "::/0" all IPv6
// addresses. An IPv4-mapped address is IPv4, in ranges too. An IPv4 address that a translator has
// embedded in IPv6 is IPv6, as in [Address]. Zones are dropped. Every mistake in ranges is
// reported. Without ranges the rule applies to no request. A look-up among 100,000 ranges takes
// less than a microsecond and allocates nothing.
//
// A request without a known address is neither inside nor outside. The key function returns an
// error of source unchanged, whatever the ranges, and the limiter answers the request as
// unavailable. A rule that fails open would allow it, so do not let this rule fail open. If source
// returns core.ErrAbsent, the rule applies, and all such requests count together.
//
// To count requests without a known address together, put [OrShared] around the result. Do not use
// [OrPeer] as source: a client that makes the inner source fail has the address of its proxy. It
// leaves the ranges, or enters them if the proxy is in them. [First] and [Join] return
// core.ErrDoesNotApply at once, so put Inside around the whole key.
//
// Another key costs a client as much as with key alone. To enter or leave the ranges costs another
// address: see the documentation of source.
func Inside[R any](
	source func(R) (netip.Addr, error), ranges []string, key func(R) (string, error),
) (func(R) (string, error), error) {
	return restricted("Inside", source, ranges, key, true)
}

// MustInside is [Inside] for use at start-up. It panics on an error.
func MustInside[R any](
	source func(R) (netip.Addr, error), ranges []string, key func(R) (string, error),
) func(R) (string, error) {
	return must(Inside(source, ranges, key))
}

// Outside is the opposite of [Inside]: the rule applies to the requests whose address is not in
// ranges. Use it to exempt known networks (an allow list). Without ranges the rule applies to every
// request.
//
// A request without a known address is not exempt: an error of source is the result, as with
// Inside. Do not use [OrPeer] as source: a client that makes the inner source fail is exempt if its
// proxy is in ranges.
//
// Another key costs a client as much as with Inside.
func Outside[R any](
	source func(R) (netip.Addr, error), ranges []string, key func(R) (string, error),
) (func(R) (string, error), error) {
	return restricted("Outside", source, ranges, key, false)
}

// MustOutside is [Outside] for use at start-up. It panics on an error.
func MustOutside[R any](
	source func(R) (netip.Addr, error), ranges []string, key func(R) (string, error),
) func(R) (string, error) {
	return must(Outside(source, ranges, key))
}

// restricted returns key, restricted to the requests whose address is in ranges, or is not in
// ranges if inside is false.
func restricted[R any](
	constructor string, source func(R) (netip.Addr, error), ranges []string,
	key func(R) (string, error), inside bool,
) (func(R) (string, error), error) {
	var errs []error
	if source == nil {
		errs = append(errs, fmt.Errorf("keyfuncs: %s: source must not be nil", constructor))
	}
	if key == nil {
		errs = append(errs, fmt.Errorf("keyfuncs: %s: key must not be nil", constructor))
	}
	set, err := parseRanges(constructor, ranges, parseRange)
	if err != nil {
		errs = append(errs, err)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return func(r R) (string, error) {
		addr, err := source(r)
		if err != nil {
			return "", err
		}
		if addr, err = clean(addr); err != nil {
			return "", err
		}
		if set.contains(addr) != inside {
			return "", core.ErrDoesNotApply
		}
		return key(r)
	}, nil
}
