package ginmw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// A download counts as one of two at once while it is prepared, not while a slow client
// reads it.
func ExampleDetach() {
	limiter := ginmw.MustNew(ginmw.Config{Rules: []ginmw.Rule{{
		Name: "downloads", Limit: limits.Concurrent(2), Key: ginmw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	}}})
	r := gin.New()
	r.GET("/file", limiter.Handler(), func(c *gin.Context) {
		end, ok := ginmw.Detach(c)
		before := limiter.State().Held
		if ok {
			end(core.Result{Status: http.StatusOK})
		}
		after := limiter.State().Held
		c.String(http.StatusOK, "%d %d", before, after)
	})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/file", nil))
	fmt.Println(w.Body)
	// Output: 1 0
}

// A chat is charged 100 tokens, and at its end what the model has really used.
func ExampleSpend() {
	limiter := ginmw.MustNew(ginmw.Config{
		Rules: []ginmw.Rule{{
			Name:      "tokens",
			Limit:     limits.SlidingWindow(limits.PerMinute(1000)),
			Key:       ginmw.Lift(keyfuncs.Address(keyfuncs.Peer)),
			Cost:      func(*gin.Context) int64 { return 100 },
			FinalCost: core.SpentCost,
		}},
		Observer: core.ObserverFuncs[*gin.Context]{
			OnEnd: func(s limits.Settlement) { fmt.Println(s.Rule, s.Taken, s.Final) },
		},
	})
	r := gin.New()
	r.POST("/chat", limiter.Handler(), func(c *gin.Context) {
		for _, tokens := range []int64{12, 30, 9} { // while it streams
			ginmw.Spend(c, "tokens", tokens)
		}
	})
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/chat", nil))
	// Output: tokens 100 51
}
