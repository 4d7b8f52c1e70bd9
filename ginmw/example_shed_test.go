package ginmw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/shed"
)

// A service that admits as many requests at once as it can answer in time. Payments are the
// last to be shed.
func ExampleShed() {
	shedder := shed.MustNew(shed.Options[*gin.Context]{
		Classes: []shed.Class{{Name: "payments"}, {Name: "other"}},
		Classify: func(c *gin.Context) int {
			if c.Request.Method == http.MethodPost {
				return 0
			}
			return 1
		},
		Exempt: func(c *gin.Context) bool { return c.FullPath() == "/healthz" },
	})
	r := gin.New()
	r.Use(ginmw.Shed(shedder)) // outside of limiters and authentication
	r.GET("/users/:id", func(c *gin.Context) { c.String(http.StatusOK, "user %s", c.Param("id")) })

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/users/7", nil))
	fmt.Println(w.Code, w.Body)
	fmt.Println(shedder.State().Classes[1].Admitted)
	// Output:
	// 200 user 7
	// 1
}
