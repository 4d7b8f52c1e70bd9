package serve

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// oldKey is the key of a context of a connection. Its value is the time.Time from which on the
// connection is too old.
type oldKey struct{}

// limitAge has h close connections after the first answer that they send when they are older than
// age, a tenth more or less by chance: as grpc-go does, so that not all end together. The answer says
// so, by Connection: close or by GOAWAY of HTTP/2, so no request is lost. 0: connections have no age.
func limitAge(h *http.Server, age time.Duration) {
	if age == 0 {
		return
	}
	h.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		chance := time.Duration(rand.Int64N(int64(age/5))) - age/10
		return context.WithValue(ctx, oldKey{}, time.Now().Add(age+chance))
	}
	handler := h.Handler
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if old, ok := r.Context().Value(oldKey{}).(time.Time); ok && !time.Now().Before(old) {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}
