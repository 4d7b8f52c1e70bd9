package mcpmw

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/internal/ground/unseen"
)

// Call is a call that a server has received: a JSON-RPC request that gets an answer. Rules read it
// and must not keep it.
type Call struct {
	// Context is the context of the call. Its values are those of the request that opened the
	// session.
	Context context.Context

	// Method is the method, such as "tools/call".
	Method string

	// Session is the session of the client.
	Session *mcp.ServerSession

	// Params is the parameters: *mcp.CallToolParamsRaw for "tools/call". It may be nil for a method
	// whose parameters are optional.
	Params mcp.Params

	// Extra has the token and the header fields of the HTTP request. It is nil over stdio. Do not
	// modify it.
	Extra *mcp.RequestExtra

	request *http.Request // result of Request
}

// tool returns the name of the tool that c calls.
func (c *Call) tool() (name string, ok bool) {
	params, ok := c.Params.(*mcp.CallToolParamsRaw)
	if !ok || params == nil || c.Method != "tools/call" {
		return "", false
	}
	return params.Name, true
}

// Request returns the call as an http.Request, for policy files and functions that read one: a POST
// with the path "/tools/call/search" for the tool search, and "/resources/read" for another method.
// It has the header fields of the HTTP request, and no body. Behind [WithRequest] it also has the
// host, the peer's address and the state of TLS. Every call of Request returns the same
// http.Request.
func (c *Call) Request() *http.Request {
	if c.request == nil {
		c.request = c.newRequest()
	}
	return c.request
}

func (c *Call) newRequest() *http.Request {
	path := "/" + c.Method
	if tool, ok := c.tool(); ok {
		path += "/" + tool
	}
	u := &url.URL{Path: path}
	r := &http.Request{
		Method: http.MethodPost, URL: u, RequestURI: u.EscapedPath(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Header: c.header(),
	}
	ctx, sent := c.Context, requestWith(r.Header)
	if sent == nil {
		return r.WithContext(unseen.TLS(ctx))
	}
	r.Host, r.RemoteAddr, r.TLS = sent.Host, sent.RemoteAddr, sent.TLS
	// It lets package keyfuncs recognize a unix socket.
	local := sent.Context().Value(http.LocalAddrContextKey)
	return r.WithContext(context.WithValue(ctx, http.LocalAddrContextKey, local))
}

func (c *Call) header() http.Header {
	if c.Extra == nil || c.Extra.Header == nil {
		return make(http.Header)
	}
	return c.Extra.Header
}

// requests has the requests that WithRequest has passed on and that are not answered yet, by the
// address of the map that is their header. The SDK hands the map on, and nothing else of a request.
// A client cannot forge an address.
var requests sync.Map

func headerAddress(h http.Header) uintptr { return reflect.ValueOf(h).Pointer() }

// requestWith returns the request that has the header h, or nil.
func requestWith(h http.Header) *http.Request {
	r, _ := requests.Load(headerAddress(h))
	request, _ := r.(*http.Request)
	return request
}

// WithRequest returns a handler that keeps the host, the peer's address and the TLS state of each
// request for rules, and calls next. Put it directly around an [mcp.StreamableHTTPHandler] if a
// rule reads an address or a certificate: the SDK hides them otherwise, and [Peer] fails. It panics
// if next is nil.
func WithRequest(next http.Handler) http.Handler {
	if next == nil {
		panic("mcpmw: WithRequest: next is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header != nil {
			address := headerAddress(r.Header)
			requests.Store(address, r)
			defer requests.Delete(address)
		}
		next.ServeHTTP(w, r)
	})
}
