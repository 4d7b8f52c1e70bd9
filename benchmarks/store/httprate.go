package store

import (
	"net/http"

	"github.com/go-chi/httprate"
)

// httpRate decides through OnLimit, the one method of httprate that decides and
// counts in one step. It is made for handlers: it formats three header values
// even where, as here, all header names are empty and none is sent. That is its
// three allocations.
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
