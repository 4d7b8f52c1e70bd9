package grpcmw_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// from returns a call of a peer with metadata.
func from(p *peer.Peer, pairs ...string) *grpcmw.Call {
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs(pairs...))
	if p != nil {
		ctx = peer.NewContext(ctx, p)
	}
	return &grpcmw.Call{Context: ctx, FullMethod: "/shop.v1.Orders/Place"}
}

func tcp(text string) *peer.Peer {
	return &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)), LocalAddr: &net.TCPAddr{Port: 443}}
}

// text is the address of a server by ServeHTTP.
type text string

func (t text) Network() string { return "tcp" }
func (t text) String() string  { return string(t) }

// overTLS returns a peer with a certificate.
func overTLS(verified bool) *peer.Peer {
	leaf := &x509.Certificate{
		Subject: pkix.Name{CommonName: "billing"},
		URIs:    []*url.URL{{Scheme: "spiffe", Host: "example.org", Path: "/billing"}},
	}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	if verified {
		state.VerifiedChains = [][]*x509.Certificate{{leaf}}
	}
	p := tcp("192.0.2.1:1")
	p.AuthInfo = credentials.TLSInfo{State: state}
	return p
}

func TestKeys(t *testing.T) {
	proxies := grpcmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8", "unix")))
	peerKey := keyfuncs.Address(grpcmw.Peer)
	lifted := grpcmw.Lift(keyfuncs.Address(keyfuncs.Peer))
	unix := &peer.Peer{
		Addr: &net.UnixAddr{Net: "unix", Name: "192.0.2.1:1"}, LocalAddr: &net.UnixAddr{Net: "unix", Name: "/run/s"},
	}
	overHTTP := from(&peer.Peer{Addr: text("192.0.2.1:1")})
	overHTTP.Context = context.WithValue(overHTTP.Context, http.LocalAddrContextKey,
		net.Addr(&net.UnixAddr{Net: "unix"}))
	for _, c := range []struct {
		name string
		key  func(*grpcmw.Call) (string, error)
		call *grpcmw.Call
		want string
		err  error
	}{
		{"a peer", peerKey, from(tcp("192.0.2.1:1")), "192.0.2.1", nil},
		{"an IPv6 peer", peerKey, from(tcp("[2001:db8::1%eth0]:1")), "2001:db8::/64", nil},
		{"a mapped peer", peerKey, from(tcp("[::ffff:192.0.2.1]:1")), "192.0.2.1", nil},
		{"a peer of ServeHTTP", peerKey, from(&peer.Peer{Addr: text("192.0.2.1:1")}), "192.0.2.1", nil},
		{"no peer", peerKey, from(nil), "", keyfuncs.ErrUnidentified},
		{"a peer without an address", peerKey, from(new(peer.Peer)), "", keyfuncs.ErrUnidentified},
		{"a unix socket that is called like an address", peerKey, from(unix), "", keyfuncs.ErrUnidentified},
		{"such a socket, lifted", lifted, from(unix), "", keyfuncs.ErrUnidentified},
		{"such a socket, of ServeHTTP", peerKey, overHTTP, "", keyfuncs.ErrUnidentified},
		{"a peer, lifted", lifted, from(tcp("192.0.2.1:1")), "192.0.2.1", nil},
		{"no peer, lifted", lifted, from(nil), "", keyfuncs.ErrUnidentified},
		{"a client that forges a hop", proxies, from(tcp("192.0.2.1:1"), "x-forwarded-for", "203.0.113.7"), "192.0.2.1",
			nil},
		{"a client behind a proxy", proxies, from(tcp("10.0.0.1:1"), "x-forwarded-for", "198.51.100.9, 203.0.113.7"),
			"203.0.113.7", nil},
		{"a client that sends a hop of its own", proxies,
			from(tcp("10.0.0.1:1"), "x-forwarded-for", "198.51.100.9", "x-forwarded-for", "203.0.113.7"), "203.0.113.7",
			nil},
		{"a proxy over a unix socket", proxies, from(unix, "x-forwarded-for", "203.0.113.7"), "203.0.113.7", nil},
		{"a proxy that sends no hop", proxies, from(tcp("10.0.0.1:1")), "", keyfuncs.ErrUnidentified},
		{"metadata", grpcmw.Lift(keyfuncs.Header("x-tenant")), from(nil, "x-tenant", "acme"), "acme", nil},
		{"no metadata", grpcmw.Lift(keyfuncs.Header("x-tenant")), from(nil), "", core.ErrAbsent},
		{"metadata twice", grpcmw.Lift(keyfuncs.Header("x-tenant")), from(nil, "x-tenant", "acme", "x-tenant", "other"),
			"", keyfuncs.ErrUnidentified},
		{"a token", grpcmw.Lift(keyfuncs.BearerToken), from(nil, "authorization", "Bearer t"), keyfuncs.Digest("t"),
			nil},
		{"a host", grpcmw.Lift(keyfuncs.Host), from(nil, ":authority", "API.example:443"), "api.example", nil},
		{"a path", grpcmw.Lift(keyfuncs.Path), from(nil), "/shop.v1.Orders/Place", nil},
		{"a verb", grpcmw.Lift(keyfuncs.Method), from(nil), "POST", nil},
		{"a name in a certificate", grpcmw.Lift(keyfuncs.CommonName), from(overTLS(true)), "billing", nil},
		{"a SPIFFE ID", grpcmw.Lift(keyfuncs.SPIFFEID), from(overTLS(true)), "spiffe://example.org/billing", nil},
		{"a certificate that nobody verified", grpcmw.Lift(keyfuncs.SPIFFEID), from(overTLS(false)), "",
			keyfuncs.ErrUnidentified},
		{"no certificate", grpcmw.Lift(keyfuncs.SPIFFEID), from(tcp("192.0.2.1:1")), "", core.ErrAbsent},
		{"a method", grpcmw.Method, from(nil), "/shop.v1.Orders/Place", nil},
		{"a service", grpcmw.Service, from(nil), "shop.v1.Orders", nil},
		{"no method", grpcmw.Service, &grpcmw.Call{Context: context.Background()}, "", nil},
	} {
		if got, err := c.key(c.call); got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	if grpcmw.Lift[string](nil) != nil {
		t.Error("a nil function is lifted")
	}
}

// A client must not get a fresh budget by inventing methods.
func TestMethodsThatNobodyHasRegisteredAreOneKey(t *testing.T) {
	l := newLimiter(t, grpcmw.Config{Rules: []grpcmw.Rule{
		{Name: "method", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: grpcmw.Method},
		{Name: "service", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: grpcmw.Service},
	}})
	conn := dial(t,
		listen(t, new(service),
			append(both(l), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }))...))
	for i, method := range []string{"/a.B/C", "/a.B/D", "/x.Y/Z"} {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		want := codes.ResourceExhausted
		if i == 0 {
			want = codes.Unknown // EOF
		}
		wantCode(t, stream.RecvMsg(nil), want)
	}
}

// The peers of a server that listens on TCP, and of one behind net/http.
func TestAPeerIsKnownByItsAddress(t *testing.T) {
	keys := make(chan string, 1)
	l := newLimiter(t, grpcmw.Config{Rules: []grpcmw.Rule{{
		Name: "a", Limit: limits.FixedWindow(limits.PerDay(9)),
		Key: func(c *grpcmw.Call) (string, error) {
			key, err := keyfuncs.Address(grpcmw.Peer)(c)
			keys <- key
			return key, err
		},
	}}})
	for name, target := range servers(t, new(service), both(l)...) {
		if got := ask(t.Context(), target); got.code != codes.OK {
			t.Errorf("%s: %+v", name, got)
		}
		if key := <-keys; key != "127.0.0.1" {
			t.Errorf("%s: the key is %q", name, key)
		}
	}
}
