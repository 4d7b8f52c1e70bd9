package signing

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
	"github.com/weir-go/weir/limits"
)

// one returns a rule that allows one request.
func one[R any]() []core.Rule[R] {
	return []core.Rule[R]{
		{Name: "strangers", Key: keyfuncs.Constant[R]("all"), Limit: limits.SlidingLog(limits.PerDay(1))},
	}
}

// docs/agents.md has these lines.
func TestAChallengeAnswersInEachFramework(t *testing.T) {
	bot := agentstest.New("https://bot.example")
	challenge := agents.MustNew(agents.Config{
		Authorities: []string{"shop.example"},
		Directories: []agents.Directory{{URL: bot.Directory, Keys: bot.KeySet()}},
	}).Challenge(nil)

	gin.SetMode(gin.ReleaseMode)
	ofGin := gin.New()
	byGin := func(c *gin.Context, o core.Outcome) { challenge(c.Writer, c.Request, o) }
	ofGin.Use(ginmw.MustNew(ginmw.Config{Rules: one[*gin.Context](), Denied: byGin}).Handler())
	ofGin.GET("/items", func(c *gin.Context) { ok(c.Writer, c.Request) })

	ofEcho := echo.New()
	byEcho := func(c echo.Context, o core.Outcome) error {
		challenge(c.Response(), c.Request(), o)
		return nil
	}
	ofEcho.Use(echomw.MustNew(echomw.Config{Rules: one[echo.Context](), Denied: byEcho}).Middleware())
	ofEcho.GET("/items", func(c echo.Context) error { return c.String(http.StatusOK, "Hello.") })

	ofEcho5 := echo5.New()
	byEcho5 := func(c *echo5.Context, o core.Outcome) error {
		challenge(c.Response(), c.Request(), o)
		return nil
	}
	ofEcho5.Use(echo5mw.MustNew(echo5mw.Config{Rules: one[*echo5.Context](), Denied: byEcho5}).Middleware())
	ofEcho5.GET("/items", func(c *echo5.Context) error { return c.String(http.StatusOK, "Hello.") })

	for name, site := range map[string]http.Handler{"gin": ofGin, "echo": ofEcho, "echo 5": ofEcho5} {
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			w := httptest.NewRecorder()
			site.ServeHTTP(w, httptest.NewRequest("GET", "https://shop.example/items", nil))
			asks := w.Header().Get("Accept-Signature") != "" && strings.Contains(w.Body.String(), "Web Bot Auth")
			if w.Code != want || asks != (want == http.StatusTooManyRequests) {
				t.Errorf("%s: got %d, %v, %s; want %d", name, w.Code, w.Header(), w.Body, want)
			}
		}
	}
}
