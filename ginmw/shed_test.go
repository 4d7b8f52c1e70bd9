package ginmw_test

import (
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/shed"
)

// incomparable is a writer whose values Go cannot compare.
type incomparable struct {
	gin.ResponseWriter
	_ func()
}

func TestAWriterThatCannotBeComparedIsPassedOn(t *testing.T) {
	for _, mode := range []core.Mode{core.Enforce, core.Disabled} {
		for _, exempt := range []bool{false, true} {
			s := shed.MustNew(shed.Options[*gin.Context]{Mode: mode, Exempt: func(*gin.Context) bool { return exempt }})
			r := gin.New()
			r.Use(func(c *gin.Context) { c.Writer = incomparable{ResponseWriter: c.Writer} }, ginmw.Shed(s))
			r.GET("/", func(c *gin.Context) { c.String(200, "hello") })
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != 200 || w.Body.String() != "hello" {
				t.Errorf("%v, exempt %v: %d %s", mode, exempt, w.Code, w.Body)
			}
		}
	}
}
