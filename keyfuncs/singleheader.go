package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
)

// SingleHeader returns the [AddrSource] for servers behind a proxy that writes
// the client's address into the header name and replaces whatever the client
// sent there. If ranges are given, only peers in them are believed, and any
// other peer is itself the client; ranges are those of [TrustedProxies].
// Without ranges every peer is believed, unlike with TrustedProxies: only a
// firewall that lets nobody but the proxy connect makes that safe.
//
// Check that your proxy really replaces the header. Many are passed on as the
// client sent them unless configured: True-Client-IP, X-Real-IP,
// Fastly-Client-IP, X-Azure-ClientIP. X-Forwarded-For and Forwarded are refused
// here, since their last hop alone may be true: see [TrustedProxies],
// [ProxyCount] and [Forwarded].
//
// The source fails if a believed peer sent no such header, more than one line
// of it (it was not replaced, then), or no IP address (with or without port).
//
// To have another address costs a client another machine or network if the
// proxy replaces the header, and nothing if it does not.
func SingleHeader(name string, ranges ...string) (AddrSource, error) {
	var errs []error
	header, ok := headerName(name)
	if !ok {
		errs = append(errs, fmt.Errorf("keyfuncs: SingleHeader: %q is not the name of a header with one value", name))
	}
	trusted, err := parseProxies("SingleHeader", ranges)
	if err != nil {
		errs = append(errs, err)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	everybody := len(ranges) == 0
	return func(r *http.Request) (netip.Addr, error) {
		if !everybody {
			peer, believed, err := trusted.peer(r)
			if err != nil || !believed {
				return peer, err
			}
		}
		lines := r.Header[header]
		switch len(lines) {
		case 0:
			return netip.Addr{}, errMissing
		case 1:
			return parseHop(textproto.TrimString(lines[0]))
		default:
			return netip.Addr{}, errSeveral
		}
	}, nil
}

// MustSingleHeader is [SingleHeader] for use at start-up: it panics on an error.
func MustSingleHeader(name string, ranges ...string) AddrSource {
	return must(SingleHeader(name, ranges...))
}
