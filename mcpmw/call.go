package mcpmw

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
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

// token returns the token of the HTTP request, or of the one that opened the session if the
// transport does not hand on those of later requests.
func (c *Call) token() *auth.TokenInfo {
	if c.Extra != nil {
		return c.Extra.TokenInfo
	}
	return auth.TokenInfoFromContext(c.Context)
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
	r.Host, r.RemoteAddr, r.TLS = sent.host, sent.peer, sent.tls
	// It lets package keyfuncs recognize a unix socket.
	return r.WithContext(context.WithValue(ctx, http.LocalAddrContextKey, sent.local))
}

func (c *Call) header() http.Header {
	if c.Extra == nil || c.Extra.Header == nil {
		return make(http.Header)
	}
	return c.Extra.Header
}

// sent is what the SDK hides of a request. It must not lead to the header of the request.
type sent struct {
	host, peer string
	local      any
	tls        *tls.ConnectionState
}

// requests has a *sent for each header that WithRequest has passed on, until the header is garbage:
// a call may begin after its client has left and the handler of its request has returned. The SDK
// hands the map on that is the header, and nothing else of a request. A client cannot forge it.
var requests sync.Map

func identity(h http.Header) *byte { return (*byte)(reflect.ValueOf(h).UnsafePointer()) }

// requestWith returns what WithRequest knows of the request that has the header h, or nil.
func requestWith(h http.Header) *sent {
	r, _ := requests.Load(weak.Make(identity(h)))
	request, _ := r.(*sent)
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
			key := weak.Make(identity(r.Header))
			local := r.Context().Value(http.LocalAddrContextKey)
			_, again := requests.Swap(key, &sent{r.Host, r.RemoteAddr, local, r.TLS})
			if !again {
				runtime.AddCleanup(key.Value(), func(key weak.Pointer[byte]) { requests.Delete(key) }, key)
			}
		}
		next.ServeHTTP(w, r)
	})
}
