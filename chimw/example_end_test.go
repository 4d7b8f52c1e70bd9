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

// A download counts as one of two at once while it is prepared, not while a slow client
// reads it.
func ExampleDetach() {
	limiter := chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
		Name: "downloads", Limit: limits.Concurrent(2), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	r := chi.NewRouter()
	r.With(limiter.Handler).Get("/file", func(w http.ResponseWriter, r *http.Request) {
		end, ok := chimw.Detach(r.Context())
		before := limiter.State().Held
		if ok {
			end(core.Result{Status: http.StatusOK})
		}
		after := limiter.State().Held
		fmt.Fprint(w, before, after)
	})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/file", nil))
	fmt.Println(w.Body)
	// Output: 1 0
}

// A chat is charged 100 tokens, and at its end what the model has really used.
func ExampleSpend() {
	limiter := chimw.MustNew(chimw.Config{
		Rules: []chimw.Rule{{
			Name:      "tokens",
			Limit:     limits.SlidingWindow(limits.PerMinute(1000)),
			Key:       keyfuncs.Address(keyfuncs.Peer),
			Cost:      func(*http.Request) int64 { return 100 },
			FinalCost: core.SpentCost,
		}},
		Observer: core.ObserverFuncs[*http.Request]{
			OnEnd: func(s limits.Settlement) { fmt.Println(s.Rule, s.Taken, s.Final) },
		},
	})
	r := chi.NewRouter()
	r.With(limiter.Handler).Post("/chat", func(w http.ResponseWriter, r *http.Request) {
		for _, tokens := range []int64{12, 30, 9} { // while it streams
			chimw.Spend(r.Context(), "tokens", tokens)
		}
	})
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/chat", nil))
	// Output: tokens 100 51
}
