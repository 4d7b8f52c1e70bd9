package keyfuncs_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
)

// savedPeer returns the peer that middleware of the tests has saved.
func savedPeer(r *http.Request) string { return r.Header.Get("Saved") }

func TestASourceSeesThePeerThatIsKeptElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		source keyfuncs.AddrSource
		want   string // of the peer 10.0.0.1
	}{
		"Peer":           {keyfuncs.Peer, "10.0.0.1"},
		"TrustedProxies": {keyfuncs.MustTrustedProxies("10.0.0.0/8"), "203.0.113.7"},
		"no proxies":     {keyfuncs.MustTrustedProxies(), "10.0.0.1"},
		"Forwarded":      {keyfuncs.MustForwarded("10.0.0.0/8"), "203.0.113.8"},
		"SingleHeader":   {keyfuncs.MustSingleHeader("X-Real-IP", "10.0.0.0/8"), "203.0.113.9"},
		"OrPeer":         {keyfuncs.OrPeer(keyfuncs.MustProxyCount(2)), "10.0.0.1"},
		"one's own": {func(r *http.Request) (netip.Addr, error) {
			addr, err := netip.ParseAddrPort(r.RemoteAddr)
			return addr.Addr(), err
		}, "10.0.0.1"},
	} {
		source := keyfuncs.WithPeer(savedPeer, c.source)
		// as middleware left it
		for _, remote := range []string{"203.0.113.1", "203.0.113.1:80", "", "@", "10.0.0.9:80"} {
			r := request(remote, "Saved: 10.0.0.1:80", "X-Forwarded-For: 203.0.113.7", "Forwarded: for=203.0.113.8",
				"X-Real-IP: 203.0.113.9")
			wantKey(t, keyfuncs.Address(source), r, c.want)
			if r.RemoteAddr != remote {
				t.Errorf("%s: RemoteAddr %q became %q", name, remote, r.RemoteAddr)
			}
			r.Header.Set("Saved", "198.51.100.1:80") // not a proxy, so its header is not believed
			wantKey(t, keyfuncs.Address(source), r, "198.51.100.1")
		}
	}
}

func TestAPeerKeptElsewhereIsReadAsStrictly(t *testing.T) {
	for name, source := range looksAtThePeer {
		source = keyfuncs.WithPeer(savedPeer, source)
		for _, saved := range []string{
			"", "@", "10.0.0.1", "203.0.113.7", "2001:db8::1", "[2001:db8::1]", "x:80", "10.0.0.1:", "10.0.0.1:x",
			"10.0.0.1:80, 1.2.3.4:80", "0.0.0.0:80",
		} {
			r := request("203.0.113.1:80", "X-Forwarded-For: 198.51.100.1", "Forwarded: for=198.51.100.1",
				"X-Real-IP: 198.51.100.1")
			r.Header.Set("Saved", saved)
			t.Run(name+" "+saved, func(t *testing.T) { wantUnidentified(t, keyfuncs.Address(source), r) })
		}
	}
}

func TestARequestOverAUnixSocketStaysOne(t *testing.T) {
	r := request("", "Saved: 10.0.0.1:80", "X-Forwarded-For: 198.51.100.1")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "s", Net: "unix"}))
	wantUnidentified(t, keyfuncs.Address(keyfuncs.WithPeer(savedPeer, keyfuncs.Peer)), r)
	wantKey(t, keyfuncs.Address(keyfuncs.WithPeer(savedPeer, keyfuncs.MustTrustedProxies("unix"))), r, "198.51.100.1")
}

// A source that writes into the request writes into its copy.
func TestTheRequestIsNotChangedForOthers(t *testing.T) {
	r := request("203.0.113.1:80", "Saved: 10.0.0.1:80")
	source := keyfuncs.WithPeer(savedPeer, func(seen *http.Request) (netip.Addr, error) {
		if seen == r || seen.RemoteAddr != "10.0.0.1:80" || seen.Method != r.Method || seen.URL != r.URL ||
			seen.Context() != r.Context() {
			t.Errorf("the source got %+v", seen)
		}
		seen.RemoteAddr = "x"
		return keyfuncs.Peer(r)
	})
	wantKey(t, keyfuncs.Address(source), r, "203.0.113.1")
}

func TestWithPeerOfNothingIsNil(t *testing.T) {
	if keyfuncs.WithPeer(nil, keyfuncs.Peer) != nil || keyfuncs.WithPeer(savedPeer, nil) != nil {
		t.Error("WithPeer of nil is not nil")
	}
}
