package keyfuncs_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

// withCertificate returns a request of a client with a certificate.
func withCertificate(t testing.TB, commonName string, verified bool, uris ...string) *http.Request {
	t.Helper()
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: commonName}}
	for _, text := range uris {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		leaf.URIs = append(leaf.URIs, uri)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	if verified {
		r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
	}
	return r
}

func TestACertificateNamesTheClientOnceItIsVerified(t *testing.T) {
	plain := httptest.NewRequest("GET", "/", nil)
	anonymous := httptest.NewRequest("GET", "/", nil)
	anonymous.TLS = new(tls.ConnectionState)
	long := "spiffe://example.org/" + strings.Repeat("a", 100)
	for _, c := range []struct {
		name string
		key  func(*http.Request) (string, error)
		r    *http.Request
		want string
		err  error
	}{
		{"a name", keyfuncs.CommonName, withCertificate(t, "billing", true), "billing", nil},
		{"a name that is empty", keyfuncs.CommonName, withCertificate(t, "", true), "", core.ErrAbsent},
		{"no TLS", keyfuncs.CommonName, plain, "", core.ErrAbsent},
		{"no certificate", keyfuncs.CommonName, anonymous, "", core.ErrAbsent},
		{"a name that nobody has verified", keyfuncs.CommonName, withCertificate(t, "billing", false), "",
			keyfuncs.ErrUnidentified},
		{"an ID", keyfuncs.SPIFFEID, withCertificate(t, "x", true, "spiffe://example.org/billing"),
			"spiffe://example.org/billing", nil},
		{"no ID", keyfuncs.SPIFFEID, withCertificate(t, "x", true), "", core.ErrAbsent},
		{"no TLS, no ID", keyfuncs.SPIFFEID, plain, "", core.ErrAbsent},
		{"an ID that nobody has verified", keyfuncs.SPIFFEID,
			withCertificate(t, "x", false, "spiffe://example.org/billing"), "", keyfuncs.ErrUnidentified},
		{"two IDs", keyfuncs.SPIFFEID, withCertificate(t, "x", true, "spiffe://a/b", "spiffe://a/c"), "",
			keyfuncs.ErrUnidentified},
		{"a URI beside it", keyfuncs.SPIFFEID, withCertificate(t, "x", true, "spiffe://a/b", "https://a/b"), "",
			keyfuncs.ErrUnidentified},
		{"another scheme", keyfuncs.SPIFFEID, withCertificate(t, "x", true, "https://example.org/billing"), "",
			keyfuncs.ErrUnidentified},
		{"no trust domain", keyfuncs.SPIFFEID, withCertificate(t, "x", true, "spiffe:///billing"), "",
			keyfuncs.ErrUnidentified},
		{"a query", keyfuncs.SPIFFEID, withCertificate(t, "x", true, "spiffe://example.org/billing?x=1"), "",
			keyfuncs.ErrUnidentified},
	} {
		if got, err := c.key(c.r); got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	if got, err := keyfuncs.SPIFFEID(withCertificate(t, "x", true, long)); err != nil ||
		!strings.HasPrefix(got, "sha256:") {
		t.Errorf("a long ID: %q, %v", got, err)
	}
}
