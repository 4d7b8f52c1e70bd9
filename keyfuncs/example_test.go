package keyfuncs_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// show prints the key of r, or why it has none.
func show(key func(*http.Request) (string, error), r *http.Request) {
	text, err := key(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
}

func Example() {
	// For each route, clients with an API key that we have issued count by that key,
	// and all others by address.
	key := keyfuncs.Join(
		keyfuncs.RoutePattern,
		keyfuncs.First(
			keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k-alice", "k-bob")),
			keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8")),
		),
	)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(_ http.ResponseWriter, r *http.Request) { show(key, r) })

	r := httptest.NewRequest("GET", "/items/1", nil)
	r.RemoteAddr = "10.0.0.1:50000"
	r.Header.Set("X-Forwarded-For", "198.51.100.99, 203.0.113.7") // the first is forged
	mux.ServeHTTP(httptest.NewRecorder(), r)

	r.Header.Set("X-API-Key", "k-alice")
	mux.ServeHTTP(httptest.NewRecorder(), r)

	r.Header.Set("X-API-Key", "made-up")
	mux.ServeHTTP(httptest.NewRecorder(), r)
	// Output:
	// 15:GET /items/{id}13:1:203.0.113.7
	// 15:GET /items/{id}34:0:8fab151ebfe45da0ce0c2a951f8bba06
	// 15:GET /items/{id}13:1:203.0.113.7
}

func ExamplePeer() {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "[::ffff:203.0.113.7]:50000"
	fmt.Println(keyfuncs.Peer(r))

	r.RemoteAddr = "@" // a unix socket
	_, err := keyfuncs.Peer(r)
	fmt.Println(err)
	// Output:
	// 203.0.113.7 <nil>
	// keyfuncs: cannot tell who sent the request: the peer has no IP address
}

// Middleware that believes a named proxy has written the client into RemoteAddr, without a port.
func ExampleTrustedRemoteAddr() {
	key := keyfuncs.Address(keyfuncs.TrustedRemoteAddr)
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.7"
	fmt.Println(key(r))
	_, err := keyfuncs.Peer(r)
	fmt.Println(errors.Is(err, keyfuncs.ErrUnidentified))
	// Output:
	// 203.0.113.7 <nil>
	// true
}

func ExampleAddress() {
	key := keyfuncs.Address(keyfuncs.Peer)
	r := httptest.NewRequest("GET", "/", nil)
	for _, r.RemoteAddr = range []string{"203.0.113.7:50000", "[2001:db8:1:2::a]:50000", "[2001:db8:1:2::b]:50000"} {
		show(key, r)
	}
	// Output:
	// 203.0.113.7
	// 2001:db8:1:2::/64
	// 2001:db8:1:2::/64
}

// A source of your own. The IPv4 addresses of clients arrive in the IPv6 prefix of a
// translator (RFC 6052).
func ExampleAddrSource() {
	translated := netip.MustParsePrefix("64:ff9b::/96")
	source := func(r *http.Request) (netip.Addr, error) {
		addr, err := keyfuncs.Peer(r)
		if err == nil && translated.Contains(addr) {
			b := addr.As16()
			addr = netip.AddrFrom4([4]byte(b[12:]))
		}
		return addr, err
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "[64:ff9b::cb00:7107]:50000"
	show(keyfuncs.Address(source), r)
	// Output: 203.0.113.7
}

func ExampleAddressPrefix() {
	_, err := keyfuncs.AddressPrefix(keyfuncs.Peer, 16)
	fmt.Println(err)
	// Output: keyfuncs: AddressPrefix: IPv6 bits must be 32 to 128 (got 16)
}

func ExampleMustAddressPrefix() {
	key := keyfuncs.MustAddressPrefix(keyfuncs.Peer, 56)
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "[2001:db8:1:2ff::a]:50000"
	show(key, r)
	// Output: 2001:db8:1:200::/56
}

func ExampleTrustedProxies() {
	ranges := strings.Split("10.0.0.0/8,192.0.2.300", ",") // for example from the environment
	_, err := keyfuncs.TrustedProxies(ranges...)
	fmt.Println(err)
	// Output: keyfuncs: TrustedProxies: range "192.0.2.300": must be a CIDR range, an IP address without zone, or "unix"
}

func ExampleMustTrustedProxies() {
	key := keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8", "192.0.2.1"))

	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "198.51.100.99, 203.0.113.7, 192.0.2.1")
	r.RemoteAddr = "10.0.0.1:50000" // a proxy of ours
	show(key, r)
	r.RemoteAddr = "198.51.100.1:50000" // a client that goes around it
	show(key, r)

	r.Header.Del("X-Forwarded-For")
	r.RemoteAddr = "10.0.0.1:50000"
	show(key, r)
	// Output:
	// 203.0.113.7
	// 198.51.100.1
	// keyfuncs: cannot tell who sent the request: the forwarding header is missing
}

