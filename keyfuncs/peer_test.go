package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
)

func TestThePeerIsTheAddressOfTheConnection(t *testing.T) {
	for _, c := range []hopCase{
		{name: "IPv4", remote: "203.0.113.7:4711", want: "203.0.113.7"},
		{name: "IPv6", remote: "[2001:db8::1]:4711", want: "2001:db8::1"},
		{name: "IPv6 of the machine", remote: "[::1]:80", want: "::1"},
		{name: "of httptest", remote: httptest.NewRequest("GET", "/", nil).RemoteAddr, want: "192.0.2.1"},
		{name: "zone", remote: "[fe80::1%eth0]:4711", want: "fe80::1"},
		{name: "IPv4 mapped into IPv6", remote: "[::ffff:203.0.113.7]:4711", want: "203.0.113.7"},
		{name: "IPv4 mapped, in hexadecimal", remote: "[::ffff:cb00:7107]:4711", want: "203.0.113.7"},
		{name: "IPv4 mapped, with zone", remote: "[::ffff:203.0.113.7%eth0]:4711", want: "203.0.113.7"},
		{name: "headers are not read", remote: "203.0.113.7:1", lines: []string{"198.51.100.1"}, want: "203.0.113.7"},

		{name: "IPv4 without port", remote: "203.0.113.7"},
		{name: "IPv6 without port", remote: "2001:db8::1"},
		{name: "IPv6 in brackets without port", remote: "[2001:db8::1]"},
		{name: "zone without port", remote: "fe80::1%eth0"},
		{name: "a list without port", remote: "203.0.113.7, 198.51.100.1"},
		{name: "nothing", remote: ""},
		{name: "unix socket", remote: "@"},
		{name: "unix socket with a name", remote: "/run/app.sock"},
		{name: "pipe", remote: "pipe"},
		{name: "a nil IP as text", remote: "<nil>"},
		{name: "unspecified", remote: "0.0.0.0:1"},
		{name: "unspecified IPv6", remote: "[::]:1"},
		{name: "unspecified, mapped", remote: "[::ffff:0.0.0.0]:1"},
		{name: "leading zeros", remote: "203.0.113.07:1"},
		{name: "short form", remote: "127.1:1"},
		{name: "one number", remote: "3405803783:1"},
		{name: "hexadecimal", remote: "0xcb007107:1"},
		{name: "host name", remote: "localhost:80"},
		{name: "IPv4 in brackets", remote: "[203.0.113.7]:1"},
		{name: "IPv4 with zone", remote: "203.0.113.7%eth0:1"},
		{name: "empty zone", remote: "[fe80::1%]:1"},
		{name: "no port after the colon", remote: "203.0.113.7:"},
		{name: "no port after the colon of IPv6", remote: "[2001:db8::1]:"},
		{name: "port too long", remote: "203.0.113.7:123456"},
		{name: "port with letters", remote: "203.0.113.7:http"},
		{name: "no closing bracket", remote: "[2001:db8::1"},
		{name: "text after the bracket", remote: "[2001:db8::1]80"},
		{name: "white space", remote: " 203.0.113.7:1"},
	} {
		c.run(t, keyfuncs.Peer, "X-Forwarded-For")
	}
}

// looksAtThePeer are sources that trust 10.0.0.0/8, or the peer itself.
var looksAtThePeer = map[string]keyfuncs.AddrSource{
	"Peer":           keyfuncs.Peer,
	"TrustedProxies": keyfuncs.MustTrustedProxies("10.0.0.0/8"),
	"Forwarded":      keyfuncs.MustForwarded("10.0.0.0/8"),
	"SingleHeader":   keyfuncs.MustSingleHeader("X-Real-IP", "10.0.0.0/8"),
}

// chi's RealIP and gorilla's ProxyHeaders leave such a RemoteAddr, from a header that
// anybody can send.
func TestAnAddressWithoutPortIsNoPeer(t *testing.T) {
	for name, source := range looksAtThePeer {
		for _, remote := range []string{"203.0.113.7", "10.0.0.1", "2001:db8::1", "[2001:db8::1]"} {
			r := request(remote, "X-Forwarded-For: 198.51.100.1", "Forwarded: for=198.51.100.1",
				"X-Real-IP: 198.51.100.1")
			addr, err := source(r)
			if !errors.Is(err, keyfuncs.ErrUnidentified) || addr.IsValid() {
				t.Errorf("%s, RemoteAddr %s: got %v, %v", name, remote, addr, err)
			}
			for _, hint := range []string{"RealIP", "ProxyHeaders", "TrustedProxies"} {
				if err != nil && !strings.Contains(err.Error(), hint) {
					t.Errorf("%s: %v does not name %s", name, err, hint)
				}
			}
		}
	}
}

