package keyfuncs

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/internal/ground/failure"
)

// ErrUnidentified is wrapped by every error of this package's sources and key functions
// except core.ErrAbsent. It means that the sender cannot be identified without a guess.
// A limiter answers such a request as unavailable. If ordinary requests cause it, the
// source does not describe the network in front of the server.
//
// The texts of the errors are fixed and never contain any part of the request.
var ErrUnidentified error = &failure.Safe{
	Err: errors.New("keyfuncs: cannot tell who sent the request"),
}

// These errors are created at start-up, so that failing allocates nothing.
var (
	errPeer        = unidentified("the peer has no IP address")
	errOverwritten = unidentified("RemoteAddr has no port: " +
		"replace RealIP or ProxyHeaders by TrustedProxies")
	errAddress     = unidentified("the address is missing, unspecified or invalid")
	errMissing     = unidentified("the forwarding header is missing")
	errHop         = unidentified("a hop of the forwarding header is not an IP address")
	errTooFewHops  = unidentified("the forwarding header has fewer hops than there are proxies")
	errTooManyHops = unidentified("the forwarding header has too many hops")
	errSeveral     = unidentified("a header that may have one line has several")
	errTooLong     = unidentified("the credential is too long")
	errUnverified  = unidentified("the client's certificate is not verified: " +
		"set tls.Config.ClientAuth")
	errUnseen = unidentified("the certificate is hidden: " +
		"put connectmw.WithTLS or mcpmw.WithRequest around the handlers")
	errNoSPIFFEID = unidentified("the client's certificate has several URIs, " +
		"or one that is no SPIFFE ID")
	errNoText = unidentified("the value is not a string, an integer or a fmt.Stringer")
)

func unidentified(why string) error {
	return &failure.Safe{Err: fmt.Errorf("%w: %s", ErrUnidentified, why)}
}