// The ranges may come from the configuration: without any, the peer is the client.
func ExampleMustTrustedProxies_configured() {
	for _, proxies := range []string{"10.0.0.0/8 192.0.2.1", ""} { // for example from the environment
		key := keyfuncs.Address(keyfuncs.MustTrustedProxies(strings.Fields(proxies)...))
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		r.RemoteAddr = "10.0.0.1:50000"
		show(key, r)
	}
	// Output:
	// 203.0.113.7
	// 10.0.0.1
}

// To make every client trusted is the commonest misuse: nobody would be left to
// be the client.
func ExampleMustTrustedProxies_everybody() {
	defer func() { fmt.Println(recover()) }()
	keyfuncs.MustTrustedProxies("0.0.0.0/0")
	// Output: keyfuncs: TrustedProxies: range "0.0.0.0/0": trusts every address: list only the addresses of your proxies
}

func ExampleProxyCount() {
	_, err := keyfuncs.ProxyCount(0)
	fmt.Println(err)
	// Output: keyfuncs: ProxyCount: number of proxies must be 1 to 64 (got 0)
}

func ExampleMustProxyCount() {
	key := keyfuncs.Address(keyfuncs.MustProxyCount(2))
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "198.51.100.99, 203.0.113.7, 192.0.2.1")
	show(key, r)
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	show(key, r)
	// Output:
	// 203.0.113.7
	// keyfuncs: cannot tell who sent the request: the forwarding header has fewer hops than there are proxies
}

func ExampleSingleHeader() {
	_, err := keyfuncs.SingleHeader("X-Forwarded-For")
	fmt.Println(err)
	// Output: keyfuncs: SingleHeader: "X-Forwarded-For" is not the name of a header with one value
}

func ExampleMustSingleHeader() {
	// Only a proxy in 192.0.2.0/24 is believed.
	key := keyfuncs.Address(keyfuncs.MustSingleHeader("X-Real-IP", "192.0.2.0/24"))
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Real-IP", "203.0.113.7")
	r.RemoteAddr = "192.0.2.1:50000"
	show(key, r)
	r.RemoteAddr = "198.51.100.1:50000"
	show(key, r)
	// Output:
	// 203.0.113.7
	// 198.51.100.1
}

func ExampleForwarded() {
	_, err := keyfuncs.Forwarded("0.0.0.0/0")
	fmt.Println(err)
	// Output: keyfuncs: Forwarded: range "0.0.0.0/0": trusts every address: list only the addresses of your proxies
}

func ExampleMustForwarded() {
	key := keyfuncs.Address(keyfuncs.MustForwarded("10.0.0.0/8"))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:50000"
	r.Header.Add("Forwarded", `for="198.51.100.99`) // an open quote, meant to swallow the next line
	r.Header.Add("Forwarded", `for="[2001:db8:1:2::a]:50000";proto=https, for=10.0.0.2`)
	show(key, r)
	// Output: 2001:db8:1:2::/64
}

