package agents

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/internal/ground/failure"
)

// ErrInvalid is wrapped by the errors of [Verifier.Verify] for a request whose signature is not
// good: it is malformed, forged, expired, for another site, or does not cover what it must. The texts
// say why. They are fixed and never contain any part of the request.
var ErrInvalid error = &failure.Safe{Err: errors.New("agents: the signature is not valid")}

// ErrUnverified is wrapped by the errors of [Verifier.Verify] for a request whose signature cannot be
// judged, since its key is not known: its directory is not listed or cannot be fetched, or does not
// have the key.
var ErrUnverified error = &failure.Safe{Err: errors.New("agents: the signature cannot be verified")}

// These errors are created at start-up, so that refusing allocates little.
var (
	errMalformed  = invalid("Signature-Input or Signature is malformed, too long or ambiguous")
	errParameters = invalid("it needs created, a later expires and a keyid, and no alg but ed25519")
	errFuture     = invalid("it was created in the future: set the clock of the signer")
	errExpired    = invalid("it has expired")
	errLifetime   = invalid("it expires too long after it was created")
	errComponents = invalid("it does not cover @authority or @target-uri, its Signature-Agent, " +
		"and what Components names")
	errMissing   = invalid("it covers what the request does not have, or what this package does not know")
	errAuthority = invalid("it is for another site")
	errAgent     = invalid("Signature-Agent is missing, malformed, or ambiguous")
	errNonce     = invalid("it has no nonce")
	errForged    = invalid("it is not by this key over this request")

	errUnlisted    = unverified("its directory is not listed")
	errNoRoom      = unverified("there is no room for another directory")
	errUnavailable = unverified("its directory could not be fetched")
	errNoKey       = unverified("its directory does not have this key now")
)

func invalid(why string) error {
	return &failure.Safe{Err: fmt.Errorf("%w: %s", ErrInvalid, why)}
}

func unverified(why string) error {
	return &failure.Safe{Err: fmt.Errorf("%w: %s", ErrUnverified, why)}
}
