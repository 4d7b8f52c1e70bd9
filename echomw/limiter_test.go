package echomw_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// perDay is a limiter that allows n requests.
func perDay(n int64, key func(echo.Context) (string, error)) *echomw.Limiter {
	return echomw.MustNew(perDayConfig(n, key))
}

func perDayConfig(n int64, key func(echo.Context) (string, error)) echomw.Config {
	return echomw.Config{Rules: []echomw.Rule{{Name: "test", Limit: limits.TokenBucket(limits.PerDay(n), n), Key: key}}}
}

var everybody = keyfuncs.Constant[echo.Context]("everybody")

func ok(c echo.Context) error { return c.String(http.StatusOK, "ok") }

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

var peerNet = &net.IPNet{IP: net.IPv4(192, 0, 2, 0), Mask: net.CIDRMask(24, 32)} // httptest's

func newEcho() *echo.Echo {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	return e
}

func TestALimiterMayStandBeforeTheRouter(t *testing.T) {
	e := newEcho()
	e.Pre(perDay(1, everybody).Middleware())
	e.GET("/limited", ok)
	want(t, e, "GET", "/limited", 200)
	want(t, e, "GET", "/limited", 429)
	want(t, e, "GET", "/no/such/page", 429)
}

func TestUnknownPagesAndRefusedMethodsShareOneKey(t *testing.T) {
	e := newEcho()
	e.Use(perDay(3, echomw.RoutePattern).Middleware())
	e.GET("/users/:id", ok)
	e.GET("/users/:id/posts", ok)
	want(t, e, "GET", "/random/1", 404)
	if w := want(t, e, "POST", "/users/1", 405); w.Header().Get("Allow") == "" || w.Header().Get("RateLimit") == "" {
		t.Errorf("fields %v: want echo's with ours", w.Header())
	}
	want(t, e, "GET", "/users/1/none", 404)
	want(t, e, "GET", "/random/2", 429)
	want(t, e, "DELETE", "/users/1/posts", 429)
	want(t, e, "OPTIONS", "/users/1", 429)
	want(t, e, "GET", "/users/1", 200)
	want(t, e, "GET", "/users/1/posts", 200)
}

func TestAGroupCountsItsOwnPagesThatDoNotExist(t *testing.T) {
	e := newEcho()
	api := e.Group("/api", perDay(2, echomw.RoutePattern).Middleware())
	api.GET("/items/:id", ok)
	want(t, e, "GET", "/api/none/1", 404)
	want(t, e, "GET", "/api/none/2", 404)
	want(t, e, "GET", "/api/none/3", 429)
	want(t, e, "GET", "/api/items/1", 200)
	want(t, e, "GET", "/none", 404)
}

func TestADenialIsNotGivenToTheErrorHandler(t *testing.T) {
	e := newEcho()
	var handled []error
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled = append(handled, err)
		c.String(http.StatusTeapot, "replaced")
	}
	var returned []error
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			returned = append(returned, err)
			return err
		}
	})
	e.Use(perDay(1, everybody).Middleware())
	e.GET("/", ok)
	want(t, e, "GET", "/", 200)
	w := want(t, e, "GET", "/", 429)
	if len(handled) != 0 || errors.Join(returned...) != nil || !strings.Contains(w.Body.String(), "quota-exceeded") {
		t.Errorf("handled %v, returned %v, content %s", handled, returned, w.Body)
	}
}

func TestADenialMayBeGivenToTheErrorHandler(t *testing.T) {
	config := perDayConfig(1, everybody)
	config.Denied = func(c echo.Context, o core.Outcome) error {
		return echo.NewHTTPError(http.StatusTooManyRequests, "slow down: "+o.At(0).Rule())
	}
	e := newEcho()
	e.Use(echomw.MustNew(config).Middleware())
	e.GET("/", ok)
	want(t, e, "GET", "/", 200)
	w := want(t, e, "GET", "/", 429)
	if w.Body.String() != `{"message":"slow down: test"}`+"\n" {
		t.Errorf("content %s", w.Body)
	}
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "Cache-Control"} {
		if w.Header().Get(name) == "" {
			t.Errorf("fields %v: want %s", w.Header(), name)
		}
	}
}