// A health check that the load balancer itself sends has no X-Forwarded-For. It
// counts by the balancer's address, instead of being answered with 503.
func ExampleOrPeer() {
	key := keyfuncs.Address(keyfuncs.OrPeer(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:50000"
	show(key, r)
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	show(key, r)
	// Output:
	// 10.0.0.1
	// 203.0.113.7
}

// One request a day for all clients that cannot be identified, together.
func ExampleOrShared() {
	limiter := core.MustNew(core.Config[*http.Request]{Rules: []core.Rule[*http.Request]{{
		Name:  "per-client",
		Limit: limits.TokenBucket(limits.PerDay(1), 1),
		Key:   keyfuncs.OrShared(keyfuncs.Address(keyfuncs.MustProxyCount(1))),
	}}})
	for _, hop := range []string{"203.0.113.7", "unknown", "_hidden", "203.0.113.8"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Forwarded-For", hop)
		outcome := limiter.Decide(r.Context(), r)
		fmt.Println(hop, outcome.Verdict())
	}
	// Output:
	// 203.0.113.7 allowed
	// unknown allowed
	// _hidden denied
	// 203.0.113.8 allowed
}

// Inner middleware overwrites RemoteAddr with the value of a header. Middleware
// outside it has saved the peer.
func ExampleWithPeer() {
	type peerKey struct{}
	keepPeer := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, r.RemoteAddr)))
		})
	}
	realIP := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = r.Header.Get("X-Real-IP")
			next.ServeHTTP(w, r)
		})
	}

	peer := func(r *http.Request) string {
		peer, _ := r.Context().Value(peerKey{}).(string)
		return peer
	}
	key := keyfuncs.Address(keyfuncs.WithPeer(peer, keyfuncs.MustTrustedProxies("10.0.0.0/8")))
	handler := keepPeer(realIP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { show(key, r) })))

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:50000"
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	r.Header.Set("X-Real-IP", "198.51.100.99") // forged
	handler.ServeHTTP(httptest.NewRecorder(), r)
	// Output: 203.0.113.7
}

func ExampleHeader() {
	key := keyfuncs.Header("X-Tenant")
	r := httptest.NewRequest("GET", "/", nil)
	show(key, r)
	r.Header.Set("X-Tenant", "acme")
	show(key, r)
	r.Header.Set("X-Tenant", strings.Repeat("a", 65))
	show(key, r)
	// Output:
	// core: the request has no such key
	// acme
	// sha256:635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0
}

func ExampleAPIKey() {
	key := keyfuncs.APIKey("X-API-Key")
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-API-Key", "k-alice")
	show(key, r)
	// Output: 8fab151ebfe45da0ce0c2a951f8bba06
}

func ExampleBearerToken() {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "bearer k-alice")
	show(keyfuncs.BearerToken, r)
	// Output: 8fab151ebfe45da0ce0c2a951f8bba06
}

func ExampleBasicAuthUser() {
	r := httptest.NewRequest("GET", "/", nil)
	r.SetBasicAuth("alice", "password")
	show(keyfuncs.BasicAuthUser, r)
	// Output: alice
}

func ExampleCookie() {
	key := keyfuncs.Cookie("session")
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: "session", Value: "k-alice"})
	show(key, r)
	// Output: 8fab151ebfe45da0ce0c2a951f8bba06
}

// A key can be computed ahead, for example to reset it.
func ExampleDigest() {
	fmt.Println(keyfuncs.Digest("k-alice"))
	// Output: 8fab151ebfe45da0ce0c2a951f8bba06
}

func ExampleKnown() {
	tenants := map[string]bool{"acme": true}
	key := keyfuncs.Known(keyfuncs.Header("X-Tenant"), func(key string) bool { return tenants[key] })
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Tenant", "acme")
	show(key, r)
	r.Header.Set("X-Tenant", "made-up")
	show(key, r)
	// Output:
	// acme
	// core: the request has no such key
}

func ExampleDigestSet() {
	known := keyfuncs.DigestSet("k-alice", "k-bob")
	fmt.Println(known(keyfuncs.Digest("k-alice")), known(keyfuncs.Digest("k-eve")))
	// Output: true false
}

