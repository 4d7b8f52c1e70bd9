package keyfuncs_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
)

func TestTheCommonKeysAllocateAtMostTheirText(t *testing.T) {
	list := keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))
	withHost := request("")
	withHost.Host = "example.com:8080"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name string
		key  key
		r    *http.Request
		most float64
	}{
		{"IPv4 peer", keyfuncs.Address(keyfuncs.Peer), request("203.0.113.7:4711"), 0},
		{"IPv6 peer", keyfuncs.Address(keyfuncs.Peer), request("[2001:db8::1]:4711"), 1},
		{"unix peer", keyfuncs.Address(keyfuncs.Peer), request("@"), 1},
		{"untrusted peer", list, request("203.0.113.7:4711"), 0},
		{"X-Forwarded-For", list, request("10.0.0.1:80", "X-Forwarded-For: 203.0.113.7, 10.0.0.2"), 1},
		{"no X-Forwarded-For", list, request("10.0.0.1:80"), 0},
		{"Forwarded", keyfuncs.Address(keyfuncs.MustForwarded("10.0.0.0/8")),
			request("10.0.0.1:80", `Forwarded: for="203.0.113.7:80";proto=https, for=10.0.0.2`), 1},
		{"count", keyfuncs.Address(keyfuncs.MustProxyCount(1)), request("10.0.0.1:80", "X-Forwarded-For: 203.0.113.7"),
			1},
		{"single header", keyfuncs.Address(keyfuncs.MustSingleHeader("X-Real-IP")),
			request("10.0.0.1:80", "X-Real-IP: 203.0.113.7"), 1},
		{"or peer", keyfuncs.Address(keyfuncs.OrPeer(keyfuncs.MustTrustedProxies("10.0.0.0/8"))),
			request("10.0.0.1:80"), 0},
		{"or together", keyfuncs.OrShared(list), request("10.0.0.1:80"), 0},
		{"inside", keyfuncs.MustInside(keyfuncs.Peer, []string{"203.0.113.0/24"}, keyfuncs.Address(keyfuncs.Peer)),
			request("203.0.113.7:4711"), 0},
		{"not inside", keyfuncs.MustInside(keyfuncs.Peer, []string{"203.0.113.0/24"}, keyfuncs.Address(keyfuncs.Peer)),
			request("[2001:db8::1]:4711"), 0},
		{"outside", keyfuncs.MustOutside(keyfuncs.Peer, []string{"2001:db8::/32"}, keyfuncs.Address(keyfuncs.Peer)),
			request("203.0.113.7:4711"), 0},
		{"not outside", keyfuncs.MustOutside(keyfuncs.Peer, []string{"2001:db8::/32"}, keyfuncs.Address(keyfuncs.Peer)),
			request("[2001:db8::1]:4711"), 0},
		{"neither inside nor outside",
			keyfuncs.MustOutside(keyfuncs.MustTrustedProxies("10.0.0.0/8"), nil, keyfuncs.Address(keyfuncs.Peer)),
			request("10.0.0.1:80"), 0},
		// the copy of the request
		{"with peer", keyfuncs.Address(keyfuncs.WithPeer(savedPeer, keyfuncs.Peer)),
			request("203.0.113.7", "Saved: 203.0.113.7:80"), 1},
		{"first, named",
			keyfuncs.FirstNamed(keyfuncs.Named("token", keyfuncs.BearerToken),
				keyfuncs.Named("address", keyfuncs.Address(keyfuncs.Peer))), request("203.0.113.7:1"), 1},
		{"header", keyfuncs.Header("X-Tenant"), request("", "X-Tenant: acme"), 0},
		{"API key", keyfuncs.APIKey("X-API-Key"), request("", "X-API-Key: k"), 1},
		{"bearer token", keyfuncs.BearerToken, request("", "Authorization: Bearer k"), 1},
		{"basic user", keyfuncs.BasicAuthUser, request("", basic("alice:pw")), 1},
		{"cookie", keyfuncs.Cookie("sid"), request("", "Cookie: a=b; sid=c"), 1},
		{"common name", keyfuncs.CommonName, withCertificate(t, "billing", true), 0},
		{"SPIFFE ID", keyfuncs.SPIFFEID, withCertificate(t, "", true, "spiffe://example.org/billing"), 1},
		{"method", keyfuncs.Method, request(""), 0},
		{"host", keyfuncs.Host, withHost, 0},
		{"path", keyfuncs.Path, request(""), 0},
		{"route", keyfuncs.RoutePattern, request(""), 0},
		{"constant", keyfuncs.Constant[*http.Request]("everybody"), request(""), 0},
		{"known", keyfuncs.Known(keyfuncs.Header("X-Tenant"), func(key string) bool { return key == "acme" }),
			request("", "X-Tenant: acme"), 0},
		{"context", keyfuncs.FromContext(func(context.Context) (string, bool) { return "alice", true }), request(""),
			0},
		{"value", keyfuncs.Value(func(*http.Request) any { return "alice" }), request(""), 0},
		{"IPv6 prefix", keyfuncs.MustAddressPrefix(keyfuncs.Peer, 56), request("[2001:db8::1]:4711"), 1},
		{"mux", keyfuncs.MuxPattern(mux), request(""), 2}, // the mux's own
		{"join", keyfuncs.Join(keyfuncs.Method, keyfuncs.Address(keyfuncs.Peer)), request("203.0.113.7:1"), 1},
		{"first", keyfuncs.First(keyfuncs.BearerToken, keyfuncs.Address(keyfuncs.Peer)), request("203.0.113.7:1"), 1},
	} {
		if got := testing.AllocsPerRun(100, func() { c.key(c.r) }); got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.most)
		}
	}
}

