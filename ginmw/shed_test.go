package ginmw_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/internal/ground/shedlimit"
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

// slow is a writer of a client that reads slowly.
type slow struct{ *httptest.ResponseRecorder }

func (slow) Write(p []byte) (int, error)       { time.Sleep(time.Second); return len(p), nil }
func (slow) WriteString(s string) (int, error) { time.Sleep(time.Second); return len(s), nil }

// latencies is an algorithm that adds up all latencies.
type latencies struct{ sum time.Duration }

func (l *latencies) Update(s shedlimit.Sample) int {
	for _, r := range s.Routes {
		l.sum += r.Total
	}
	return 10
}

func TestTheTimeThatAClientReadsIsInNoLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(latencies)
		s, err := shedlimit.New(shed.Options[*gin.Context]{}, a)
		if err != nil {
			t.Fatal(err)
		}
		r := gin.New()
		r.Use(ginmw.Shed(s.(*shed.Shedder[*gin.Context])))
		r.GET("/", func(c *gin.Context) {
			time.Sleep(3 * time.Millisecond)
			c.String(200, "hello")
			io.WriteString(c.Writer, "hello")
			c.Writer.Write([]byte("hello"))
		})
		for range 2 { // the second lets the first be seen
			r.ServeHTTP(slow{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
		}
		if a.sum != 6*time.Millisecond {
			t.Errorf("latencies of %v, want 6ms", a.sum)
		}
	})
}

// net/http looks at the body of its own request to decide whether a connection can serve another one.
func TestShedLeavesTheRequestOfTheServerAlone(t *testing.T) {
	r := gin.New()
	r.Use(ginmw.Shed(shed.MustNew(shed.Options[*gin.Context]{})))
	served := httptest.NewRequest("POST", "/", strings.NewReader("content"))
	body := served.Body
	r.POST("/", func(c *gin.Context) {
		if served.Body != body || c.Request.Body == body {
			t.Error("the body that the server looks at is another one, or the time of the client is not seen")
		}
	})
	r.ServeHTTP(httptest.NewRecorder(), served)
	if served.Body != body {
		t.Error("the request of the server has another body")
	}
}