func ExampleFromContext() {
	type userKey struct{}
	key := keyfuncs.FromContext(func(ctx context.Context) (string, bool) {
		user, ok := ctx.Value(userKey{}).(string)
		return user, ok
	})
	r := httptest.NewRequest("GET", "/", nil)
	show(key, r)
	r = r.WithContext(context.WithValue(r.Context(), userKey{}, "alice")) // as authentication does
	show(key, r)
	// Output:
	// core: the request has no such key
	// alice
}

func ExampleMethod() {
	for _, method := range []string{"GET", "HEAD", "POST", "INVENTED"} {
		show(keyfuncs.Method, httptest.NewRequest(method, "/", nil))
	}
	// Output:
	// GET
	// GET
	// POST
	// other
}

func ExampleHost() {
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "API.Example.:8080"
	show(keyfuncs.Host, r)
	// Output: api.example
}

func ExamplePath() {
	show(keyfuncs.Path, httptest.NewRequest("GET", "/search?q=weir", nil))
	// Output: /search
}

func ExampleRoutePattern() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(_ http.ResponseWriter, r *http.Request) {
		show(keyfuncs.RoutePattern, r)
	})
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/items/1", nil))
	// Output: GET /items/{id}
}

func ExampleErrTooEarly() {
	_, err := keyfuncs.RoutePattern(httptest.NewRequest("GET", "/items/1", nil)) // outside the mux
	fmt.Println(errors.Is(err, keyfuncs.ErrTooEarly))
	// Output: true
}

func ExampleMuxPattern() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	key := keyfuncs.MuxPattern(mux)
	limited := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		show(key, r) // as a limiter around the mux does
		mux.ServeHTTP(w, r)
	})
	limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/items/1", nil))
	// Output: GET /items/{id}
}

func ExampleConstant() {
	key := keyfuncs.Constant[*http.Request]("everybody")
	show(key, httptest.NewRequest("GET", "/", nil))
	// Output: everybody
}

func ExampleJoin() {
	key := keyfuncs.Join(keyfuncs.Method, keyfuncs.Address(keyfuncs.Peer))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.7:50000"
	show(key, r)
	// Output: 3:GET11:203.0.113.7
}

// Combinators take key functions of any request type, such as a framework's.
func ExampleJoin_anyRequestType() {
	type job struct{ queue, tenant string }
	queue := func(j job) (string, error) { return j.queue, nil }
	tenant := func(j job) (string, error) { return j.tenant, nil }
	fmt.Println(keyfuncs.Join(queue, tenant)(job{"mail", "acme"}))
	// Output: 4:mail4:acme <nil>
}

func ExampleFirst() {
	type userKey struct{}
	user := keyfuncs.FromContext(func(ctx context.Context) (string, bool) {
		user, ok := ctx.Value(userKey{}).(string)
		return user, ok
	})
	key := keyfuncs.First(user, keyfuncs.Address(keyfuncs.Peer))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.7:50000"
	show(key, r)
	show(key, r.WithContext(context.WithValue(r.Context(), userKey{}, "alice")))
	// Output:
	// 1:203.0.113.7
	// 0:alice
}

// A strict limit for networks that have sent abuse. It applies to nobody else.
func ExampleInside() {
	listed := strings.Fields("192.0.2.0/24 2001:db8:bad::/48") // for example from a file
	source := keyfuncs.MustTrustedProxies("10.0.0.1")
	strict, err := keyfuncs.Inside(source, listed, keyfuncs.Address(source))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:50000"
	for _, client := range []string{"192.0.2.7", "203.0.113.7", "unknown"} {
		r.Header.Set("X-Forwarded-For", client)
		show(strict, r)
	}
	// Output:
	// 192.0.2.7
	// core: the rule does not apply to this request
	// keyfuncs: cannot tell who sent the request: a hop of the forwarding header is not an IP address
}

