// Package bypass tries to get past the limits of a policy file by other spellings of paths and
// methods.
package bypass

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/policy"
)

// Site returns a router with a handler that [Says] each of the texts below, behind a limiter
// with the [Rules] of a policy file.
type Site func(t testing.TB, file string) http.Handler

const (
	Login  = "login"  // POST /api/login
	Item   = "item"   // POST /item/{id}
	Health = "health" // GET /api/health
	Data   = "data"   // GET /api/…, everything else
)

// Rules returns the rules of a policy file.
func Rules[R any](t testing.TB, file string, names policy.Names[R]) []core.Rule[R] {
	t.Helper()
	p, err := policy.Parse("bypass.yaml", []byte(file), names)
	if err != nil {
		t.Fatal(err)
	}
	return p.Rules()
}

// Says returns a handler that answers with text.
func Says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) }
}

// Run runs all attempts on each of sites.
func Run(t *testing.T, sites map[string]Site) {
	for name, try := range map[string]func(*testing.T, map[string]Site){
		"the handlers are reached":             theHandlersAreReached,
		"no spelling escapes a limit":          noSpellingEscapesALimit,
		"no escaped slash escapes a wildcard":  noEscapedSlashEscapesAWildcard,
		"no rest of a path escapes a wildcard": noRestOfAPathEscapesAWildcard,
		"no spelling makes a request cheaper":  noSpellingMakesARequestCheaper,
		"no spelling reaches an exception":     noSpellingReachesAnException,
	} {
		t.Run(name, func(t *testing.T) { try(t, sites) })
	}
}

// spellings returns texts that some server or router reads as path.
func spellings(path string) []string {
	first := strings.LastIndexByte(path, '/') + 1
	parent, name := path[:first], path[first:]
	escaped := "%" + strings.ToUpper(hex(name[0])) + name[1:]
	all := []string{
		path, path + "?x=1", path + "?", path + "/", path + "//", path + "/.", path + "/..",
		path + "/../" + name, path + "/x/..",
		parent + escaped, parent + strings.ToLower(escaped), parent + "/" + name, "/" + path, "//" + path,
		parent + "./" + name,
		parent + "x/../" + name, "/x/.." + path, "/.." + path, "/../.." + path, parent + "../api/" + name,
		parent + "%2e/" + name,
		parent + "%2E%2E/api/" + name, parent + "x/%2e%2e/" + name, parent + "v/../" + name,
		parent + "v/%2e%2e/" + name,
		strings.TrimSuffix(parent, "/") + "%2F" + name, strings.TrimSuffix(parent, "/") + "%2f" + name,
		path + "%2F", path + "%2f..%2f" + name,
		path + ";x=1", path + "%00", path + "%20", path + "%3F", path + ".", strings.ToUpper(path),
		"/%61pi/" + name, "/api%2F%2F" + name,
		"/%2Fapi/" + name, "/api/%5C" + name, "/api\\" + name,
	}
	return all
}

func hex(c byte) string {
	return string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15])
}

// ask calls handler with a request as a server would parse it.
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

// noSpellingEscapesALimit exhausts a limit. Then no spelling of its path may reach a limited
// handler.
func noSpellingEscapesALimit(t *testing.T, sites map[string]Site) {
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
				handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - name: a\n    key: "+
					"address\n    limit: 1/day\n    "+rule+"\n")
				path := "/api/login"
				ask(handler, "POST", path)
				for _, method := range methods {
					for _, target := range spellings(path) {
						if w := ask(handler, method, target); w != nil && w.Code == http.StatusOK &&
							w.Body.String() == Login {
							t.Errorf("%s %s escapes the limit", method, target)
						}
					}
				}
			})
		}
	}
}

// Some routers read an escaped slash as a part of a segment, others as its end.
func noEscapedSlashEscapesAWildcard(t *testing.T, sites map[string]Site) {
	for name, open := range sites {
		handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - name: a\n    match: POST "+
			"/item/{id}\n    key: address\n    limit: 1/day\n")
		ask(handler, "POST", "/item/7")
		for _, target := range []string{"/item/7", "/item/7%2F8", "/item/%2F", "/item/%2f8", "/item/7%2F",
			"/item/a%2Fb/", "/item/a%2F..%2Fb", "//item/a%2Fb", "/x/../item/a%2Fb",
			"/item%2F7", "/item/%2E%2E", "/item/.."} {
			if w := ask(handler, "POST", target); w.Code == http.StatusOK && w.Body.String() == Item {
				t.Errorf("%s: POST %s escapes the limit", name, target)
			}
		}
	}
}

