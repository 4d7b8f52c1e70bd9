package fibermw

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/gofiber/fiber/v3"
)

// exchange is a request and its answer as package gate sees them. It lives while the limiter
// decides and answers.
type exchange struct {
	ctx    fiber.Ctx
	header http.Header // of the answer, once it is loaded
	sent   http.Header // what the answer of ctx has of it
	loaded bool

	onStatus func(status int) // nil: the status does not matter

	asked http.Request // has what package gate reads of a request

	shares  bool // begin has been called, and decided has not
	bridged *http.Request
	content *content // of bridged, whose Body a function may have replaced; nil: not bridged
}

var exchanges = sync.Pool{New: func() any {
	return &exchange{
		header: make(http.Header),
		sent:   make(http.Header),
		asked:  http.Request{Header: make(http.Header)},
	}
}}

type exchangeKey struct{}

// begin returns the exchange of a request. Lifted functions share what they copy until done.
func begin(c fiber.Ctx) *exchange {
	x := exchanges.Get().(*exchange)
	x.ctx, x.shares = c, true
	x.asked.Method = c.Method()
	c.RequestCtx().SetUserValue(exchangeKey{}, x)
	return x
}

// decided ends the sharing, so that the next limiter sees what handlers change in the request. The
// second call does nothing: after a timeout another goroutine uses the context.
func (x *exchange) decided() {
	if x.shares {
		if x.content != nil {
			x.content.forget()
		}
		x.shares, x.bridged, x.content = false, nil, nil
		x.ctx.RequestCtx().RemoveUserValue(exchangeKey{})
	}
}

// end puts x into the pool. It is not called after a panic.
func (x *exchange) end() {
	x.decided()
	clear(x.header)
	clear(x.sent)
	clear(x.asked.Header)
	x.ctx, x.loaded, x.onStatus, x.asked.Method = nil, false, nil, ""
	exchanges.Put(x)
}

// request returns the request for package gate, with ctx as its context.
func (x *exchange) request(ctx context.Context) *http.Request {
	x.copyField("Accept")
	if x.asked.Method == http.MethodOptions {
		x.copyField("Origin")
		x.copyField("Access-Control-Request-Method")
	}
	if ctx == context.Background() { // as that of a request without one
		return &x.asked
	}
	return x.asked.WithContext(ctx)
}

func (x *exchange) copyField(name string) {
	found := x.ctx.Request().Header.PeekAll(name)
	if len(found) == 0 {
		return
	}
	if len(found) == 1 && string(found[0]) == "*/*" { // most programs send this
		x.asked.Header[name] = anything
		return
	}
	lines := make([]string, len(found))
	for i, line := range found {
		lines[i] = string(line)
	}
	x.asked.Header[name] = lines
}

var anything = []string{"*/*"}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header {
	if !x.loaded {
		x.loaded = true
		h := &x.ctx.Response().Header
		for name, value := range h.All() {
			switch string(name) { // without a copy
			case "Content-Type", "Content-Length", "Server": // fasthttp has defaults
			default:
				x.sent.Add(string(name), string(value))
			}
		}
		for name, values := range x.sent {
			x.header[name] = slices.Clone(values)
		}
	}
	return x.header
}

// store brings the answer of ctx up to date with the header.
func (x *exchange) store() {
	h := &x.ctx.Response().Header
	for name := range x.sent {
		if _, ok := x.header[name]; !ok {
			h.Del(name)
			delete(x.sent, name)
		}
	}
	for name, values := range x.header {
		if slices.Equal(x.sent[name], values) {
			continue
		}
		if len(values) == 1 && name != fiber.HeaderSetCookie { // Set adds a cookie
			h.Set(name, values[0])
		} else {
			h.Del(name)
			for _, value := range values {
				h.Add(name, value)
			}
		}
		if x.onStatus != nil { // the fields may be deleted again
			x.sent[name] = values
		}
	}
}

// WriteHeader implements http.ResponseWriter. The answer replaces what handlers have written.
func (x *exchange) WriteHeader(status int) {
	x.store()
	x.ctx.Response().ResetBody()
	x.ctx.Response().SetStatusCode(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	x.ctx.Response().AppendBody(p)
	return len(p), nil
}
