package ginmw_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// perDay is a limiter that allows n requests.
func perDay(n int64, key func(*gin.Context) (string, error)) *ginmw.Limiter {
	return ginmw.MustNew(perDayConfig(n, key))
}

func perDayConfig(n int64, key func(*gin.Context) (string, error)) ginmw.Config {
	return ginmw.Config{Rules: []ginmw.Rule{{Name: "test", Limit: limits.TokenBucket(limits.PerDay(n), n), Key: key}}}
}

var everybody = keyfuncs.Constant[*gin.Context]("everybody")

func ok(c *gin.Context) { c.String(http.StatusOK, "ok") }

func ask(h http.Handler, method, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func want(t *testing.T, h http.Handler, method, path string, status int, fields ...string) *httptest.ResponseRecorder {
	t.Helper()
	w := ask(h, method, path, fields...)
	if w.Code != status {
		t.Errorf("%s %s: status %d, want %d; fields %v, content %q", method, path, w.Code, status, w.Header(), w.Body)
	}
	return w
}

func TestAfterADenialNoLaterHandlerRuns(t *testing.T) {
	for name, custom := range map[string]func(*gin.Context, core.Outcome){
		"default": nil,
		"aborts":  func(c *gin.Context, _ core.Outcome) { c.AbortWithStatusJSON(429, gin.H{"error": "slow down"}) },
		"forgets": func(c *gin.Context, _ core.Outcome) { c.JSON(429, gin.H{"error": "slow down"}) },
		"goes on": func(c *gin.Context, _ core.Outcome) { c.Status(429); c.Next() },
	} {
		t.Run(name, func(t *testing.T) {
			config := perDayConfig(1, everybody)
			config.Denied = custom
			var trace []string
			note := func(what string) gin.HandlerFunc {
				return func(*gin.Context) { trace = append(trace, what) }
			}
			r := gin.New()
			r.Use(func(c *gin.Context) {
				c.Next()
				trace = append(trace, fmt.Sprint("outer, aborted ", c.IsAborted()))
			})
			r.Use(ginmw.MustNew(config).Handler())
			r.Use(note("later middleware"))
			r.GET("/", note("first handler"), note("second handler"))
			for _, c := range []struct {
				status int
				want   string
			}{
				{200, "later middleware, first handler, second handler, outer, aborted false"},
				{429, "outer, aborted true"},
			} {
				trace = nil
				want(t, r, "GET", "/", c.status)
				if got := strings.Join(trace, ", "); got != c.want {
					t.Errorf("%d: %s, want %s", c.status, got, c.want)
				}
			}
		})
	}
}

func newEngine() *gin.Engine { return gin.New() }

// defaultEngine is gin.Default without its output.
func defaultEngine() *gin.Engine {
	defer func(w, e io.Writer) {
		gin.DefaultWriter, gin.DefaultErrorWriter = w, e
	}(gin.DefaultWriter, gin.DefaultErrorWriter)
	gin.DefaultWriter, gin.DefaultErrorWriter = io.Discard, io.Discard
	return gin.Default()
}

func TestThePagesThatDoNotExistShareOneKey(t *testing.T) {
	for _, engine := range []func() *gin.Engine{newEngine, defaultEngine} {
		r := engine()
		r.Use(perDay(2, ginmw.RoutePattern).Handler())
		r.GET("/users/:id", ok)
		w := want(t, r, "GET", "/random/1", 404)
		if w.Body.String() != "404 page not found" || w.Header().Get("RateLimit") == "" {
			t.Errorf("%q, fields %v: want gin's own answer with ours", w.Body, w.Header())
		}
		want(t, r, "GET", "/random/2", 404)
		want(t, r, "GET", "/random/3", 429)
		w = want(t, r, "HEAD", "/random/4", 429)
		if w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
			t.Errorf("%q, fields %v", w.Body, w.Header())
		}
		want(t, r, "POST", "/users/1", 429) // without HandleMethodNotAllowed, a 404
		want(t, r, "GET", "/users/1", 200)
	}
}

