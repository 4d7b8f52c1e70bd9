package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
)

// SingleHeader returns the [AddrSource] for servers behind a proxy that writes the client's address
// into the header name and replaces the value that the client sent. ranges are those of
// [TrustedProxies]. If there are any, only a peer in them is believed, and any other peer is itself
// the client. Without ranges every peer is believed, unlike with TrustedProxies. That is safe only
// behind a firewall that lets only the proxy connect.
//
// Check that your proxy really replaces the header. Unless configured, many proxies pass on the
// client's own True-Client-IP, X-Real-IP, Fastly-Client-IP and X-Azure-ClientIP. SingleHeader
// refuses X-Forwarded-For and Forwarded, because only their last hop may be true: see
// [TrustedProxies], [ProxyCount] and [Forwarded].
//
// The source fails if a believed peer sent no such header, more than one line of it (so it was not
// replaced), or a value that is not an IP address (with or without port).
//
// Another address costs a client another machine or network if the proxy replaces the header, and
// nothing if it does not.
func SingleHeader(name string, ranges ...string) (AddrSource, error) {
	var errs []error
	header, ok := headerName(name)
	if !ok {
		errs = append(errs,
			fmt.Errorf("keyfuncs: SingleHeader: %q is not the name of a header with one value",
				name))
	}
	trusted, err := parseProxies("SingleHeader", ranges)
	if err != nil {
		errs = append(errs, err)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	believesAll := len(ranges) == 0
	return func(r *http.Request) (netip.Addr, error) {
		if !believesAll {
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

// MustSingleHeader is [SingleHeader] for use at start-up. It panics on an error.
func MustSingleHeader(name string, ranges ...string) AddrSource {
	return must(SingleHeader(name, ranges...))
}
