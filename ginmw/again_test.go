package ginmw_test

import (
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/limits"
)

func TestHandleContextIsOneRequest(t *testing.T) {
	for name, limit := range map[string]limits.Limit{
		"one at once": limits.Concurrent(1),
	} {
		rule := ginmw.Rule{Name: "all", Limit: limit, Key: func(*gin.Context) (string, error) { return "all", nil }}
		r := gin.New()
		r.Use(ginmw.MustNew(ginmw.Config{Rules: []ginmw.Rule{rule}}).Handler())
		r.GET("/new", func(c *gin.Context) { c.String(200, "new") })
		r.GET("/old", func(c *gin.Context) {
			c.Request.URL.Path = "/new"
			r.HandleContext(c)
		})
		for i := range 2 {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest("GET", "/old", nil))
			if w.Code != 200 || w.Body.String() != "new" {
				t.Errorf("%s, request %d: %d %s", name, i, w.Code, w.Body)
			}
		}
	}
}