func TestMethodsThatAreNotAllowedCountWithThePagesThatDoNotExist(t *testing.T) {
	engine := func(limiter ...gin.HandlerFunc) *gin.Engine {
		r := gin.New()
		r.HandleMethodNotAllowed = true
		r.Use(limiter...)
		r.GET("/users/:id", ok)
		return r
	}
	r := engine(perDay(2, ginmw.RoutePattern).Handler())
	allow := want(t, engine(), "POST", "/users/1", 405).Header().Get("Allow") // "" before gin 1.10
	w := want(t, r, "POST", "/users/1", 405)
	if w.Header().Get("Allow") != allow || w.Header().Get("RateLimit") == "" {
		t.Errorf("fields %v: want Allow: %q, as without a limiter, with ours", w.Header(), allow)
	}
	want(t, r, "GET", "/random/1", 404)
	want(t, r, "POST", "/users/1", 429)
	want(t, r, "GET", "/users/1", 200)
}

func TestRedirectsToTheRightPathAreAnsweredBeforeTheLimiter(t *testing.T) {
	r := gin.New()
	r.Use(perDay(1, everybody).Handler())
	r.GET("/users", ok)
	for range 3 {
		if w := want(t, r, "GET", "/users/", 301); w.Header().Get("RateLimit") != "" {
			t.Errorf("fields %v", w.Header())
		}
	}
	want(t, r, "GET", "/users", 200)
	want(t, r, "GET", "/users", 429)
}

func TestTheWriterIsHandedOnAsItIs(t *testing.T) {
	var before, after gin.ResponseWriter
	r := gin.New()
	r.Use(func(c *gin.Context) { before = c.Writer })
	r.Use(perDay(9, everybody).Handler())
	r.GET("/", func(c *gin.Context) { after = c.Writer })
	want(t, r, "GET", "/", 200)
	if before != after {
		t.Errorf("the handler got a %T, want the %T from before the limiter", after, before)
	}
}

func TestTheOutcomeIsInACopyOfTheContext(t *testing.T) {
	config := perDayConfig(9, everybody)
	config.OutcomeInContext = true
	r := gin.New()
	r.Use(ginmw.MustNew(config).Handler())
	r.GET("/", func(c *gin.Context) {
		o, known := ginmw.OutcomeFrom(c.Copy())
		c.String(200, "%v %d", known, o.At(0).Remaining)
	})
	if w := want(t, r, "GET", "/", 200); w.Body.String() != "true 8" {
		t.Errorf("%s", w.Body)
	}
}

func TestADenialsOutcomeReplacesThatOfAnOuterLimiter(t *testing.T) {
	outer, inner := perDayConfig(9, everybody), perDayConfig(1, everybody)
	outer.OutcomeInContext, inner.OutcomeInContext = true, true
	verdict := func(c *gin.Context) string {
		o, _ := ginmw.OutcomeFrom(c)
		return o.Verdict().String()
	}
	byHandler := inner
	byHandler.Denied = func(c *gin.Context, _ core.Outcome) {
		c.String(http.StatusTooManyRequests, "Denied sees "+verdict(c))
	}
	r := gin.New()
	logged := ""
	r.Use(func(c *gin.Context) {
		c.Next()
		logged = verdict(c)
	})
	r.Use(ginmw.MustNew(outer).Handler())
	r.GET("/one", ginmw.MustNew(inner).Handler(), ok)
	r.GET("/two", ginmw.MustNew(byHandler).Handler(), ok)
	for _, path := range []string{"/one", "/two"} {
		if want(t, r, "GET", path, 200); logged != "allowed" {
			t.Errorf("%s: 200 was logged as %q", path, logged)
		}
		w := want(t, r, "GET", path, 429)
		if logged != "denied" || path == "/two" && w.Body.String() != "Denied sees denied" {
			t.Errorf("%s: 429 was logged as %q, content %s", path, logged, w.Body)
		}
	}
}

