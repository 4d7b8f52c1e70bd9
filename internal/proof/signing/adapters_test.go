package signing

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// rules returns the rules of a framework: an agent has two requests, and strangers have one together.
func rules[R any](
	v *agents.Verifier, lift func(func(*http.Request) (string, error)) func(R) (string, error),
	liftCondition func(func(*http.Request) bool) func(R) bool,
) []core.Rule[R] {
	signed := liftCondition(v.Signed)
	return []core.Rule[R]{
		{Name: "agents", Key: core.When(signed, lift(v.Key)), Limit: limits.SlidingLog(limits.PerDay(2))},
		{Name: "replay", Key: lift(v.Nonce), Limit: v.Once()},
		{Name: "strangers", Key: core.Unless(signed, keyfuncs.Constant[R]("all")),
			Limit: limits.SlidingLog(limits.PerDay(1))},
	}
}

// frameworks return the function that serves a request.
var frameworks = map[string]func(*testing.T, *agents.Verifier) func(*http.Request) *http.Response{
	"net/http": func(_ *testing.T, v *agents.Verifier) func(*http.Request) *http.Response {
		limiter := nethttp.MustNew(nethttp.Config{Rules: plain(v), Denied: v.Challenge(nil)})
		return answerOf(limiter.Handler(http.HandlerFunc(ok)))
	},
	"chi": func(_ *testing.T, v *agents.Verifier) func(*http.Request) *http.Response {
		router := chi.NewRouter()
		router.Use(chimw.MustNew(chimw.Config{Rules: plain(v), Denied: v.Challenge(nil)}).Handler)
		router.Get("/*", ok)
		return answerOf(router)
	},
	"gin": func(_ *testing.T, v *agents.Verifier) func(*http.Request) *http.Response {
		gin.SetMode(gin.ReleaseMode)
		router := gin.New()
		limiter := ginmw.MustNew(ginmw.Config{
			Rules: rules(v, ginmw.Lift[string], ginmw.LiftCondition), Denied: ginmw.LiftDenied(v.Challenge(nil)),
		})
		router.Use(limiter.Handler())
		router.GET("/*rest", func(c *gin.Context) { ok(c.Writer, c.Request) })
		return answerOf(router)
	},
	"echo": func(_ *testing.T, v *agents.Verifier) func(*http.Request) *http.Response {
		router := echo.New()
		limiter := echomw.MustNew(echomw.Config{
			Rules: rules(v, echomw.Lift[string], echomw.LiftCondition), Denied: echomw.LiftDenied(v.Challenge(nil)),
		})
		router.Use(limiter.Middleware())
		router.GET("/*", func(c echo.Context) error { return c.String(http.StatusOK, "Hello.") })
		return answerOf(router)
	},
	"echo 5": func(_ *testing.T, v *agents.Verifier) func(*http.Request) *http.Response {
		router := echo5.New()
		limiter := echo5mw.MustNew(echo5mw.Config{
			Rules: rules(v, echo5mw.Lift[string], echo5mw.LiftCondition), Denied: echo5mw.LiftDenied(v.Challenge(nil)),
		})
		router.Use(limiter.Middleware())
		router.GET("/*", func(c *echo5.Context) error { return c.String(http.StatusOK, "Hello.") })
		return answerOf(router)
	},
	"Fiber": func(t *testing.T, v *agents.Verifier) func(*http.Request) *http.Response {
		app := fiber.New()
		limiter := fibermw.MustNew(fibermw.Config{
			Rules: rules(v, fibermw.Lift[string], fibermw.LiftCondition), Denied: fibermw.LiftDenied(v.Challenge(nil)),
		})
		app.Use(limiter.Middleware())
		app.Get("/*", func(c fiber.Ctx) error { return c.SendString("Hello.") })
		return func(r *http.Request) *http.Response {
			answer, err := app.Test(r, fiber.TestConfig{Timeout: 0})
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
	},
}

func plain(v *agents.Verifier) []nethttp.Rule {
	return rules(v, func(f func(*http.Request) (string, error)) func(*http.Request) (string, error) { return f },
		func(f func(*http.Request) bool) func(*http.Request) bool { return f })
}

func ok(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("Hello.")) }

func answerOf(handler http.Handler) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}
}

// Whatever a framework makes of a request, the signature is for what the client has sent.
func TestAnAgentIsKnownAndAStrangerAskedInEachFramework(t *testing.T) {
	for name, framework := range frameworks {
		t.Run(name, func(t *testing.T) {
			bot := agentstest.New("https://bot.example")
			bot.Components = []string{"@method", "@path", "@query"}
			serve := framework(t, agents.MustNew(agents.Config{
				Authorities: []string{"shop.example"},
				Directories: []agents.Directory{{URL: bot.Directory, Keys: bot.KeySet()}},
			}))
			get := func(host, target string) *http.Request {
				return httptest.NewRequest("GET", "https://"+host+target, nil)
			}
			const target = "/Items/a%20b?page=2&q=%2F"
			want := func(what string, r *http.Request, status int, says string, waits bool) {
				t.Helper()
				answer := serve(r)
				text, err := io.ReadAll(answer.Body)
				asks := answer.Header.Get("Accept-Signature") != ""
				if err != nil || answer.StatusCode != status || !strings.Contains(string(text), says) ||
					asks != (says == toSign || says == anew) || (answer.Header.Get("Retry-After") != "") != waits {
					t.Errorf("%s: %d with %v, %v\n%s", what, answer.StatusCode, answer.Header, err, text)
				}
			}
			want("a stranger", get("shop.example", target), 200, "Hello.", false)
			want("the same stranger", get("shop.example", target), 429, toSign, true)

			signed := get("shop.example", target)
			bot.Sign(signed)
			moved := get("shop.example", "/items/a%20b?page=2&q=%2F")
			moved.Header = signed.Header.Clone()
			want("a signature of another path", moved, 429, toSign, true)
			copied := get("shop.example", target)
			copied.Header = signed.Header.Clone()
			want("an agent", signed, 200, "Hello.", false)
			want("a copy", copied, 429, anew, false)
			again := get("shop.example", target)
			bot.Sign(again)
			want("the agent again", again, 200, "Hello.", false)
			over := get("shop.example", target)
			bot.Sign(over)
			want("the agent beyond its plan", over, 429, "", true)
			elsewhere := get("evil.example", target)
			bot.Sign(elsewhere)
			elsewhere.Host = "shop.example"
			want("a signature for another site", elsewhere, 429, toSign, true)
		})
	}
}

func TestADenialOfTheFrameworkItselfStaysSo(t *testing.T) {
	if ginmw.LiftDenied(nil) != nil || echomw.LiftDenied(nil) != nil || echo5mw.LiftDenied(nil) != nil ||
		fibermw.LiftDenied(nil) != nil {
		t.Error("nil must stay nil, which answers as the adapter does")
	}
}

// What denials say to people.
const (
	toSign = "Web Bot Auth"
	anew   = "sign each request anew"
)