// Clients of which the address is unknown count together instead of being refused.
func ExampleMustInside() {
	source := keyfuncs.MustTrustedProxies("10.0.0.1")
	strict := keyfuncs.OrShared(keyfuncs.MustInside(source, []string{"192.0.2.0/24"}, keyfuncs.Address(source)))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:50000"
	r.Header.Set("X-Forwarded-For", "unknown")
	show(strict, r)
	// Output: core: the request has no such key
}

func ExampleOutside() {
	_, err := keyfuncs.Outside(keyfuncs.Peer, []string{"10.0.0.0/8", "10.0.0.0-10.0.0.255"},
		keyfuncs.Address(keyfuncs.Peer))
	fmt.Println(err)
	// Output: keyfuncs: Outside: range "10.0.0.0-10.0.0.255": must be a CIDR range or an IP address without zone
}

// The internal network is exempt from a limit.
func ExampleMustOutside() {
	key := keyfuncs.MustOutside(keyfuncs.Peer, []string{"192.168.0.0/16", "fd00::/8"}, keyfuncs.Address(keyfuncs.Peer))
	r := httptest.NewRequest("GET", "/", nil)
	for _, r.RemoteAddr = range []string{"203.0.113.7:50000", "192.168.1.2:50000", "[::ffff:192.168.1.2]:50000", "@"} {
		show(key, r)
	}
	// Output:
	// 203.0.113.7
	// core: the rule does not apply to this request
	// core: the rule does not apply to this request
	// keyfuncs: cannot tell who sent the request: the peer has no IP address
}

// The commonest misuse: OrPeer as the source. The proxy is in the exempt network, so
// whoever sends it a broken header is exempt.
func ExampleMustOutside_orPeer() {
	source := keyfuncs.MustTrustedProxies("10.0.0.1")
	internal := []string{"10.0.0.0/8"}
	wrong := keyfuncs.MustOutside(keyfuncs.OrPeer(source), internal, keyfuncs.Address(source))
	right := keyfuncs.OrShared(keyfuncs.MustOutside(source, internal, keyfuncs.Address(source)))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:50000"
	r.Header.Set("X-Forwarded-For", "broken")
	show(wrong, r)
	show(right, r) // counts with all other such requests
	// Output:
	// core: the rule does not apply to this request
	// core: the request has no such key
}

// The certificates of callers inside a network name their services.
func ExampleCommonName() {
	certificate := &x509.Certificate{Subject: pkix.Name{CommonName: "billing"}}
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
	show(keyfuncs.CommonName, r)
	r.TLS.VerifiedChains = [][]*x509.Certificate{{certificate}}
	show(keyfuncs.CommonName, r)
	// Output:
	// keyfuncs: cannot tell who sent the request: the client's certificate is not verified: set tls.Config.ClientAuth
	// billing
}

func ExampleSPIFFEID() {
	id := &url.URL{Scheme: "spiffe", Host: "example.org", Path: "/billing"}
	certificate := &x509.Certificate{URIs: []*url.URL{id}}
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{certificate},
		VerifiedChains:   [][]*x509.Certificate{{certificate}},
	}
	show(keyfuncs.SPIFFEID, r)
	// Output: spiffe://example.org/billing
}

func ExampleErrUnidentified() {
	key := keyfuncs.Address(keyfuncs.MustProxyCount(1))
	_, err := key(httptest.NewRequest("GET", "/", nil))
	fmt.Println(errors.Is(err, keyfuncs.ErrUnidentified), errors.Is(err, core.ErrAbsent))
	// Output: true false
}

// A framework whose handlers get a request type of its own, which stores values.
func ExampleValue() {
	type request struct{ values map[string]any }
	user := keyfuncs.Value(func(r *request) any { return r.values["user"] })
	fmt.Println(user(&request{map[string]any{"user": "ann"}}))
	fmt.Println(user(&request{map[string]any{"user": 42}}))
	fmt.Println(user(&request{}))
	// Output:
	// ann <nil>
	// 42 <nil>
	//  core: the request has no such key
}