// A process that may connect to the socket may bind its own end to any name.
func TestTheNameOfAUnixSocketIsNoAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := net.Listen("unix", "server")
	if err != nil {
		t.Fatal(err)
	}
	sources := maps.Clone(looksAtThePeer)
	sources["over the socket"] = keyfuncs.MustTrustedProxies("unix")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr, err := sources[r.Header.Get("Source")](r)
		fmt.Fprintf(w, "%s: %v %v", r.RemoteAddr, addr, err)
	})}
	go server.Serve(listener)
	defer server.Close()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			os.Remove("10.0.0.1:1")
			return net.DialUnix("unix", &net.UnixAddr{Name: "10.0.0.1:1", Net: "unix"},
				&net.UnixAddr{Name: "server", Net: "unix"})
		}}}
	for name := range sources {
		r, _ := http.NewRequest("GET", "http://server/", nil)
		r.Header = http.Header{
			"Source": {name}, "X-Forwarded-For": {"198.51.100.1"}, "Forwarded": {"for=198.51.100.1"},
			"X-Real-Ip": {"198.51.100.1"},
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		want := "10.0.0.1:1: invalid IP " + keyfuncs.ErrUnidentified.Error()
		if name == "over the socket" {
			want = "10.0.0.1:1: 198.51.100.1 <nil>"
		}
		if !strings.HasPrefix(string(body), want) {
			t.Errorf("%s: got %s", name, body)
		}
	}
}

func TestIPv4IsKeyedWhole(t *testing.T) {
	wantKey(t, keyfuncs.Address(keyfuncs.Peer), request("203.0.113.7:4711"), "203.0.113.7")
}

func TestThePortIsNeverPartOfTheKey(t *testing.T) {
	key := keyfuncs.Address(keyfuncs.Peer)
	for _, remote := range []string{"203.0.113.7:1", "203.0.113.7:65535"} {
		wantKey(t, key, request(remote), "203.0.113.7")
	}
	for _, remote := range []string{"[2001:db8::1]:1", "[2001:db8::1]:65535"} {
		wantKey(t, key, request(remote), "2001:db8::/64")
	}
}

func TestAHostOfOneIPv6NetworkHasOneKey(t *testing.T) {
	key := keyfuncs.Address(keyfuncs.Peer)
	for _, host := range []string{"::1", ":ffff:ffff:ffff:ffff", "::", ":0:0:0:42"} {
		wantKey(t, key, request("[2001:db8:1:2"+host+"]:80"), "2001:db8:1:2::/64")
	}
	wantKey(t, key, request("[2001:db8:1:3::1]:80"), "2001:db8:1:3::/64")
}

// If the address were masked before it is unmapped, all IPv4 clients of a dual-stack
// socket would share ::/64.
func TestMappedAndPlainIPv4AreOneKey(t *testing.T) {
	key := keyfuncs.Address(keyfuncs.Peer)
	for _, remote := range []string{"203.0.113.7:80", "[::ffff:203.0.113.7]:80", "[::FFFF:CB00:7107]:80"} {
		wantKey(t, key, request(remote), "203.0.113.7")
	}
	wantKey(t, key, request("[::ffff:203.0.113.8]:80"), "203.0.113.8")
}

func TestZonesAreDropped(t *testing.T) {
	key := keyfuncs.MustAddressPrefix(keyfuncs.Peer, 128)
	for _, remote := range []string{"[fe80::1%eth0]:80", "[fe80::1%1]:80", "[fe80::1]:80"} {
		wantKey(t, key, request(remote), "fe80::1")
	}
}

func TestOtherAddressesInsideIPv6StayIPv6(t *testing.T) {
	key := keyfuncs.Address(keyfuncs.Peer)
	wantKey(t, key, request("[64:ff9b::203.0.113.7]:80"), "64:ff9b::/64")
	wantKey(t, key, request("[2002:cb00:7107::1]:80"), "2002:cb00:7107::/64")
}

func TestThePrefixLengthIsForIPv6Only(t *testing.T) {
	for bits, want := range map[int]string{
		32: "2001:db8::/32", 48: "2001:db8:1::/48", 56: "2001:db8:1:200::/56",
		64: "2001:db8:1:234::/64", 127: "2001:db8:1:234::4/127", 128: "2001:db8:1:234::5",
	} {
		key := keyfuncs.MustAddressPrefix(keyfuncs.Peer, bits)
		wantKey(t, key, request("[2001:db8:1:234::5]:80"), want)
		wantKey(t, key, request("203.0.113.7:80"), "203.0.113.7")
	}
}

