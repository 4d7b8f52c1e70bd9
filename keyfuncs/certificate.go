package keyfuncs

import (
	"crypto/x509"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/unseen"
)

// CommonName is the key function of the common name in the client's certificate. It returns
// core.ErrAbsent if the client sent no certificate, or one without a common name. It returns an
// error if the certificate was not verified: set [crypto/tls.Config].ClientAuth to
// VerifyClientCertIfGiven or RequireAndVerifyClientCert. A name of more than 64 bytes is
// represented by its digest, as in [Header].
//
// Another key costs a client another certificate of an authority in ClientCAs, with the name that
// this authority puts there.
func CommonName(r *http.Request) (string, error) {
	leaf, err := clientCertificate(r)
	if err != nil {
		return "", err
	}
	if leaf.Subject.CommonName == "" {
		return "", core.ErrAbsent
	}
	return bounded(leaf.Subject.CommonName), nil
}

// SPIFFEID is the key function of the SPIFFE ID in the client's certificate, such as
// "spiffe://example.org/billing". It returns core.ErrAbsent if the client sent no certificate, or
// one without a URI. It returns an error if the certificate has several URIs or a URI that is not a
// SPIFFE ID (X509-SVID, section 2), and, like [CommonName], if the certificate was not verified. An
// ID of more than 64 bytes is represented by its digest, as in [Header].
//
// Programs that verify certificates by a function in [crypto/tls.Config].VerifyPeerCertificate, as
// those of go-spiffe do, leave no trace of it here: use [Value] with the ID that their library
// returns.
//
// Another key costs a client another certificate of an authority in ClientCAs.
func SPIFFEID(r *http.Request) (string, error) {
	leaf, err := clientCertificate(r)
	if err != nil {
		return "", err
	}
	if len(leaf.URIs) == 0 {
		return "", core.ErrAbsent
	}
	id := leaf.URIs[0]
	if len(leaf.URIs) > 1 || id.Scheme != "spiffe" || id.Host == "" || id.User != nil ||
		id.RawQuery != "" || id.Fragment != "" {
		return "", errNoSPIFFEID
	}
	return bounded(id.String()), nil
}

// clientCertificate returns the verified certificate of the client.
func clientCertificate(r *http.Request) (*x509.Certificate, error) {
	switch {
	case unseen.IsTLS(r.Context()):
		return nil, errUnseen
	case r.TLS == nil || len(r.TLS.PeerCertificates) == 0:
		return nil, core.ErrAbsent
	case len(r.TLS.VerifiedChains) == 0:
		return nil, errUnverified
	}
	return r.TLS.VerifiedChains[0][0], nil
}
