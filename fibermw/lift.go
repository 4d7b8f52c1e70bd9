package fibermw

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/unseen"
)

// Lift adapts a function of *http.Request to fiber.Ctx. It is for the key functions and address
// sources of package keyfuncs. Combinators take lifted functions together with those of this
// package. If f is nil, the result is nil.
//
// The request is a copy: method, target, protocol, host, header, address of the peer, TLS state,
// and the context of c.Context. All lifted functions of one decision share the copy, and may keep
// it. [Peer] and [Header] need no copy.
//
// The content is copied if f reads it. If the app has StreamRequestBody, that is all the client
// sends, without a bound, and f can read it only in a decision.
//
// The path in the URL is the one by which Fiber routes, so that no client passes a rule for a path.
// Unless the app is CaseSensitive, Fiber answers /API as /api. The path is then in lower case:
// write the rule in lower case.
func Lift[T any](f func(*http.Request) (T, error)) func(fiber.Ctx) (T, error) {
	if f == nil {
		return nil
	}
	return func(c fiber.Ctx) (T, error) { return f(Request(c)) }
}

// LiftCondition adapts a condition of *http.Request, such as that of nethttp.Probes, to fiber.Ctx.
// It is for [core.When] and [core.Unless], and for conditions of a shedder. f gets the copy of the
// request that [Lift] describes. If f is nil, the result is nil.
func LiftCondition(f func(*http.Request) bool) func(fiber.Ctx) bool {
	if f == nil {
		return nil
	}
	return func(c fiber.Ctx) bool { return f(Request(c)) }
}

// LiftDenied adapts a Denied of package nethttp, such as that of agents.Verifier.Challenge, for
// [Config].Denied. It gets the copy of the request that
// [Lift] describes. If denied is nil, the result is nil.
func LiftDenied(
	denied func(http.ResponseWriter, *http.Request, core.Outcome),
) func(fiber.Ctx, core.Outcome) error {
	if denied == nil {
		return nil
	}
	return func(c fiber.Ctx, o core.Outcome) error {
		x := begin(c)
		denied(x, Request(c), o)
		x.store() // if it has not called WriteHeader
		x.end()
		return nil
	}
}

// Request returns the copy of a request that lifted functions get: see [Lift]. It is for the field
// Request of policy.Names.
func Request(c fiber.Ctx) *http.Request {
	x, ok := c.RequestCtx().UserValue(exchangeKey{}).(*exchange)
	if !ok { // outside a decision, whose end is not known
		r, body := copyOf(c)
		if c.Request().IsBodyStream() {
			body.forget() // it may be endless, and the handler wants it
		} else {
			body.load()
		}
		return r
	}
	if x.bridged == nil {
		x.bridged, x.content = copyOf(c)
	}
	return x.bridged
}

// copyOf returns a copy of a request, and the content that its Body reads.
func copyOf(c fiber.Ctx) (*http.Request, *content) {
	fast := c.RequestCtx()
	target := string(fast.RequestURI())
	r := (&http.Request{
		Method:        c.Method(),
		URL:           urlOf(c),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        headerOf(c),
		Host:          string(fast.Host()),
		ContentLength: lengthOf(&fast.Request.Header),
		RemoteAddr:    fast.RemoteAddr().String(),
		RequestURI:    target,
		TLS:           fast.TLSConnectionState(),
	}).WithContext(contextOf(c))
	if !fast.Request.Header.IsHTTP11() {
		r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	}
	body := &content{of: &fast.Request}
	r.Body = body
	return r, body
}

// lengthOf returns the length of the content, or -1 if it is not announced.
func lengthOf(h *fasthttp.RequestHeader) int64 {
	const none = -2 // of a GET, for example
	if n := h.ContentLength(); n != none {
		return int64(n)
	}
	return 0
}

// urlOf returns the URL with the path by which Fiber routes. fasthttp reads targets in another way
// than net/http: it drops a fragment, and accepts broken escapes.
func urlOf(c fiber.Ctx) *url.URL {
	uri, config := c.RequestCtx().URI(), c.App().Config()
	raw := string(uri.PathOriginal())
	u := &url.URL{Path: raw, RawQuery: string(uri.QueryString())}
	if config.UnescapePath {
		u.Path = strings.Clone(c.Path())
	} else if path, err := url.PathUnescape(raw); err == nil {
		u.Path = path
	}
	if u.EscapedPath() != raw {
		u.RawPath = raw
	}
	if !config.CaseSensitive {
		u.Path, u.RawPath = lower(u.Path), lower(u.RawPath)
	}
	return u
}

// lower returns s with the letters of ASCII in lower case, as Fiber routes.
func lower(s string) string {
	if !strings.ContainsFunc(s, isCapital) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if isCapital(rune(c)) {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func isCapital(r rune) bool { return 'A' <= r && r <= 'Z' }

// headerOf copies the header of a request. As in net/http, Host and Transfer-Encoding are not a
// part of it.
func headerOf(c fiber.Ctx) http.Header {
	h := &c.Request().Header
	size, n := 0, 0
	for name, value := range h.All() {
		size += len(name) + len(value)
		n++
	}
	text := make([]byte, 0, size)
	for name, value := range h.All() {
		text = append(append(text, name...), value...)
	}
	rest, all := string(text), make([]string, 0, n) // one copy for all
	header := make(http.Header, n)
	for name, value := range h.All() {
		key := http.CanonicalHeaderKey(rest[:len(name)])
		line := rest[len(name) : len(name)+len(value)]
		rest = rest[len(name)+len(value):]
		switch {
		case key == "Host" || key == "Transfer-Encoding":
		case header[key] == nil:
			all = append(all, line)
			header[key] = all[len(all)-1 : len(all) : len(all)]
		default:
			header[key] = append(header[key], line)
		}
	}
	return header
}

// contextOf returns the context of a request for lifted functions.
func contextOf(c fiber.Ctx) context.Context {
	ctx, fast := c.Context(), c.RequestCtx()
	if local := fast.LocalAddr(); local.Network() != "tcp" { // keyfuncs looks for unix sockets
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(local))
	}
	if fast.IsTLS() && fast.TLSConnectionState() == nil {
		ctx = unseen.TLS(ctx)
	}
	return ctx
}

// content is the content of a request. The first Read copies it.
type content struct {
	of   *fasthttp.Request // nil: it is copied, or the decision is over
	copy *bytes.Reader
}

func (b *content) load() {
	if b.of != nil {
		b.copy, b.of = bytes.NewReader(bytes.Clone(b.of.Body())), nil
	}
}

// forget makes Read fail if the content is not copied yet.
func (b *content) forget() { b.of = nil }

func (b *content) Read(p []byte) (int, error) {
	b.load()
	if b.copy == nil {
		return 0, errDecided
	}
	return b.copy.Read(p)
}

func (*content) Close() error { return nil }

var errDecided = errors.New("fibermw: the content is read outside a decision: " +
	"read it in the key function")
