package chimw_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/chimw"
)

// FuzzARouteHasOneKey sends any path to a router with limiters in every place. All of
// them must find the key that the handler finds after routing, and the same value of
// a parameter and of the catch-all.
func FuzzARouteHasOneKey(f *testing.F) {
	for _, path := range []string{
		"/", "//", "/users/1", "/users/1/", "/users//", "/users/a%2Fb", "/files/", "/files/a/b/", "/files//a", "/api",
		"/api/", "/api//",
		"/api/acme/items/1", "/api/acme/items/1/", "/api/items/items/items", "/api//items/1", "/api/a%2Fb/items/1",
		"/plain", "/plain/x/",
		"/api/api/items/api", "/files/users/1", "/x/users/1",
		"/sub/files/", "/sub/files/a%2561.json", "/sub/page-", "/sub/x/deep/files/", "/sub/x/deep/",
		"/users/%61%2561.json", "/users/a/.json", "/users/%2561.x/../%61.json",
		"//api//acme//items/1", "/api/./acme/../acme/items/%61%2561/", "/users/%2561/../%61",
	} {
		f.Add(path, false, false, false)
		f.Add(path, true, false, false)
		f.Add(path, false, true, false)
		f.Add(path, false, false, true)
		f.Add(path, true, false, true)
	}
	f.Fuzz(func(t *testing.T, path string, strip, clean, format bool) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" || u.Path == "" || u.Path[0] != '/' {
			t.Skip()
		}
		rec, id := &recorder{key: chimw.RoutePattern}, &recorder{key: chimw.PathParam("id")}
		rest := &recorder{key: chimw.PathParam("*")}
		routed := ""
		note := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				routed = chi.RouteContext(r.Context()).RoutePattern()
			})
		}
		before := []func(http.Handler) http.Handler{note}
		if strip {
			before = append(before, middleware.StripSlashes)
		}
		if clean {
			before = append(before, middleware.CleanPath)
		}
		if format {
			before = append(before, middleware.URLFormat)
		}
		all := func(r *http.Request) (string, error) {
			rec.find(r)
			id.find(r)
			rest.find(r)
			return "all", nil
		}
		w := httptest.NewRecorder()
		everywhere(perDay(100, all).Handler, before...).ServeHTTP(w,
			&http.Request{Method: "GET", URL: u, RemoteAddr: "192.0.2.1:1", Header: http.Header{}})
		for i, key := range rec.keys {
			if w.Code == http.StatusOK && key != routed {
				t.Errorf("limiter %d found %q, routed as %q", i, key, routed)
			}
			if w.Code != http.StatusOK && key != "" && key != routed {
				t.Errorf("limiter %d found %q for %d", i, key, w.Code)
			}
			if id.keys[i] != id.keys[0] {
				t.Errorf("limiter %d found parameter %q, the first %q", i, id.keys[i], id.keys[0])
			}
			if rest.keys[i] != rest.keys[0] {
				t.Errorf("limiter %d found the rest %q, the first %q", i, rest.keys[i], rest.keys[0])
			}
		}
	})
}
