package middleware

import (
	"net"
	"net/http"

	"github.com/go-chi/httprate"
	"github.com/weir-go/weir/benchmarks/store"
)

func wrapHTTPRate(q store.Quota, next http.Handler) http.Handler {
	return httprate.LimitBy(int(q.Burst), q.Window, byPeer)(next)
}

// byPeer is the key function that httprate's documentation recommends instead of its deprecated
// KeyByIP.
func byPeer(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "", err
	}
	return httprate.CanonicalizeIP(host), nil
}
