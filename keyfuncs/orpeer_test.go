package keyfuncs_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

func TestThePeerCountsWhereTheSourceCannotTell(t *testing.T) {
	source := keyfuncs.OrPeer(keyfuncs.MustTrustedProxies("10.0.0.0/8"))
	for _, c := range []hopCase{
		{"the source can tell", "10.0.0.1:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a peer that is no proxy", "203.0.113.9:80", []string{"203.0.113.7"}, "203.0.113.9"},
		{"no header", "10.0.0.1:80", nil, "10.0.0.1"},
		{"no address", "10.0.0.1:80", []string{"unknown"}, "10.0.0.1"},
		{"an empty hop", "10.0.0.1:80", []string{"203.0.113.7,"}, "10.0.0.1"},
		{"the unspecified address", "10.0.0.1:80", []string{"0.0.0.0"}, "10.0.0.1"},
		{"all hops trusted: the source can tell", "10.0.0.1:80", []string{"10.0.0.2, 10.0.0.3"}, "10.0.0.2"},
		{"a forged address left of what is no address", "10.0.0.1:80", []string{"203.0.113.7, unknown"}, "10.0.0.1"},
		{"an IPv6 peer", "[::ffff:10.0.0.1]:80", nil, "10.0.0.1"},
		{"no peer either", "", nil, ""},
		{"a unix socket", "@", []string{"203.0.113.7"}, ""},
		{"an overwritten peer", "203.0.113.7", []string{"203.0.113.8"}, ""},
		{"an overwritten peer that would be trusted", "10.0.0.1", []string{"203.0.113.8"}, ""},
	} {
		c.run(t, source, xff)
	}
}

func TestEverySourceMayFallBackToThePeer(t *testing.T) {
	for name, source := range map[string]keyfuncs.AddrSource{
		"ProxyCount":   keyfuncs.MustProxyCount(2),
		"Forwarded":    keyfuncs.MustForwarded("192.0.2.0/24"),
		"SingleHeader": keyfuncs.MustSingleHeader("X-Real-IP"),
		"an error": func(*http.Request) (netip.Addr, error) {
			return netip.MustParseAddr("203.0.113.7"), errBroken
		},
		"absent":             func(*http.Request) (netip.Addr, error) { return netip.Addr{}, core.ErrAbsent },
		"no address":         func(*http.Request) (netip.Addr, error) { return netip.Addr{}, nil },
		"unspecified":        func(*http.Request) (netip.Addr, error) { return netip.IPv6Unspecified(), nil },
		"another that fails": keyfuncs.OrPeer(keyfuncs.MustProxyCount(1)),
	} {
		r := request("192.0.2.1:80", "X-Real-IP: 203.0.113.7", "X-Real-IP: 203.0.113.8")
		if got, err := keyfuncs.OrPeer(source)(r); err != nil || got != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("%s: got %v, %v; want the peer", name, got, err)
		}
	}
}

func TestOverAUnixSocketThereIsNoPeerToFallBackTo(t *testing.T) {
	r := request("192.0.2.1:80")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "s", Net: "unix"}))
	wantUnidentified(t, keyfuncs.Address(keyfuncs.OrPeer(keyfuncs.MustTrustedProxies("unix"))), r)
}

// A client that makes the source fail gets one more key, the proxy's, and no other.
func TestMakingTheSourceFailBuysOneKeyForAll(t *testing.T) {
	key := keyfuncs.Address(keyfuncs.OrPeer(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
	for _, forged := range []string{"", "x", "203.0.113.7, x", "198.51.100.1,,", "1.2.3.4:x", "0.0.0.0", "::"} {
		wantKey(t, key, request("10.0.0.1:80", "X-Forwarded-For: "+forged), "10.0.0.1")
		wantKey(t, key, request("10.0.0.1:80", "X-Forwarded-For: "+forged+", 203.0.113.9"), "203.0.113.9")
	}
}

func TestASourceThatDoesNotApplyStaysSo(t *testing.T) {
	source := keyfuncs.OrPeer(func(*http.Request) (netip.Addr, error) { return netip.Addr{}, core.ErrDoesNotApply })
	if addr, err := source(request("192.0.2.1:80")); addr.IsValid() || err != core.ErrDoesNotApply {
		t.Errorf("got %v, %v", addr, err)
	}
}

func TestOrPeerOfNothingIsNil(t *testing.T) {
	if keyfuncs.OrPeer(nil) != nil || keyfuncs.Address(keyfuncs.OrPeer(nil)) != nil {
		t.Error("OrPeer(nil) is not nil")
	}
}
