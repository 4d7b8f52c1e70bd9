package policy_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
	echo5 "github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

// site has a handler "login" at POST /api/login and one at each route below, behind
// a limiter of a policy file.
type site func(t *testing.T, file string) http.Handler

const (
	login  = "login"  // POST /api/login
	item   = "item"   // POST /item/{id}
	health = "health" // GET /api/health
	data   = "data"   // GET /api/…, everything else
)

func rulesOf[R any](t *testing.T, file string, names policy.Names[R]) []core.Rule[R] {
	t.Helper()
	p, err := policy.Parse("bypass.yaml", []byte(file), names)
	if err != nil {
		t.Fatal(err)
	}
	return p.Rules()
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) }
}

func netHTTP(t *testing.T, file string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /api/login", says(login))
	mux.Handle("POST /item/{id}", says(item))
	mux.Handle("GET /api/health", says(health))
	mux.Handle("GET /api/", says(data))
	return nethttp.MustNew(nethttp.Config{Rules: rulesOf(t, file, policy.Names[request]{})}).Handler(mux)
}

func chiWith(middleware ...func(http.Handler) http.Handler) site {
	return func(t *testing.T, file string) http.Handler {
		r := chi.NewRouter()
		r.Use(middleware...)
		r.Use(nethttp.MustNew(nethttp.Config{Rules: rulesOf(t, file, policy.Names[request]{})}).Handler)
		r.Post("/api/login", says(login))
		r.Post("/item/{id}", says(item))
		r.Get("/api/health", says(health))
		r.Get("/api/*", says(data))
		return r
	}
}

func ginWith(configure func(*gin.Engine)) site {
	return func(t *testing.T, file string) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		configure(r)
		r.Use(ginmw.MustNew(ginmw.Config{Rules: rulesOf(t, file, policy.Names[*gin.Context]{
			Request: func(c *gin.Context) *http.Request { return c.Request },
			Route:   (*gin.Context).FullPath,
		})}).Handler())
		r.POST("/api/login", gin.WrapF(says(login)))
		r.POST("/item/:id", gin.WrapF(says(item)))
		r.GET("/api/health", gin.WrapF(says(health)))
		r.GET("/api/data", gin.WrapF(says(data)))
		r.GET("/api/v/*rest", gin.WrapF(says(data)))
		return r
	}
}

func echoWith(before ...echo.MiddlewareFunc) site {
	return func(t *testing.T, file string) http.Handler {
		e := echo.New()
		e.Pre(before...)
		e.Use(echomw.MustNew(echomw.Config{Rules: rulesOf(t, file, policy.Names[echo.Context]{
			Request: echo.Context.Request,
			Route:   echo.Context.Path,
		})}).Middleware())
		e.POST("/api/login", echo.WrapHandler(says(login)))
		e.POST("/item/:id", echo.WrapHandler(says(item)))
		e.GET("/api/health", echo.WrapHandler(says(health)))
		e.GET("/api/*", echo.WrapHandler(says(data)))
		return e
	}
}

func echoFive(t *testing.T, file string) http.Handler {
	e := echo5.New()
	e.Use(echo5mw.MustNew(echo5mw.Config{Rules: rulesOf(t, file, policy.Names[*echo5.Context]{
		Request: (*echo5.Context).Request,
		Route:   (*echo5.Context).Path,
	})}).Middleware())
	e.POST("/api/login", echo5.WrapHandler(says(login)))
	e.POST("/item/:id", echo5.WrapHandler(says(item)))
	e.GET("/api/health", echo5.WrapHandler(says(health)))
	e.GET("/api/*", echo5.WrapHandler(says(data)))
	return e
}

var sites = map[string]site{
	"net/http":                netHTTP,
	"chi":                     chiWith(),
	"chi, StripSlashes":       chiWith(chimiddleware.StripSlashes),
	"chi, CleanPath":          chiWith(chimiddleware.CleanPath),
	"chi, GetHead":            chiWith(chimiddleware.GetHead),
	"gin":                     ginWith(func(*gin.Engine) {}),
	"gin, UseRawPath":         ginWith(func(r *gin.Engine) { r.UseRawPath = true }),
	"gin, raw values":         ginWith(func(r *gin.Engine) { r.UseRawPath, r.UnescapePathValues = true, false }),
	"gin, RemoveExtraSlash":   ginWith(func(r *gin.Engine) { r.RemoveExtraSlash = true }),
	"gin, RedirectFixedPath":  ginWith(func(r *gin.Engine) { r.RedirectFixedPath = true }),
	"echo":                    echoWith(),
	"echo, no trailing slash": echoWith(echomiddleware.RemoveTrailingSlash()),
	"echo v5":                 echoFive,
}

