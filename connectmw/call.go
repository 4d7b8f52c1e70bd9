package connectmw

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	"github.com/weir-go/weir/internal/ground/unseen"
)

// Call is a call that a server has received. Rules read it and must not keep it.
type Call struct {
	// Context is the context of the call.
	Context context.Context

	// Spec has the procedure, in the form "/package.Service/Method", and the kind of stream.
	Spec connect.Spec

	// Peer is the client, with the protocol that it speaks.
	Peer connect.Peer

	// Header is the header of the request. Do not modify it.
	Header http.Header

	// Message is the message of a unary call. It is nil for a stream, whose messages may not have
	// arrived.
	Message any

	request *http.Request // result of Request
}

// Request returns the call as an http.Request, for policy files and functions that read one: a POST
// for the procedure, even if the client sent a GET, with the header, the peer's address, the state
// of TLS if [WithTLS] kept it, and no body. Every call of Request returns the same http.Request.
func (c *Call) Request() *http.Request {
	if c.request != nil {
		return c.request
	}
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: c.Spec.Procedure},
		RequestURI: c.Spec.Procedure,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
		Header: c.Header, Host: c.Header.Get("Host"), RemoteAddr: c.Peer.Addr,
	}
	ctx, isSeen := c.Context, false
	if r.TLS, isSeen = ctx.Value(tlsKey{}).(*tls.ConnectionState); !isSeen {
		ctx = unseen.TLS(ctx)
	}
	c.request = r.WithContext(ctx)
	return c.request
}

type tlsKey struct{}

// WithTLS returns a handler that keeps the TLS state of each request for rules, and calls next. Put
// it around the handlers of Connect if a rule reads certificates, by [keyfuncs.CommonName] or
// [keyfuncs.SPIFFEID]: interceptors do not see them otherwise, and these functions fail. It panics
// if next
// is nil.
func WithTLS(next http.Handler) http.Handler {
	if next == nil {
		panic("connectmw: WithTLS: next is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tlsKey{}, r.TLS)))
	})
}