// In echo, the last parameter of a route matches the rest of the path with its slashes.
func noRestOfAPathEscapesAWildcard(t *testing.T, sites map[string]Site) {
	for name, open := range sites {
		handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - {name: a, match: \"POST "+
			"/item/{id}\", key: address, limit: 1/day}\n")
		ask(handler, "POST", "/item/7")
		for _, target := range []string{"/item/7/8", "/item/7/8/9", "/item/", "/item//", "/item///",
			"/item//8", "/item/7/", "/item/7//", "/item/x/..", "/item/x/../", "/item/7/8%2F9"} {
			if w := ask(handler, "POST", target); w.Code == http.StatusOK && w.Body.String() == Item {
				t.Errorf("%s: POST %s escapes the limit", name, target)
			}
		}
	}
}

// noSpellingMakesARequestCheaper checks that no spelling of a path that costs nothing reaches a
// handler.
func noSpellingMakesARequestCheaper(t *testing.T, sites map[string]Site) {
	for name, open := range sites {
		handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - {name: a, key: address, "+
			"limit: 1/day, cost: [{match: GET /api/health, units: 0}]}\n")
		for range 3 {
			if w := ask(handler, "GET", "/api/health"); w.Body.String() != Health {
				t.Errorf("%s: what costs nothing: %d, %s", name, w.Code, w.Body)
			}
		}
		ask(handler, "GET", "/api/data")
		for _, target := range spellings("/api/health") {
			if w := ask(handler, "GET", target); w != nil && w.Code == http.StatusOK &&
				w.Body.String() != Health {
				t.Errorf("%s: GET %s reaches %q and costs nothing", name, target, w.Body)
			}
		}
	}
}

// noSpellingReachesAnException exhausts a limit. Then no spelling of an excepted path may reach
// another handler.
func noSpellingReachesAnException(t *testing.T, sites map[string]Site) {
	for name, open := range sites {
		t.Run(name, func(t *testing.T) {
			handler := open(t, "version: 1\nclient: {peer: true}\nrules:\n  - {name: a, match: /, except: "+
				"GET /api/health, key: address, limit: 1/day}\n")
			ask(handler, "GET", "/api/data")
			if w := ask(handler, "GET", "/api/health"); w.Code == http.StatusTooManyRequests {
				t.Errorf("the exception is denied")
			}
			for _, method := range methods {
				for _, target := range append(spellings("/api/health"), "/api/health/../data",
					"/api/health%2F..%2Fdata", "/api/data/../health", "/api/v/../health", "/api/v/%2e%2e/health",
					"/api/v%2F..%2Fhealth") {
					if w := ask(handler, method, target); w != nil && w.Code == http.StatusOK &&
						w.Body.String() != Health {
						t.Errorf("%s %s reaches %q", method, target, w.Body)
					}
				}
			}
		})
	}
}

// theHandlersAreReached checks that the sites answer. Otherwise the tests above would show nothing.
func theHandlersAreReached(t *testing.T, sites map[string]Site) {
	for name, open := range sites {
		handler := open(t, "version: 1\nrules:\n  - {name: a, key: everybody, limit: 1000/s}\n")
		reached := 0
		for _, target := range spellings("/api/login") {
			if w := ask(handler, "POST", target); w != nil && w.Code == http.StatusOK &&
				w.Body.String() == Login {
				reached++
			}
		}
		if reached < 2 {
			t.Errorf("%s: %d spellings reach the handler", name, reached)
		}
	}
}

// Fuzz exhausts limits. Then no path may reach a limited handler, and no path of an exception may
// reach another handler.
func Fuzz(f *testing.F, sites map[string]Site) {
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
			if w := ask(h, method, target); w != nil && w.Code == http.StatusOK &&
				w.Body.String() != Health && w.Body.Len() > 0 {
				t.Errorf("%s: %s %q reaches %q", names[i], method, target, w.Body)
			}
		}
	})
}
