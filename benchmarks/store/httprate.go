package store

import (
	"net/http"

	"github.com/go-chi/httprate"
)

// httpRate decides through OnLimit, the only method of httprate that decides and counts in one
// step. OnLimit is made for handlers: it formats three header values even if, as here, no header
// has a name. That accounts for its three allocations.
type httpRate struct {
	limiter *httprate.RateLimiter
	request *http.Request
}

func openHTTPRate(q Quota, _ int) Store {
	noHeaders := httprate.WithResponseHeaders(httprate.ResponseHeaders{})
	return &httpRate{httprate.NewRateLimiter(int(q.Burst), q.Window, noHeaders), new(http.Request)}
}

func (s *httpRate) Decider() Decider { return s }

func (s *httpRate) Allow(key string) bool { return !s.limiter.OnLimit(nil, s.request, key) }
