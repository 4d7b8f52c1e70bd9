package connect2mw

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"net/url"

	"connectrpc.com/connect/v2"

	"github.com/weir-go/weir/internal/ground/unseen"
)

// Call is a call that a server has received, and whose messages it has not read. Rules read it and
// must not keep it.
type Call struct {
	// Context is the context of the call.
	Context context.Context

	// Spec has the procedure, in the form "/package.Service/Method", and the kind of stream.
	Spec connect.Spec

	// Info has the header of the request, the address of the peer, and the protocol. It is never nil.
	// Do not modify it.
	Info *connect.CallInfo

	request *http.Request // result of Request
}

func callOf(ctx context.Context, spec connect.Spec) Call {
	info, ok := connect.CallInfoForServerContext(ctx)
	if !ok { // a test calls the interceptor without a server
		info = new(connect.CallInfo)
	}
	return Call{Context: ctx, Spec: spec, Info: info}
}

func (c *Call) isGRPC() bool {
	return c.Info.Protocol == connect.ProtocolNameGRPC || c.Info.Protocol == connect.ProtocolNameGRPCWeb
}

// Request returns the call as an http.Request, for policy files and functions that read one: a POST
// for the procedure, even if the client sent a GET, with the header, the peer's address, the state
// of TLS if the transport tells it, as that of connecthttp does, and no body. Every call of Request
// returns the same http.Request.
func (c *Call) Request() *http.Request {
	if c.request != nil {
		return c.request
	}
	header := http.Header(maps.Collect(c.Info.RequestHeader().All()))
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: c.Spec.Procedure},
		RequestURI: c.Spec.Procedure,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
		Header: header, Host: header.Get("Host"), RemoteAddr: c.Info.PeerAddr,
	}
	ctx := c.Context
	if transport, ok := c.Info.TransportInfo.(interface{ TLS() *tls.ConnectionState }); ok {
		r.TLS = transport.TLS()
	} else {
		ctx = unseen.TLS(ctx)
	}
	c.request = r.WithContext(ctx)
	return c.request
}