func TestMemoryDoesNotGrowWithWhatAClientSends(t *testing.T) {
	const size = 1 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	list := keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))
	standard := keyfuncs.Address(keyfuncs.MustForwarded("10.0.0.0/8"))
	count := keyfuncs.Address(keyfuncs.MustProxyCount(8))
	for name, c := range map[string]struct {
		key   key
		field string
	}{
		"X-Forwarded-For of trusted hops":     {list, "X-Forwarded-For: " + fill("10.0.0.1,")},
		"X-Forwarded-For, left of the client": {list, "X-Forwarded-For: " + fill("1.1.1.1,") + "203.0.113.7"},
		"X-Forwarded-For of commas":           {list, "X-Forwarded-For: " + fill(",")},
		"X-Forwarded-For, one hop":            {list, "X-Forwarded-For: " + fill("1")},
		"X-Forwarded-For, a zone":             {list, "X-Forwarded-For: fe80::1%" + fill("z")},
		"X-Forwarded-For, counted":            {count, "X-Forwarded-For: " + fill("1,")},
		"Forwarded of trusted hops":           {standard, "Forwarded: " + fill("for=10.0.0.1,")},
		"Forwarded of commas":                 {standard, "Forwarded: " + fill(",")},
		"Forwarded of quotes":                 {standard, "Forwarded: " + fill(`"`)},
		"Forwarded of backslashes":            {standard, "Forwarded: " + fill(`\"`)},
		"Forwarded of parameters":             {standard, "Forwarded: " + fill("a=b;")},
		"Forwarded, an escaped node":          {standard, `Forwarded: for="` + fill(`\1`) + `"`},
		"single header": {
			keyfuncs.Address(keyfuncs.MustSingleHeader("X-Real-IP")), "X-Real-IP: " + fill("1"),
		},
		"header":               {keyfuncs.Header("X-Tenant"), "X-Tenant: " + fill("a")},
		"API key":              {keyfuncs.APIKey("X-API-Key"), "X-API-Key: " + fill("a")},
		"bearer token":         {keyfuncs.BearerToken, "Authorization: Bearer " + fill("a")},
		"basic user":           {keyfuncs.BasicAuthUser, "Authorization: Basic " + fill("YWFh")},
		"cookie of semicolons": {keyfuncs.Cookie("sid"), "Cookie: " + fill(";")},
		"cookies":              {keyfuncs.Cookie("sid"), "Cookie: " + fill("a=b;")},
		"cookie":               {keyfuncs.Cookie("sid"), "Cookie: sid=" + fill("a")},
	} {
		r := request("10.0.0.1:80", c.field)
		if text, _ := c.key(r); len(text) > 253 {
			t.Errorf("%s: the key has %d bytes", name, len(text))
		}
		if got := bytesPerRun(func() { c.key(r) }); got > 2048 {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
}

// bytesPerRun is testing.AllocsPerRun for bytes.
func bytesPerRun(f func()) uint64 {
	const runs = 10
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}
