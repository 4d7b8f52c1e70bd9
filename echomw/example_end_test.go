package echomw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// A download counts as one of two at once while it is prepared, not while a slow client
// reads it.
func ExampleDetach() {
	limiter := echomw.MustNew(echomw.Config{Rules: []echomw.Rule{{
		Name: "downloads", Limit: limits.Concurrent(2), Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	}}})
	e := echo.New()
	e.GET("/file", func(c echo.Context) error {
		end, ok := echomw.Detach(c)
		before := limiter.State().Held
		if ok {
			end(core.Result{Status: http.StatusOK})
		}
		after := limiter.State().Held
		return c.String(http.StatusOK, fmt.Sprint(before, after))
	}, limiter.Middleware())
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/file", nil))
	fmt.Println(w.Body)
	// Output: 1 0
}

// A chat is charged 100 tokens, and at its end what the model has really used.
func ExampleSpend() {
	limiter := echomw.MustNew(echomw.Config{
		Rules: []echomw.Rule{{
			Name:      "tokens",
			Limit:     limits.SlidingWindow(limits.PerMinute(1000)),
			Key:       echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
			Cost:      func(echo.Context) int64 { return 100 },
			FinalCost: core.SpentCost,
		}},
		Observer: core.ObserverFuncs[echo.Context]{
			OnEnd: func(s limits.Settlement) { fmt.Println(s.Rule, s.Taken, s.Final) },
		},
	})
	e := echo.New()
	e.POST("/chat", func(c echo.Context) error {
		for _, tokens := range []int64{12, 30, 9} { // while it streams
			echomw.Spend(c, "tokens", tokens)
		}
		return c.NoContent(http.StatusOK)
	}, limiter.Middleware())
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/chat", nil))
	// Output: tokens 100 51
}
