package main

import (
	"net/http"
	"net/url"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/middleware"
	"github.com/weir-go/weir/benchmarks/store"
)

// The columns of the group http.
const (
	httpAllowed = iota
	httpDenied
	httpColumns
)

// httpAnswers describes the answers of a middleware.
type httpAnswers struct {
	Fields      int    // header fields that the middleware sets on an allowed answer
	DeniedType  string // Content-Type of a denial, or ""
	DeniedBytes int    // length of the body of a denial
}

// workHTTP is a worker that measures one middleware.
func workHTTP(name string) {
	var c middleware.Contestant
	for _, each := range middleware.Contestants() {
		if each.Name == name {
			c = each
		}
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	workHandlers(c.Wrap(store.Ample, next), c.Wrap(store.Scarce, next))
}

// workHandlers measures a handler whose limiter allows, and one whose limiter denies.
func workHandlers(allowing, denying http.Handler) {
	var a httpAnswers
	w := newDiscard()
	serve(allowing, w, 1, http.StatusNoContent)
	a.Fields = len(w.header)
	serve(denying, w, 2, http.StatusTooManyRequests)
	if w.status == http.StatusTooManyRequests {
		a.DeniedType, a.DeniedBytes = w.header.Get("Content-Type"), w.written
	}
	work(a, []*measure.Meter{
		httpAllowed: measure.NewMeter(func(_, n int) int {
			return serve(allowing, w, n, http.StatusNoContent)
		}),
		httpDenied: measure.NewMeter(func(_, n int) int {
			return serve(denying, w, n, http.StatusTooManyRequests)
		}),
	})
}

// request is sent by all clients. Like curl, it accepts any type.
var request = &http.Request{
	Method:     http.MethodGet,
	URL:        &url.URL{Path: "/v1/items"},
	Proto:      "HTTP/1.1",
	ProtoMajor: 1,
	ProtoMinor: 1,
	Host:       "api.example.com",
	RemoteAddr: "203.0.113.7:51312",
	RequestURI: "/v1/items",
	Header:     http.Header{"Accept": {"*/*"}, "User-Agent": {"curl/8.5.0"}},
	Body:       http.NoBody,
}

// serve serves n requests and returns how many were answered with status.
func serve(h http.Handler, w *discard, n, status int) (right int) {
	for range n {
		w.reset()
		h.ServeHTTP(w, request)
		if w.status == status {
			right++
		}
	}
	return right
}

// discard is a ResponseWriter that drops the body. Its header map is cleared between requests, not
// replaced, so a middleware pays only for the values that it sets.
type discard struct {
	header  http.Header
	status  int
	written int
}

func newDiscard() *discard { return &discard{header: make(http.Header)} }

func (w *discard) reset() {
	clear(w.header)
	w.status, w.written = 0, 0
}

func (w *discard) Header() http.Header { return w.header }

func (w *discard) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *discard) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.written += len(b)
	return len(b), nil
}

// WriteString saves a copy, as net/http's own does.
func (w *discard) WriteString(s string) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.written += len(s)
	return len(s), nil
}
