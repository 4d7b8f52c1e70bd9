package chimw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// A limit is raised while the program runs. What is used stays used.
func Example_replace() {
	perClient := func(n int64) []chimw.Rule {
		return []chimw.Rule{{
			Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(n)), Key: keyfuncs.Address(keyfuncs.Peer),
		}}
	}
	limiter := chimw.MustNew(chimw.Config{Rules: perClient(1)})
	r := chi.NewRouter()
	r.Use(limiter.Handler)
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	ask := func() {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	ask()
	ask()
	if err := limiter.Replace(perClient(2)); err != nil {
		fmt.Println("the old rules stay:", err)
	}
	ask()
	// Output:
	// 200 "per-client";q=1;w=86400
	// 429 "per-client";q=1;w=86400
	// 200 "per-client";q=2;w=86400
}