func TestWhatIsCommittedStays(t *testing.T) {
	config := perDayConfig(1, everybody)
	config.Denied = func(*gin.Context, core.Outcome) { t.Error("Denied was called, with nothing left to answer") }
	for name, limit := range map[string]*ginmw.Limiter{
		"the limiter's answer": perDay(1, everybody), "an answer of your own": ginmw.MustNew(config),
	} {
		r := gin.New()
		r.Use(func(c *gin.Context) { c.String(http.StatusAccepted, "already said.") })
		r.Use(limit.Handler())
		called := 0
		r.GET("/", func(*gin.Context) { called++ })
		for range 2 {
			if w := want(t, r, "GET", "/", 202); w.Body.String() != "already said." {
				t.Errorf("%s: content %s", name, w.Body)
			}
		}
		if called != 1 {
			t.Errorf("%s: the handler was called %d times, want 1", name, called)
		}
	}
}

func TestGinsClientAddressIsUsedOnlyIfAskedFor(t *testing.T) {
	forged := []string{"X-Forwarded-For: 198.51.100.1", "X-Real-IP: 198.51.100.1"}

	r := gin.New() // believes everybody
	r.Use(perDay(1, ginmw.Lift(keyfuncs.Address(keyfuncs.Peer))).Handler())
	r.GET("/", ok)
	want(t, r, "GET", "/", 200)
	want(t, r, "GET", "/", 429, forged...)

	r = gin.New()
	r.Use(perDay(1, keyfuncs.Address(ginmw.ClientIP)).Handler())
	r.GET("/", ok)
	want(t, r, "GET", "/", 200)
	want(t, r, "GET", "/", 200, forged...) // as documented: until SetTrustedProxies, another address is free
	if err := r.SetTrustedProxies(nil); err != nil {
		t.Fatal(err)
	}
	want(t, r, "GET", "/", 429, "X-Forwarded-For: 198.51.100.2")
}

func TestAnAddressThatGinMakesUpIsAnError(t *testing.T) {
	r := gin.New()
	r.TrustedPlatform = "CF-Connecting-IP" // gin returns its text unchanged
	r.Use(perDay(1, keyfuncs.Address(ginmw.ClientIP)).Handler())
	r.GET("/", ok)
	want(t, r, "GET", "/", 503, "CF-Connecting-IP: anything")

	r = gin.New()
	r.Use(perDay(1, keyfuncs.Address(ginmw.ClientIP)).Handler())
	r.GET("/", ok)
	// as gorilla's ProxyHeaders does
	overwritten := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		request.RemoteAddr = "198.51.100.1"
		r.ServeHTTP(w, request)
	})
	want(t, overwritten, "GET", "/", 503)

	request := httptest.NewRequest("GET", "/", nil)
	request.RemoteAddr = "@"
	local := context.WithValue(request.Context(), http.LocalAddrContextKey,
		&net.UnixAddr{Name: "/run/app.sock", Net: "unix"})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request.WithContext(local))
	if w.Code != 503 {
		t.Errorf("a unix socket, whose peers gin calls <nil>: status %d, want 503", w.Code)
	}
}

// gin writes the header after the handlers, if they have written a status alone.
func TestACacheableStatusWithoutABodyHasNoFields(t *testing.T) {
	config := perDayConfig(9, everybody)
	config.Headers.NotOnStorable = true
	router := gin.New()
	router.GET("/", ginmw.MustNew(config).Handler(), func(c *gin.Context) {
		c.Status(http.StatusNoContent)
		c.Header("Cache-Control", "public")
	})
	w := ask(router, "GET", "/")
	if w.Code != http.StatusNoContent || w.Result().Header["Ratelimit"] != nil {
		t.Errorf("%d %v", w.Code, w.Result().Header)
	}
}