func TestADenialIsFinalWhateverOuterMiddlewareReturns(t *testing.T) {
	e := newEcho()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			next(c)
			return errors.New("something else")
		}
	})
	e.Use(perDay(1, everybody).Middleware())
	e.GET("/", ok)
	want(t, e, "GET", "/", 200)
	w := want(t, e, "GET", "/", 429)
	if !json.Valid(w.Body.Bytes()) { // two documents are not valid
		t.Errorf("content %s", w.Body)
	}
}

func TestWhatIsCommittedStays(t *testing.T) {
	config := perDayConfig(1, everybody)
	config.Denied = func(echo.Context, core.Outcome) error {
		t.Error("Denied was called, with nothing left to answer")
		return nil
	}
	for name, limit := range map[string]*echomw.Limiter{
		"the limiter's answer": perDay(1, everybody), "an answer of your own": echomw.MustNew(config),
	} {
		e := newEcho()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				c.String(http.StatusAccepted, "already said.")
				return next(c)
			}
		})
		e.Use(limit.Middleware())
		called := 0
		e.GET("/", func(echo.Context) error { called++; return nil })
		for range 2 {
			if w := want(t, e, "GET", "/", 202); w.Body.String() != "already said." {
				t.Errorf("%s: content %s", name, w.Body)
			}
		}
		if called != 1 {
			t.Errorf("%s: the handler was called %d times, want 1", name, called)
		}
	}
}

func TestTheResponseIsHandedOnAsItIs(t *testing.T) {
	var before, after http.ResponseWriter
	e := newEcho()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			before = c.Response()
			return next(c)
		}
	})
	e.Use(perDay(9, everybody).Middleware())
	e.GET("/", func(c echo.Context) error {
		after = c.Response()
		return nil
	})
	want(t, e, "GET", "/", 200)
	if before != after {
		t.Errorf("the handler got a %T, want the %T from before the limiter", after, before)
	}
}

func TestADenialsOutcomeReplacesThatOfAnOuterLimiter(t *testing.T) {
	outer, inner := perDayConfig(9, everybody), perDayConfig(1, everybody)
	outer.OutcomeInContext, inner.OutcomeInContext = true, true
	verdict := func(c echo.Context) string {
		o, _ := echomw.OutcomeFrom(c)
		return o.Verdict().String()
	}
	byHandler := inner
	byHandler.Denied = func(c echo.Context, _ core.Outcome) error {
		return echo.NewHTTPError(http.StatusTooManyRequests, "Denied sees "+verdict(c))
	}
	e := newEcho()
	logged := ""
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			logged = verdict(c)
			return err
		}
	})
	e.Use(echomw.MustNew(outer).Middleware())
	handled := ""
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled = verdict(c)
		e.DefaultHTTPErrorHandler(err, c)
	}
	e.GET("/one", ok, echomw.MustNew(inner).Middleware())
	e.GET("/two", ok, echomw.MustNew(byHandler).Middleware())
	for _, c := range []struct {
		path          string
		status        int
		logged, error string
	}{
		{"/one", 200, "allowed", ""}, {"/one", 429, "denied", ""},
		{"/two", 200, "allowed", ""}, {"/two", 429, "denied", "denied"},
	} {
		handled = ""
		w := want(t, e, "GET", c.path, c.status)
		if logged != c.logged || handled != c.error {
			t.Errorf("%s: %d was logged as %q and handled as %q, want %q and %q", c.path, w.Code, logged, handled,
				c.logged, c.error)
		}
		if c.error != "" && !strings.Contains(w.Body.String(), "Denied sees denied") {
			t.Errorf("content %s", w.Body)
		}
	}
}

