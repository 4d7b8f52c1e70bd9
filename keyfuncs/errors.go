package keyfuncs

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/internal/ground/failure"
)

// ErrUnidentified is wrapped by every error of this package's sources and key functions
// except core.ErrAbsent and [ErrTooEarly]. It means that the sender cannot be identified without a
// guess.
// A limiter answers such a request as unavailable. If ordinary requests cause it, the
// source does not describe the network in front of the server.
//
// The texts of the errors are fixed and never contain any part of the request.
var ErrUnidentified error = &failure.Safe{
	Err: errors.New("keyfuncs: cannot tell who sent the request"),
}

// ErrTooEarly is wrapped by the errors of key functions that are asked at a place where their answer
// is not known yet, such as the pattern of a route before a router has seen the request. It is a
// mistake in the program: move the limiter, or use another key function. One key for all routes
// would hide it. A limiter answers such a request as unavailable, and logs the text.
var ErrTooEarly error = &failure.Safe{
	Err: errors.New("keyfuncs: the limiter is at a place where its key is not known yet"),
}

// These errors are created at start-up, so that failing allocates nothing.
var (
	errPeer        = unidentified("the peer has no IP address")
	errOverwritten = unidentified("RemoteAddr has no port: " +
		"replace RealIP or ProxyHeaders by TrustedProxies, or use TrustedRemoteAddr")
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
	errNoMux = tooEarly("the request has not passed an http.ServeMux: " +
		"use MuxPattern outside the mux, or the adapter's RoutePattern for another router")
	errStripped = tooEarly("the mux knows this path without its first part: " +
		"put the limiter inside http.StripPrefix")
	errNoText = unidentified("the value is not a string, an integer or a fmt.Stringer")
)

func unidentified(why string) error {
	return &failure.Safe{Err: fmt.Errorf("%w: %s", ErrUnidentified, why)}
}

func tooEarly(why string) error {
	return &failure.Safe{Err: fmt.Errorf("%w: %s", ErrTooEarly, why)}
}
