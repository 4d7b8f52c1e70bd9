package fibermw

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// exchange is a request and its answer as package gate sees them. It lives while the limiter
// decides and answers.
type exchange struct {
	ctx    fiber.Ctx
	within context.Context // of the request around the limiter
	late   bool            // see isLate
	unsent int             // the status of an answer that came too late; 0: none

	header http.Header // of the answer, once it is loaded
	sent   http.Header // what the answer of ctx has of it
	loaded bool

	onStatus func(status int) // nil: the status does not matter

	outer *exchange // of the outermost limiter around this one; nil: this is the outermost
	kept  []written // what limiters have written into the answer; of the outermost alone

	asked  http.Request // has what package gate reads of a request
	body   unread       // of asked
	passed bool         // the next handler was called

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

// written is a field of the answer. An inner limiter replaces a slice of them and does not change
// it, since after a time-out another goroutine may read it.
type written struct {
	name   string
	values []string
}

type (
	exchangeKey struct{}
	outerKey    struct{}
)

// begin returns the exchange of a request. Lifted functions share what they copy until done.
func begin(c fiber.Ctx) *exchange {
	x := exchanges.Get().(*exchange)
	x.ctx, x.within, x.shares = c, c.Context(), true
	x.asked.Method = c.Method()
	fast := c.RequestCtx()
	fast.SetUserValue(exchangeKey{}, x)
	x.outer, _ = fast.UserValue(outerKey{}).(*exchange)
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

// SetReadDeadline is what http.ResponseController calls.
func (x *exchange) SetReadDeadline(t time.Time) error {
	if x.isLate() {
		return http.ErrNotSupported
	}
	return x.ctx.RequestCtx().Conn().SetReadDeadline(t)
}

// end puts x into the pool. It is not called after a panic. After a time-out a late handler may
// still use x, and x stays in the values of the request.
func (x *exchange) end() {
	if x.isLate() || timedOut(x.ctx) != nil {
		return
	}
	if !x.passed {
		x.body.finish(x.ctx)
	}
	x.decided()
	clear(x.kept)
	x.outer, x.kept = nil, x.kept[:0]
	clear(x.header)
	clear(x.sent)
	clear(x.asked.Header)
	x.ctx, x.within, x.loaded, x.unsent = nil, nil, false, 0
	x.onStatus, x.asked.Method = nil, ""
	x.asked.Body, x.asked.ContentLength, x.body, x.passed = nil, 0, unread{}, false
	exchanges.Put(x)
}

// isLate reports whether the time of the request is up while the server waits for another goroutine,
// as Fiber's timeout does. The OnTimeout of the program may then use the context at this moment, and
// Fiber abandons it only afterwards. So nothing of ctx may be read or written.
func (x *exchange) isLate() bool {
	if !x.late && x.within.Err() != nil {
		x.late = !servesHere()
	}
	return x.late
}

// servesHere reports whether the server waits for this goroutine: Fiber's handler of requests, whose
// name ends so, has called it. A deadline that a program sets itself is then answered as usual.
func servesHere() bool {
	callers := make([]uintptr, 64)
	for skip := 2; ; skip += len(callers) {
		n := runtime.Callers(skip, callers)
		frames := runtime.CallersFrames(callers[:n])
		for more := n > 0; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			if strings.HasPrefix(frame.Function, "github.com/gofiber/fiber/v3.(*App).") &&
				strings.HasSuffix(frame.Function, "RequestHandler") {
				return true
			}
		}
		if n < len(callers) {
			return false
		}
	}
}

// returned returns err, or the error of an answer that came too late to be written.
func (x *exchange) returned(err error) error {
	if err != nil || x.unsent == 0 {
		return err
	}
	return &lateError{fiber.NewError(x.unsent), x.within.Err()}
}

// lateError is an answer that came too late. Fiber's timeout knows it by the error of the context,
// and an ErrorHandler by its status.
type lateError struct {
	answer *fiber.Error
	ended  error
}

// Error implements error. Clients may see the text, so it is that of the status alone.
func (e *lateError) Error() string { return e.answer.Message }

func (e *lateError) Unwrap() []error { return []error{e.answer, e.ended} }

// request returns the request for package gate.
func (x *exchange) request() *http.Request {
	x.copyField("Accept")
	switch x.asked.Method {
	case http.MethodOptions:
		x.copyField("Origin")
		x.copyField("Access-Control-Request-Method")
	case http.MethodPost:
		if bytes.HasPrefix(x.ctx.Request().Header.ContentType(), webCalls) {
			x.copyField("Content-Type")
		}
	}
	if x.findUnread() {
		x.asked.Body = &x.body
		x.asked.ContentLength = int64(max(x.body.request.Header.ContentLength(), -1))
	}
	if x.within == context.Background() { // as that of a request without one
		return &x.asked
	}
	return x.asked.WithContext(x.within)
}

// findUnread reports whether the body of the request streams, and remembers it. A program may run the
// app without the server of fasthttp, and then there is no next request.
func (x *exchange) findUnread() bool {
	fast := x.ctx.RequestCtx()
	if !fast.Request.IsBodyStream() || fast.ConnRequestNum() == 0 {
		return false
	}
	x.body.request = &fast.Request
	return true
}

// webCalls begins the media types of gRPC-Web. gRPC itself needs HTTP/2.
var webCalls = []byte("application/grpc-web")

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
	if !x.loaded && !x.isLate() {
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

// reload brings a field of the header up to date with the answer of ctx, which handlers may have
// changed.
func (x *exchange) reload(name string) {
	delete(x.header, name)
	delete(x.sent, name)
	for _, value := range x.ctx.Response().Header.PeekAll(name) {
		x.sent.Add(name, string(value))
	}
	if values := x.sent[name]; values != nil {
		x.header[name] = slices.Clone(values)
	}
}

// store brings the answer of ctx up to date with the header.
func (x *exchange) store() {
	if x.isLate() {
		return
	}
	h := &x.ctx.Response().Header
	for name := range x.sent {
		if _, ok := x.header[name]; !ok {
			h.Del(name)
			delete(x.sent, name)
			x.keep(name, nil)
		}
	}
	for name, values := range x.header {
		if slices.Equal(x.sent[name], values) {
			continue
		}
		set(h, name, values)
		x.keep(name, values)
		if x.onStatus != nil { // the fields may be deleted again
			x.sent[name] = values
		}
	}
}

// set sets a field of an answer.
func set(h *fasthttp.ResponseHeader, name string, values []string) {
	if len(values) == 1 && name != fiber.HeaderSetCookie { // Set adds a cookie
		h.Set(name, values[0])
		return
	}
	h.Del(name)
	for _, value := range values {
		h.Add(name, value)
	}
}

// keep notes a field that x has written into the answer, or, without values, deleted. The outermost
// limiter gets the note, so that it does not bring back its own after an inner one.
func (x *exchange) keep(name string, values []string) {
	if x.outer == nil {
		if values != nil {
			x.kept = append(x.kept, written{name, values})
		}
		return
	}
	kept := make([]written, 0, len(x.outer.kept)+1)
	for _, f := range x.outer.kept {
		if f.name != name {
			kept = append(kept, f)
		}
	}
	if values != nil {
		kept = append(kept, written{name, values})
	}
	x.outer.kept = kept
}

// next calls the next handler, and writes the fields of limiters again if they are gone.
func (x *exchange) next() error {
	c := x.ctx
	if x.outer != nil {
		return c.Next()
	}
	fast, own := c.RequestCtx(), x.kept
	fast.SetUserValue(outerKey{}, x)
	err := c.Next()
	if x.isLate() {
		return err
	}
	switch late := timedOut(c); {
	case late == nil:
		fast.RemoveUserValue(outerKey{})
		restore(&c.Response().Header, x.kept)
	case x.within.Err() == nil: // a time-out inside; after one outside, the answer is being sent
		restore(&late.Header, own)
	}
	return err
}

// restore writes what limiters have written into the answer again, once, if handlers have lost,
// replaced or repeated it: a proxy and a cache answer with the header of another answer.
func restore(h *fasthttp.ResponseHeader, kept []written) {
	for _, f := range kept {
		now := h.PeekAll(f.name)
		same := len(now) == len(f.values)
		for i := range now {
			same = same && string(now[i]) == f.values[i]
		}
		if !same {
			h.Del(f.name) // Set replaces the first line alone
			set(h, f.name, f.values)
		}
	}
}

// WriteHeader implements http.ResponseWriter. The answer replaces what handlers have written.
func (x *exchange) WriteHeader(status int) {
	if x.isLate() {
		x.unsent = status
		return
	}
	x.store()
	x.ctx.Response().ResetBody()
	x.ctx.Response().SetStatusCode(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	if x.isLate() {
		return len(p), nil
	}
	x.ctx.Response().AppendBody(p)
	return len(p), nil
}

// MarkOwn tells shedders that a limiter answers: see MarkOwn of package watch.
func (x *exchange) MarkOwn(status int) {
	if !x.isLate() {
		x.ctx.RequestCtx().SetUserValue(ownKey{}, marks[status])
	}
}