func TestAParameterHasOneKeyHoweverItIsEscaped(t *testing.T) {
	e := newEcho()
	key := ""
	e.GET("/users/:id/:page", func(c echo.Context) (err error) {
		key, err = keyfuncs.Join(echomw.PathParam("id"), echomw.PathParam("page"))(c)
		return err
	})
	join := func(parts ...string) string {
		key, _ := keyfuncs.Join(keyfuncs.Constant[int](parts[0]), keyfuncs.Constant[int](parts[1]))(0)
		return key
	}
	for path, want := range map[string]string{
		"/users/alice/%41":         join("alice", "A"),
		"/users/%61lice/A":         join("alice", "A"),
		"/users/%2541-/1":          join("%41-", "1"), // sent without URL.RawPath
		"/users/%2541%2D/1":        join("%41-", "1"), // and with it
		"/users/a%2Fb/%41":         join("a/b", "A"),
		"/users/%41/%2541%252D%2D": join("A", "%41%2D-"),
	} {
		if ask(e, "GET", path); key != want {
			t.Errorf("%s: key %q, want %q", path, key, want)
		}
	}
	r := httptest.NewRequest("GET", "/users/1/1", nil)
	r.URL.RawPath = "/users/%zz/%" // no server produces this
	if e.ServeHTTP(httptest.NewRecorder(), r); key != join("%zz", "%") {
		t.Errorf("invalid escapes: key %q", key)
	}
}

func TestEchosClientAddressIsUsedOnlyIfAskedFor(t *testing.T) {
	forged := []string{"X-Forwarded-For: 198.51.100.1", "X-Real-IP: 198.51.100.1"}

	e := newEcho()
	e.Use(perDay(1, echomw.Lift(keyfuncs.Address(keyfuncs.Peer))).Middleware())
	e.GET("/", ok)
	want(t, e, "GET", "/", 200)
	want(t, e, "GET", "/", 429, forged...)

	e = newEcho()
	e.Use(perDay(1, keyfuncs.Address(echomw.RealIP)).Middleware())
	e.GET("/", ok)
	want(t, e, "GET", "/", 200)
	want(t, e, "GET", "/", 429, forged...) // before echo 4.16.3 another address was free
	want(t, e, "GET", "/", 429, "X-Forwarded-For: anything")
	e.IPExtractor = echo.ExtractIPDirect()
	want(t, e, "GET", "/", 429, "X-Forwarded-For: 198.51.100.2")
	e.IPExtractor = echo.ExtractIPFromXFFHeader(echo.TrustIPRange(peerNet))
	want(t, e, "GET", "/", 200, "X-Forwarded-For: 2001:db8::1")
	want(t, e, "GET", "/", 429, "X-Forwarded-For: 2001:db8::2") // one /64
}

func TestAnAddressThatWasWrittenOverThePeersIsRefused(t *testing.T) {
	e := newEcho()
	e.IPExtractor = echo.ExtractIPDirect()
	e.Use(perDay(1, keyfuncs.Address(echomw.RealIP)).Middleware())
	e.GET("/", ok)
	overwritten := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as gorilla's ProxyHeaders does
		r.RemoteAddr = r.Header.Get("X-Real-IP")
		e.ServeHTTP(w, r)
	})
	want(t, overwritten, "GET", "/", 503, "X-Real-IP: 198.51.100.1")
	want(t, overwritten, "GET", "/", 503, "X-Real-IP: 2001:db8::1")
	want(t, e, "GET", "/", 200)
	want(t, e, "GET", "/", 429)
	e.IPExtractor = func(r *http.Request) string { return r.Header.Get("CF-Connecting-IP") } // which ignores the peer
	want(t, overwritten, "GET", "/", 200, "X-Real-IP: 198.51.100.1", "CF-Connecting-IP: 198.51.100.2")
}
