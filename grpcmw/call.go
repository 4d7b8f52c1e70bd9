package grpcmw

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Call is a call that a server has received. Rules read it and must not keep it.
type Call struct {
	// Context is the context of the call. It has the metadata and the peer: see
	// metadata.FromIncomingContext and peer.FromContext.
	Context context.Context

	// FullMethod is the method in the form "/package.Service/Method".
	FullMethod string

	// Message is the message of a unary call. It is nil for a stream, whose messages have not
	// arrived. When [Limiter.Tap] decides a unary call, Message is an empty value, not nil.
	Message any

	unregistered bool          // served by the handler of unknown methods
	derived      bool          // Context differs from that of the stream
	request      *http.Request // result of Request
}

// Request returns the call as an http.Request, for policy files and functions that read one: a POST
// for the full method, with the metadata as header fields, the peer's address, the state of TLS,
// and no body. Every call of Request returns the same http.Request.
func (c *Call) Request() *http.Request {
	if c.request == nil {
		c.request = c.newRequest()
	}
	return c.request
}

func (c *Call) newRequest() *http.Request {
	md, _ := metadata.FromIncomingContext(c.Context)
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: c.FullMethod}, RequestURI: c.FullMethod,
		Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody, Header: make(http.Header, len(md)),
	}
	for name, values := range md {
		switch {
		case len(values) == 0: // an interceptor set an empty list
		case name == ":authority":
			r.Host = values[0]
		case !strings.HasPrefix(name, ":"):
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	ctx := c.Context
	if p, ok := peer.FromContext(ctx); ok {
		if p.Addr != nil {
			r.RemoteAddr = p.Addr.String()
		}
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
		if p.LocalAddr != nil { // lets package keyfuncs recognize a unix socket
			ctx = context.WithValue(ctx, http.LocalAddrContextKey, p.LocalAddr)
		}
	}
	return r.WithContext(ctx)
}
