package chimw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// Every client may send 100 requests a day, 2 of them to log in. Each client may see
// each user's page 3 times.
var (
	perClient = chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
		Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(100), 100), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	logins = chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
		Name: "login", Limit: limits.TokenBucket(limits.PerDay(2), 2), Key: keyfuncs.Address(keyfuncs.Peer),
		OnFailure: core.FailClosed, // no log-in is better than unlimited guesses
	}}})
	pages = chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
		Name: "pages", Limit: limits.TokenBucket(limits.PerDay(3), 3),
		Key: keyfuncs.Join(chimw.PathParam("id"), keyfuncs.Address(keyfuncs.Peer)),
	}}})
)

func newRouter() http.Handler {
	r := chi.NewRouter()
	r.Use(perClient.Handler)
	r.With(logins.Handler).Post("/login", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "welcome")
	})
	r.Route("/users/{id}", func(r chi.Router) {
		r.Use(pages.Handler)
		r.Get("/", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "user ", chi.URLParam(r, "id"))
		})
	})
	return r
}

func Example() {
	router := newRouter() // the Handler of an http.Server
	for _, request := range []string{"POST /login", "POST /login", "POST /login", "GET /users/1"} {
		var method, path string
		fmt.Sscan(request, &method, &path)
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		fmt.Println(request, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// POST /login 200 "per-client";q=100;w=86400, "login";q=2;w=86400
	// POST /login 200 "per-client";q=100;w=86400, "login";q=2;w=86400
	// POST /login 429 "per-client";q=100;w=86400, "login";q=2;w=86400
	// GET /users/1 200 "per-client";q=100;w=86400, "pages";q=3;w=86400
}
