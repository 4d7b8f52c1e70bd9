package mcpmw

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/keyfuncs"
)

// Lift adapts a function of *http.Request to [*Call], by [Call.Request]. It is for LimitFor, and
// for the key functions of package keyfuncs that read header fields, an address or a certificate:
//
//	Key: mcpmw.Lift(keyfuncs.Header("X-Tenant"))
//	Key: mcpmw.Lift(keyfuncs.BearerToken)
//	Key: mcpmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
//
// Addresses and certificates need [WithRequest]. Combinators take lifted functions together with
// those of this package. If f is nil, the result is nil.
func Lift[T any](f func(*http.Request) (T, error)) func(*Call) (T, error) {
	if f == nil {
		return nil
	}
	return func(c *Call) (T, error) { return f(c.Request()) }
}

// Peer returns the address at the other end of the connection that carries the call. It is
// [keyfuncs.Peer], for [keyfuncs.Address]:
//
//	Key: keyfuncs.Address(mcpmw.Peer)
//
// It fails over stdio, over a unix socket, and if [WithRequest] is not around the handler. Another
// address costs a client another machine or network. Behind a proxy all clients share the proxy's
// address: see [keyfuncs.TrustedProxies].
func Peer(c *Call) (netip.Addr, error) {
	r := c.Request()
	if c.Extra != nil && r.RemoteAddr == "" {
		return netip.Addr{}, errHidden
	}
	return keyfuncs.Peer(r)
}

// Session is the key function of the session: a digest of its id, as [keyfuncs.Digest] returns it.
// It returns [core.ErrAbsent] if the session has no id, as over stdio.
//
// Another key costs a client a new session, so also limit "initialize" by [User] or by [Peer]. A
// stateless server has no sessions: before release 1.8 of the SDK it takes any id that a client
// sends, so another key costs nothing. Later releases have no id there, and all clients count
// together.
func Session(c *Call) (string, error) {
	if c.Session == nil || c.Session.ID() == "" {
		return "", core.ErrAbsent
	}
	return keyfuncs.Digest(c.Session.ID()), nil
}

// User is the key function of the authenticated user: the UserID of the auth.TokenInfo that the
// server's verifier has returned. It returns [core.ErrAbsent] without a token, and fails if the
// verifier sets no UserID.
//
// Another key costs a client another account.
func User(c *Call) (string, error) {
	token := c.token()
	switch {
	case token == nil:
		return "", core.ErrAbsent
	case token.UserID == "":
		return "", errNoUser
	}
	return bounded(token.UserID), nil
}

// Tool is the key function of the tool that is called. Rules do not apply to calls of other
// methods.
//
// Another key costs a client nothing, but a call of an unknown tool does no work. Join the name
// with the key of a client, so that one client cannot use up a tool for all:
//
//	Key: keyfuncs.Join(mcpmw.User, mcpmw.Tool)
func Tool(c *Call) (string, error) {
	name, ok := c.tool()
	if !ok {
		return "", core.ErrDoesNotApply
	}
	return bounded(name), nil
}

// CallsTool returns a condition for [core.When]: whether a call is "tools/call" of one of the named
// tools, or of any tool if there are no names. [Limiter.Unlimited] finds misspelt names.
//
//	Key: core.When(mcpmw.CallsTool("search", "render"), mcpmw.User)
func CallsTool(names ...string) func(*Call) bool {
	names = slices.Clone(names)
	return func(c *Call) bool {
		name, ok := c.tool()
		return ok && (len(names) == 0 || slices.Contains(names, name))
	}
}

// Method is the key function of the method, such as "tools/call". It never fails.
//
// Another key costs a client nothing, but it can only choose among the methods of the protocol.
func Method(c *Call) (string, error) { return c.Method, nil }

const maxVerbatim = 64 // bytes of a text that is a key unchanged

// bounded returns s, or its digest if s is too long. The digest has more than maxVerbatim bytes, so
// different texts have different keys.
func bounded(s string) string {
	if len(s) <= maxVerbatim {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

var (
	errHidden = unidentified("put mcpmw.WithRequest directly around the handler of the SDK")
	errNoUser = unidentified("the TokenVerifier sets no UserID")
)

func unidentified(why string) error {
	return &failure.Safe{Err: fmt.Errorf("%w: %s", keyfuncs.ErrUnidentified, why)}
}
