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
// next gets a ResponseWriter that notes status and streams, and that implements an optional
// interface if the server's own does. Handler panics if s or next is nil.
func Handler(s *Shedder[*http.Request], next http.Handler) http.Handler {
	if next == nil {
		panic("shed: Handler: next is nil")
	}
	return &handler{newGate(s, shedgate.Config[*http.Request]{Route: pattern}), func(w http.ResponseWriter, r *http.Request) error {
		next.ServeHTTP(w, r)
		return nil
	}}
}

// Stream takes the request whose answer goes to w out of flight, as its first Flush does, in
// all shedders that it has passed. It is for a handler that waits for something other than
// the service, such as a long poll, or a client that reads a large file slowly. w may be a
// writer around the one that the handler got, if it has a method Unwrap. Stream reports
// whether the request was in flight. Do not call it and write to w at once.
func Stream(w http.ResponseWriter) bool { return watch.Stream(w) }

type handler struct {
	gate *gate[*http.Request]
	next func(http.ResponseWriter, *http.Request) error
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = h.gate.Serve(w, r, r, h.next) // only Denied returns an error, and no caller wants it
}

// pattern returns the pattern that matched r. Where http.ServeMux redirects to a path with a
// slash at its end, it notes that path instead, for CONNECT and in Go 1.25 for all methods.
// Clients choose it, and there is room for few routes: so it counts as none.
func pattern(r *http.Request) string {
	if p := r.Pattern; !strings.HasSuffix(p, "/") || p[0] != '/' || strings.HasSuffix(r.URL.Path, "/") || path.Clean(r.URL.Path)+"/" != p {
		return p
	}
	return ""
}