// spellings are ways to write a path that some server or router reads as path.
func spellings(path string) []string {
	first := strings.LastIndexByte(path, '/') + 1
	parent, name := path[:first], path[first:]
	escaped := "%" + strings.ToUpper(hex(name[0])) + name[1:]
	all := []string{
		path, path + "?x=1", path + "?", path + "/", path + "//", path + "/.", path + "/..", path + "/../" + name, path + "/x/..",
		parent + escaped, parent + strings.ToLower(escaped), parent + "/" + name, "/" + path, "//" + path, parent + "./" + name,
		parent + "x/../" + name, "/x/.." + path, "/.." + path, "/../.." + path, parent + "../api/" + name, parent + "%2e/" + name,
		parent + "%2E%2E/api/" + name, parent + "x/%2e%2e/" + name, parent + "v/../" + name, parent + "v/%2e%2e/" + name,
		strings.TrimSuffix(parent, "/") + "%2F" + name, strings.TrimSuffix(parent, "/") + "%2f" + name, path + "%2F", path + "%2f..%2f" + name,
		path + ";x=1", path + "%00", path + "%20", path + "%3F", path + ".", strings.ToUpper(path), "/%61pi/" + name, "/api%2F%2F" + name,
		"/%2Fapi/" + name, "/api/%5C" + name, "/api\\" + name,
	}
	return all
}

func hex(c byte) string { return string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]) }

// ask sends a request as a server would hand it to handler.
func ask(handler http.Handler, method, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil // the server answers 400
	}
	r.Method, r.URL, r.RequestURI, r.RemoteAddr = method, u, target, "192.0.2.1:1234"
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

var methods = []string{"GET", "HEAD", "POST", "get", "post", "Post", "OPTIONS", "PUT"}

// TestNoSpellingEscapesALimit uses a limit up, and then reaches no limited handler by any
// spelling of its path.
func TestNoSpellingEscapesALimit(t *testing.T) {
	rules := map[string]string{
		"match":         "match: POST /api/login",
		"match, {x}":    "match: POST /api/{x}",
		"match subtree": "match: /api/",
		"match {$}":     "match:\n      - POST /api/login/{$}\n      - POST /api/login",
		"route":         "route: POST /api/login",
		"host":          "match: example.com/api/login",
	}
	for name, open := range sites {
		for kind, rule := range rules {
			if kind == "route" && (strings.HasPrefix(name, "net/http") || strings.HasPrefix(name, "chi")) {
				continue // these limiters run before the route is known
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - name: a\n    key: address\n    limit: 1/day\n    "+rule+"\n")
				path := "/api/login"
				ask(handler, "POST", path)
				for _, method := range methods {
					for _, target := range spellings(path) {
						if w := ask(handler, method, target); w != nil && w.Code == http.StatusOK && w.Body.String() == login {
							t.Errorf("%s %s escapes the limit", method, target)
						}
					}
				}
			})
		}
	}
}

// An escaped slash is a part of a segment for some routers, and ends it for others.
func TestNoEscapedSlashEscapesAWildcard(t *testing.T) {
	for name, open := range sites {
		handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - name: a\n    match: POST /item/{id}\n    key: address\n    limit: 1/day\n")
		ask(handler, "POST", "/item/7")
		for _, target := range []string{"/item/7", "/item/7%2F8", "/item/%2F", "/item/%2f8", "/item/7%2F", "/item/a%2Fb/", "/item/a%2F..%2Fb", "//item/a%2Fb", "/x/../item/a%2Fb", "/item%2F7", "/item/%2E%2E", "/item/.."} {
			if w := ask(handler, "POST", target); w.Code == http.StatusOK && w.Body.String() == item {
				t.Errorf("%s: POST %s escapes the limit", name, target)
			}
		}
	}
}

