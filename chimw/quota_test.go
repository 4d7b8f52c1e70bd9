package chimw_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/internal/proof/parity"
)

func TestQuota(t *testing.T) {
	parity.RunQuota(t, func(t *testing.T, c parity.Config[*http.Request], routes ...string) http.Handler {
		limiter, err := chimw.New(chimw.Config{Rules: c.Rules, Backend: c.Backend, Headers: c.Headers})
		if err != nil {
			t.Fatal(err)
		}
		r := chi.NewRouter()
		r.Method("GET", "/rate_limit", limiter.Quota(routes...))
		r.Method("HEAD", "/rate_limit", limiter.Quota(routes...))
		hello := func(w http.ResponseWriter, _ *http.Request) { parity.Hello(w) }
		r.With(limiter.Handler).Get("/hello", hello)
		r.With(limiter.Handler).Post("/items", hello)
		return r
	}, func(f func(*http.Request) (string, error)) func(*http.Request) (string, error) { return f })
}
