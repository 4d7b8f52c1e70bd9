package shed

import (
	"net/http"
	"path"
	"strings"

	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/internal/http/watch"
)

// Handler returns a handler that passes only admitted requests to next. All handlers of one
// shedder count together. It serves net/http and chi:
//
//	handler := shed.Handler(shedder, mux)
//	router.Use(func(next http.Handler) http.Handler { return shed.Handler(shedder, next) })
//
// next gets a ResponseWriter that records status and streams, and that implements the optional
// interfaces that the server's own implements. Handler panics if s or next is nil, or if [New] did
// not make s.
func Handler(s *Shedder[*http.Request], next http.Handler) http.Handler {
	if next == nil {
		panic("shed: Handler: next is nil")
	}
	gate := newGate(s, shedgate.Config[*http.Request]{Route: pattern})
	return &handler{gate, func(w http.ResponseWriter, r *http.Request) error {
		next.ServeHTTP(w, r)
		return nil
	}}
}

// Stream takes the request whose answer goes to w out of flight, as its first Flush does, in
// all shedders that it has passed. Call it in a handler that waits for something other than
// the service: a long poll, or a client that reads a large file slowly. w may be a writer around
// the one that the handler got, if it has a method Unwrap. Stream reports whether the request was
// in flight. Do not call it while another goroutine writes to w.
func Stream(w http.ResponseWriter) bool { return watch.Stream(w) }

type handler struct {
	gate *gate[*http.Request]
	next func(http.ResponseWriter, *http.Request) error
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = h.gate.Serve(w, r, r, h.next) // the error is that of Denied alone
}

// pattern returns the pattern that matched r. Where http.ServeMux redirects to a path with a slash
// at its end, it sets the pattern to that path: for CONNECT, and in Go 1.25 for all methods.
// Clients choose the path, and there is room for few routes, so it counts as no pattern.
func pattern(r *http.Request) string {
	p := r.Pattern
	redirects := strings.HasSuffix(p, "/") && p[0] == '/' && !strings.HasSuffix(r.URL.Path, "/")
	if redirects && path.Clean(r.URL.Path)+"/" == p {
		return ""
	}
	return p
}