// Echo gives the last parameter of a route the rest of the path, slashes included.
func TestNoRestOfAPathEscapesAWildcard(t *testing.T) {
	for name, open := range sites {
		handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - {name: a, match: \"POST /item/{id}\", key: address, limit: 1/day}\n")
		ask(handler, "POST", "/item/7")
		for _, target := range []string{"/item/7/8", "/item/7/8/9", "/item/", "/item//", "/item///", "/item//8", "/item/7/", "/item/7//", "/item/x/..", "/item/x/../", "/item/7/8%2F9"} {
			if w := ask(handler, "POST", target); w.Code == http.StatusOK && w.Body.String() == item {
				t.Errorf("%s: POST %s escapes the limit", name, target)
			}
		}
	}
}

// TestNoSpellingMakesARequestCheaper reaches no handler by a spelling of a path that costs
// nothing.
func TestNoSpellingMakesARequestCheaper(t *testing.T) {
	for name, open := range sites {
		handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - {name: a, key: address, limit: 1/day, cost: [{match: GET /api/health, units: 0}]}\n")
		for range 3 {
			if w := ask(handler, "GET", "/api/health"); w.Body.String() != health {
				t.Errorf("%s: what costs nothing: %d, %s", name, w.Code, w.Body)
			}
		}
		ask(handler, "GET", "/api/data")
		for _, target := range spellings("/api/health") {
			if w := ask(handler, "GET", target); w != nil && w.Code == http.StatusOK && w.Body.String() != health {
				t.Errorf("%s: GET %s reaches %q and costs nothing", name, target, w.Body)
			}
		}
	}
}

// TestNoSpellingReachesAnException uses a limit up, and then reaches no other handler by a
// spelling of what is excepted.
func TestNoSpellingReachesAnException(t *testing.T) {
	for name, open := range sites {
		t.Run(name, func(t *testing.T) {
			handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - {name: a, match: /, except: GET /api/health, key: address, limit: 1/day}\n")
			ask(handler, "GET", "/api/data")
			if w := ask(handler, "GET", "/api/health"); w.Code == http.StatusTooManyRequests {
				t.Errorf("the exception is denied")
			}
			for _, method := range methods {
				for _, target := range append(spellings("/api/health"), "/api/health/../data", "/api/health%2F..%2Fdata", "/api/data/../health", "/api/v/../health", "/api/v/%2e%2e/health", "/api/v%2F..%2Fhealth") {
					if w := ask(handler, method, target); w != nil && w.Code == http.StatusOK && w.Body.String() != health {
						t.Errorf("%s %s reaches %q", method, target, w.Body)
					}
				}
			}
		})
	}
}

// TestTheHandlersAreReached shows that the sites answer, so that the tests above mean
// something.
func TestTheHandlersAreReached(t *testing.T) {
	for name, open := range sites {
		handler := open(t, "version: 1\nrules:\n  - {name: a, key: everybody, limit: 1000/s}\n")
		reached := 0
		for _, target := range spellings("/api/login") {
			if w := ask(handler, "POST", target); w != nil && w.Code == http.StatusOK && w.Body.String() == login {
				reached++
			}
		}
		if reached < 2 {
			t.Errorf("%s: %d spellings reach the handler", name, reached)
		}
	}
}

// FuzzNoPathEscapes uses limits up, and then reaches no limited handler by any path, and no
// other one by that of an exception.
func FuzzNoPathEscapes(f *testing.F) {
	var handlers []http.Handler
	var names []string
	f.Add("POST", "/api/login")
	f.Add("GET", "/api/v/%2e%2e/health")
	f.Add("HEAD", "/api/%68ealth/.")
	f.Add("POST", "//item/7/../%2F8")
	f.Fuzz(func(t *testing.T, method, target string) {
		if handlers == nil {
			for name, open := range sites {
				h := open(t, "version: 1\nclient: {peer: true}\nrules:\n"+
					"  - {name: a, key: address, limit: 1/day, match: POST /api/login}\n"+
					"  - {name: b, key: address, limit: 1/day, match: \"POST /item/{id}\"}\n"+
					"  - {name: c, key: address, limit: 1/day, match: GET /api/, except: GET /api/health}\n")
				ask(h, "POST", "/api/login")
				ask(h, "POST", "/item/7")
				ask(h, "GET", "/api/data")
				handlers, names = append(handlers, h), append(names, name)
			}
		}
		for i, h := range handlers {
			if w := ask(h, method, target); w != nil && w.Code == http.StatusOK && w.Body.String() != health && w.Body.Len() > 0 {
				t.Errorf("%s: %s %q reaches %q", names[i], method, target, w.Body)
			}
		}
	})
}
