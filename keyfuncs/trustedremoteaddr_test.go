package keyfuncs_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
)

func TestARemoteAddrThatMiddlewareHasWrittenIsRead(t *testing.T) {
	for _, c := range []hopCase{
		{name: "IPv4 without port", remote: "203.0.113.7", want: "203.0.113.7"},
		{name: "IPv4", remote: "203.0.113.7:4711", want: "203.0.113.7"},
		{name: "port 0", remote: "203.0.113.7:0", want: "203.0.113.7"},
		{name: "IPv6 without port", remote: "2001:db8::1", want: "2001:db8::1"},
		{name: "IPv6 in brackets", remote: "[2001:db8::1]", want: "2001:db8::1"},
		{name: "IPv6", remote: "[2001:db8::1]:4711", want: "2001:db8::1"},
		{name: "zone", remote: "fe80::1%eth0", want: "fe80::1"},
		{name: "IPv4 mapped into IPv6", remote: "::ffff:203.0.113.7", want: "203.0.113.7"},
		{name: "headers are not read", remote: "203.0.113.7", lines: []string{"198.51.100.1"}, want: "203.0.113.7"},

		{name: "nothing", remote: ""},
		{name: "unix socket", remote: "@"},
		{name: "pipe", remote: "pipe"},
		{name: "a list", remote: "203.0.113.7, 198.51.100.1"},
		{name: "a list without spaces", remote: "203.0.113.7,198.51.100.1"},
		{name: "white space", remote: " 203.0.113.7"},
		{name: "host name", remote: "localhost"},
		{name: "obfuscated", remote: "_hidden"},
		{name: "unspecified", remote: "0.0.0.0"},
		{name: "port with letters", remote: "203.0.113.7:http"},
		{name: "leading zeros", remote: "203.0.113.07"},
	} {
		c.run(t, keyfuncs.TrustedRemoteAddr, "X-Forwarded-For")
	}
}

// Such middleware answered 503 to every request with Peer or TrustedProxies.
func TestAResolvedRemoteAddrCountsWhereItIsTrusted(t *testing.T) {
	r := request("203.0.113.7", "X-Forwarded-For: 198.51.100.1")
	for name, source := range looksAtThePeer {
		if _, err := keyfuncs.Address(source)(r); !errors.Is(err, keyfuncs.ErrUnidentified) {
			t.Errorf("%s: %v", name, err)
		}
	}
	key, err := keyfuncs.Address[*http.Request](keyfuncs.TrustedRemoteAddr)(r)
	if key != "203.0.113.7" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
}

func TestATrustedRemoteAddrAllocatesNothing(t *testing.T) {
	key, r := keyfuncs.Address(keyfuncs.TrustedRemoteAddr), request("203.0.113.7")
	if n := testing.AllocsPerRun(100, func() { _, _ = key(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
