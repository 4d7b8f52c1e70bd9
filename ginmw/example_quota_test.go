package ginmw_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// A client asks how much it has left. Asking costs nothing.
func ExampleLimiter_Quota() {
	limiter := ginmw.MustNew(ginmw.Config{Rules: []ginmw.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(100)),
		Key: ginmw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	}}})
	r := gin.New()
	r.GET("/rate_limit", limiter.Quota())
	r.GET("/", limiter.Handler(), func(c *gin.Context) { c.Status(204) })

	ask := func(path string) string {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	ask("/")
	before, _, _ := strings.Cut(ask("/rate_limit"), `,"reset":`) // the end of the day
	fmt.Println(before)
	// Output:
	// {"resources":{"per-client":{"limit":100,"used":1,"remaining":99
}
