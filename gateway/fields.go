package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/weir-go/weir/gateway/internal/original"
	"github.com/weir-go/weir/internal/ground/address"
)

// Why a check is not believed, besides the errors of package original. The texts have no
// part of the check.
var (
	errPeer    = errors.New("the peer is not one of the proxies that the configuration names")
	errSeveral = errors.New("a field is there twice: let the proxy replace what clients send")
	errDiffer  = errors.New("two fields contradict each other: let the proxy remove what clients send")
	errURL     = errors.New("X-Original-Url is no URL")
	errAddress = errors.New("the last hop of X-Forwarded-For is missing, or is no address")
)

// peers are the proxies that are believed.
type peers struct {
	ranges []netip.Prefix
	unix   bool
}

// parsePeers reads ranges, single addresses and "unix". It reports every mistake.
func parsePeers(texts []string) (p peers, err error) {
	var errs []error
	for _, text := range texts {
		if text == "unix" {
			p.unix = true
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err := netip.ParseAddr(text)
			if err != nil || addr.Zone() != "" {
				errs = append(errs, fmt.Errorf(
					`gateway: proxy %q must be a CIDR range, an IP address without zone, or "unix"`, text))
				continue
			}
			prefix = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		if prefix.Addr().Is4In6() { // addresses are compared as IPv4, so it would have none
			errs = append(errs, fmt.Errorf("gateway: proxy %q must be written as IPv4", text))
			continue
		}
		if prefix.Bits() == 0 {
			errs = append(errs, fmt.Errorf("gateway: proxy %q is every address: name your proxies", text))
			continue
		}
		p.ranges = append(p.ranges, prefix.Masked())
	}
	return p, errors.Join(errs...)
}

// believe reports whether r came from one of the proxies.
func (p *peers) believe(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && strings.HasPrefix(local.Network(), "unix") {
		return p.unix // the name of the other end is its own choice
	}
	addr, hasPort, err := address.Parse(r.RemoteAddr)
	return err == nil && hasPort &&
		slices.ContainsFunc(p.ranges, func(known netip.Prefix) bool { return known.Contains(addr) })
}

// Fields that a proxy sets about the original request.
const (
	forwardedMethod = "X-Forwarded-Method"
	originalMethod  = "X-Original-Method"
	forwardedURI    = "X-Forwarded-Uri"
	originalURI     = "X-Original-Uri"
	originalURL     = "X-Original-Url"
	forwardedHost   = "X-Forwarded-Host"
	forwardedFor    = "X-Forwarded-For"
)

// others returns the fields that rules see. Their lines are those of header.
func others(header http.Header) http.Header {
	seen := make(http.Header, len(header))
	for name, lines := range header {
		switch name {
		case forwardedMethod, originalMethod, forwardedURI, originalURI, originalURL, forwardedHost, forwardedFor:
		default:
			seen[name] = lines
		}
	}
	return seen
}

// original returns the request that the check r is about, or why r is not believed.
func (p *peers) original(r *http.Request) (*http.Request, error) {
	if !p.believe(r) {
		return nil, errPeer
	}
	f := fields{header: r.Header}
	targetOfURL, hostOfURL := f.url()
	made := original.Request{
		Method: f.agreed(f.only(forwardedMethod), f.only(originalMethod)),
		Target: f.agreed(f.only(forwardedURI), f.only(originalURI), targetOfURL),
		Host:   f.agreed(f.only(forwardedHost), hostOfURL),
	}
	hops, last := f.address()
	made.Address = last
	if f.err != nil {
		return nil, f.err
	}
	made.Header = others(r.Header)
	if hops != "" {
		made.Header[forwardedFor] = []string{hops}
	}
	return made.HTTP(r.Context())
}

// fields reads the fields of a check, and keeps the first error.
type fields struct {
	header http.Header
	err    error
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// only returns the one line of a field, or "".
func (f *fields) only(name string) string {
	lines := f.header[name]
	if len(lines) > 1 {
		f.fail(errSeveral)
	}
	if len(lines) == 0 {
		return ""
	}
	return textproto.TrimString(lines[0])
}

// agreed returns the text that all values are, apart from those that are "".
func (f *fields) agreed(values ...string) (agreed string) {
	for _, v := range values {
		switch {
		case v == "" || v == agreed:
		case agreed == "":
			agreed = v
		default:
			f.fail(errDiffer)
		}
	}
	return agreed
}

// url returns path and host of X-Original-Url, as the ingress of nginx for Kubernetes sends it.
func (f *fields) url() (target, host string) {
	text := f.only(originalURL)
	if text == "" {
		return "", ""
	}
	_, rest, ok := strings.Cut(text, "://")
	slash := strings.IndexByte(rest, '/')
	if !ok || slash < 0 {
		f.fail(errURL)
		return "", ""
	}
	return rest[slash:], rest[:slash]
}

// address returns the last hop of X-Forwarded-For, which the proxy has written, and those
// before it.
func (f *fields) address() (before string, last netip.Addr) {
	line := f.only(forwardedFor)
	hop := line
	if comma := strings.LastIndexByte(line, ','); comma >= 0 {
		before, hop = textproto.TrimString(line[:comma]), textproto.TrimString(line[comma+1:])
	}
	last, _, err := address.Parse(hop)
	if err != nil {
		f.fail(errAddress)
	}
	return before, last
}