func TestAPrefixLengthOutOfRangeIsAMistake(t *testing.T) {
	for _, bits := range []int{-1, 0, 31, 129} {
		if key, err := keyfuncs.AddressPrefix(keyfuncs.Peer, bits); key != nil || err == nil {
			t.Errorf("%d bits: got no error", bits)
		}
	}
	_, err := keyfuncs.AddressPrefix(keyfuncs.AddrSource(nil), 7)
	const want = "keyfuncs: AddressPrefix: source must not be nil\n" +
		"keyfuncs: AddressPrefix: IPv6 bits must be 32 to 128 (got 7)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if keyfuncs.Address(keyfuncs.AddrSource(nil)) != nil {
		t.Error("Address of nil must be nil, for the limiter's constructor to report")
	}
}

func TestAddressPutsASourceOfYourOwnInOrder(t *testing.T) {
	for text, want := range map[string]string{
		"::ffff:203.0.113.7": "203.0.113.7",
		"fe80::1%eth0":       "fe80::/64",
		"2001:db8::1":        "2001:db8::/64",
	} {
		own := func(*http.Request) (netip.Addr, error) { return netip.MustParseAddr(text), nil }
		wantKey(t, keyfuncs.Address(own), request("@"), want)
	}
	zoned := func(*http.Request) (netip.Addr, error) { return netip.MustParseAddr("fe80::1%eth0"), nil }
	wantKey(t, keyfuncs.MustAddressPrefix(zoned, 128), request("@"), "fe80::1")
	for _, addr := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		own := func(*http.Request) (netip.Addr, error) { return addr, nil }
		wantUnidentified(t, keyfuncs.Address(own), request("203.0.113.7:80"))
	}
	broken := errors.New("broken")
	own := func(*http.Request) (netip.Addr, error) { return netip.Addr{}, broken }
	if _, err := keyfuncs.Address(own)(request("203.0.113.7:80")); err != broken {
		t.Errorf("got %v, want the source's own error", err)
	}
}

// The peer's text may begin with the client's. The key then shares its memory and is
// still the client's.
func TestTheKeyIsTheSourcesAddressWhateverThePeer(t *testing.T) {
	key := keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))
	r := request("10.0.0.12:80", "X-Forwarded-For: 1.0.0.1")
	wantKey(t, key, r, "1.0.0.1")
	r = request("10.0.0.12:80", "X-Forwarded-For: 203.0.113.7")
	wantKey(t, key, r, "203.0.113.7")
	key = keyfuncs.Address(keyfuncs.MustProxyCount(1))
	wantKey(t, key, request("10.0.0.12:80", "X-Forwarded-For: 10.0.0.1"), "10.0.0.1")
}

// Address knows Peer and reads RemoteAddr once for it. Its keys are those of any function that calls
// Peer, and a function that does not gets keys of its own.
func TestTheKeyOfAPeerIsThatOfItsAddress(t *testing.T) {
	byPeer := keyfuncs.Address(keyfuncs.Peer)
	wrapped := keyfuncs.Address(func(r *http.Request) (netip.Addr, error) { return keyfuncs.Peer(r) })
	other := keyfuncs.Address(func(*http.Request) (netip.Addr, error) {
		return netip.MustParseAddr("198.51.100.1"), nil
	})
	overSocket := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "server", Net: "unix"})
	for _, remote := range []string{
		"203.0.113.7:4711", "203.0.113.7", "203.0.113.7:", "203.0.113.7:123456", "203.0.113.07:1", "0.0.0.0:1",
		"[::ffff:203.0.113.7]:1", "[2001:db8::1]:4711", "2001:db8::1", "@", "",
	} {
		r := request(remote)
		for _, r := range []*http.Request{r, r.WithContext(overSocket)} {
			got, err := byPeer(r)
			want, wantErr := wrapped(r)
			if got != want || !errors.Is(err, wantErr) {
				t.Errorf("%q: got %q, %v, want %q, %v", remote, got, err, want, wantErr)
			}
			if got, err := other(r); got != "198.51.100.1" || err != nil {
				t.Errorf("%q, another source: got %q, %v", remote, got, err)
			}
		}
	}
	if _, err := byPeer(request("203.0.113.7:4711").WithContext(overSocket)); err == nil {
		t.Error("the name of a unix socket is a key")
	}
}
