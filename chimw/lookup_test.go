package chimw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

// recorder records the keys that another key function finds.
type recorder struct {
	key  func(*http.Request) (string, error)
	keys []string
}

func (rec *recorder) find(r *http.Request) (string, error) {
	key, err := rec.key(r)
	if err != nil {
		key = err.Error()
	}
	rec.keys = append(rec.keys, key)
	return key, err
}

// everywhere returns a router with a limiter in every possible place.
func everywhere(limit func(http.Handler) http.Handler, before ...func(http.Handler) http.Handler) *chi.Mux {
	r := chi.NewRouter()
	r.Use(before...)
	r.Use(limit)
	r.With(limit).Get("/users/{id}", ok)
	r.With(limit).Get("/files/*", ok)
	r.Route("/api", func(r chi.Router) {
		r.Use(limit)
		r.With(limit).Get("/", ok)
		r.Route("/{tenant}", func(r chi.Router) {
			r.Use(limit)
			r.Group(func(r chi.Router) {
				r.Use(limit)
				r.Get("/items/{id}", ok)
			})
		})
	})
	r.Mount("/plain", http.HandlerFunc(ok))
	sub := chi.NewRouter()
	sub.Use(limit)
	sub.With(limit).Get("/files/*", ok)
	sub.With(limit).Get("/page-*", ok)
	sub.Route("/{dir}/deep", func(r chi.Router) {
		r.Use(limit)
		r.With(limit).Get("/files/*", ok)
	})
	r.Mount("/sub", sub)
	return r
}

func TestARouteHasOneKeyWhereverTheLimiterIs(t *testing.T) {
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/users/1", "/users/{id}"},
		{"GET", "/files/a/b", "/files/*"},
		{"GET", "/api", "/api"},
		{"GET", "/api/", "/api"},
		{"GET", "/api/acme/items/1", "/api/{tenant}/items/{id}"},
		{"GET", "/api/acme/items/a%2Fb", "/api/{tenant}/items/{id}"},
		{"GET", "/plain/x", "/plain/*"},
		{"GET", "/no/such/page", ""},
		{"GET", "/api/acme/none", ""},
		{"POST", "/users/1", ""},
		{"BREW", "/users/1", ""},
	} {
		rec := &recorder{key: chimw.RoutePattern}
		ask(everywhere(perDay(100, rec.find).Handler), c.method, c.path)
		if len(rec.keys) == 0 {
			t.Errorf("%s %s: no limiter was passed", c.method, c.path)
		}
		for i, key := range rec.keys {
			if key != c.want {
				t.Errorf("%s %s: limiter %d found %q, want %q", c.method, c.path, i, key, c.want)
			}
		}
	}
}

// found sends a request and fails unless each limiter on its way finds the key want.
func found(
	t *testing.T, build func(limit func(http.Handler) http.Handler) *chi.Mux, key func(*http.Request) (string, error),
	request, want string,
) {
	t.Helper()
	rec := &recorder{key: key}
	method, path, _ := strings.Cut(request, " ")
	w := ask(build(perDay(100, rec.find).Handler), method, path)
	if len(rec.keys) == 0 {
		t.Errorf("%s: no limiter was passed", request)
	}
	for i, key := range rec.keys {
		if key != want {
			t.Errorf("%s (%d): limiter %d found %q, want %q", request, w.Code, i, key, want)
		}
	}
}

func TestARouteIsFoundByThePathThatMiddlewareLeft(t *testing.T) {
	for _, c := range []struct {
		name          string
		before        func(http.Handler) http.Handler
		request, want string
	}{
		{"StripSlashes", middleware.StripSlashes, "GET /users/1", "/users/{id}"},
		{"StripSlashes", middleware.StripSlashes, "GET /users/1/", "/users/{id}"},
		{"StripSlashes", middleware.StripSlashes, "GET /api/acme/items/1/", "/api/{tenant}/items/{id}"},
		{"StripSlashes", middleware.StripSlashes, "GET /api/", "/api"},
		{"CleanPath", middleware.CleanPath, "GET //users///1", "/users/{id}"},
		{"CleanPath", middleware.CleanPath, "GET //api//acme//items/1", "/api/{tenant}/items/{id}"},
		{"CleanPath", middleware.CleanPath, "GET /api/acme/x/../items/1/", "/api/{tenant}/items/{id}"},
		{"CleanPath", middleware.CleanPath, "GET //api//a%2Fb//items/1", "/api/{tenant}/items/{id}"},
		{"CleanPath", middleware.CleanPath, "GET //api/", "/api"},
		{"CleanPath", middleware.CleanPath, "GET //files//a", "/files/*"},
		{"CleanPath", middleware.CleanPath, "GET //plain//x", "/plain/*"},
		{"CleanPath", middleware.CleanPath, "GET //api//acme//none", ""},
		{"GetHead", middleware.GetHead, "HEAD /users/1", "/users/{id}"},
		{"GetHead", middleware.GetHead, "HEAD /api/acme/items/1", "/api/{tenant}/items/{id}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found(t, func(limit func(http.Handler) http.Handler) *chi.Mux { return everywhere(limit, c.before) },
				chimw.RoutePattern, c.request, c.want)
		})
	}
}

func TestMiddlewareOfASubRouterMayRewriteThePathBeforeTheLimiter(t *testing.T) {
	for _, c := range []struct {
		name          string
		before        func(http.Handler) http.Handler
		request, want string
	}{
		{"StripSlashes", middleware.StripSlashes, "GET /sub/items/1/", "/sub/items/{id}"},
		{"StripSlashes", middleware.StripSlashes, "GET /sub/items/a%2Fb/", "/sub/items/{id}"},
		// chi routes by the rest of the path
		{"StripPrefix", middleware.StripPrefix("/sub"), "GET /sub/items/1", "/sub/items/{id}"},
		{"StripPrefix", middleware.StripPrefix("/sub"), "GET /sub/none", ""},
		{"URLFormat", middleware.URLFormat, "GET /sub/items/1.json", "/sub/items/{id}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found(t, func(limit func(http.Handler) http.Handler) *chi.Mux {
				r := chi.NewRouter()
				r.Route("/sub", func(r chi.Router) {
					r.Use(c.before, limit)
					r.With(limit).Get("/items/{id}", ok)
				})
				return r
			}, chimw.RoutePattern, c.request, c.want)
		})
	}
}

func TestALimiterDoesNotSeeAPathThatIsRewrittenInsideIt(t *testing.T) {
	found(t, func(limit func(http.Handler) http.Handler) *chi.Mux {
		r := chi.NewRouter()
		r.Use(limit)
		r.Route("/sub", func(r chi.Router) {
			r.Use(limit, middleware.StripSlashes)
			r.Get("/items/{id}", ok)
		})
		return r
	}, chimw.RoutePattern, "GET /sub/items/1/", "")
}

func TestThePathOfAMountIsAPatternWhetherAnsweredOrNot(t *testing.T) {
	build := func(limit func(http.Handler) http.Handler) *chi.Mux {
		r := chi.NewRouter()
		r.Use(limit)
		r.Route("/with", func(r chi.Router) {
			r.Use(limit)
			r.Get("/", ok)
		})
		r.Route("/without", func(r chi.Router) {
			r.Use(limit)
			r.Get("/items", ok)
		})
		return r
	}
	for _, c := range []struct{ request, want string }{
		{"GET /with", "/with"},
		{"GET /with/", "/with"},
		{"POST /with", "/with"},
		{"GET /without", "/without"},
		{"GET /without/", "/without"},
		{"POST /without/items", ""},
		{"GET /without/none", ""},
	} {
		found(t, build, chimw.RoutePattern, c.request, c.want)
	}
}

// With a slash at its end or without, and whatever serves it: a client must not choose
// between two budgets.
func TestTheRootOfAMountedRouterHasOneKey(t *testing.T) {
	type middlewares = func(http.Handler) http.Handler
	for name, mount := range map[string]func(r chi.Router, limit middlewares, sub http.Handler){
		"Mount":           func(r chi.Router, _ middlewares, sub http.Handler) { r.Mount("/api", sub) },
		"With, Mount":     func(r chi.Router, limit middlewares, sub http.Handler) { r.With(limit).Mount("/api", sub) },
		"Mount a wrapped": func(r chi.Router, limit middlewares, sub http.Handler) { r.Mount("/api", limit(sub)) },
		"Group, Mount": func(r chi.Router, limit middlewares, sub http.Handler) {
			r.Group(func(r chi.Router) { r.Use(limit); r.Mount("/api", sub) })
		},
		"Mount, Mount": func(r chi.Router, limit middlewares, sub http.Handler) {
			r.Route("/api", func(r chi.Router) { r.Use(limit); r.Mount("/", sub) })
		},
	} {
		for _, pattern := range []string{"/", "/*", "/other"} {
			build := func(limit middlewares) *chi.Mux {
				r, sub := chi.NewRouter(), chi.NewRouter()
				r.Use(limit)
				sub.Use(limit)
				sub.With(limit).Get(pattern, ok)
				mount(r, limit, sub)
				return r
			}
			t.Run(name+" "+pattern, func(t *testing.T) {
				for _, request := range []string{"GET /api", "GET /api/", "POST /api", "POST /api/"} {
					found(t, build, chimw.RoutePattern, request, "/api")
				}
			})
		}
	}
}

func TestAMountedRouterMustNotBeWrapped(t *testing.T) {
	limited := map[string]func(limit func(http.Handler) http.Handler) *chi.Mux{}
	for name, mount := range map[string]func(r, sub *chi.Mux){
		"wrapped": func(r, sub *chi.Mux) { r.Mount("/sub", middleware.NoCache(sub)) },
		"With":    func(r, sub *chi.Mux) { r.With(middleware.NoCache).Mount("/sub", sub) },
	} {
		limited[name+", Use"] = func(limit func(http.Handler) http.Handler) *chi.Mux {
			r, sub := chi.NewRouter(), chi.NewRouter()
			r.Use(limit)
			sub.Use(limit)
			sub.Get("/items/{id}", ok)
			mount(r, sub)
			return r
		}
		limited[name+", route"] = func(limit func(http.Handler) http.Handler) *chi.Mux {
			r, sub := chi.NewRouter(), chi.NewRouter()
			sub.With(limit).Get("/items/{id}", ok)
			mount(r, sub)
			return r
		}
	}
	found(t, limited["wrapped, Use"], chimw.RoutePattern, "GET /sub/items/1", "/sub/*")
	found(t, limited["wrapped, Use"], chimw.PathParam("id"), "GET /sub/items/1", core.ErrAbsent.Error())
	// as chi knows it there
	found(t, limited["wrapped, route"], chimw.RoutePattern, "GET /sub/items/1", "/sub/items/{id}")
	found(t, limited["wrapped, route"], chimw.PathParam("id"), "GET /sub/items/1", "1")
	found(t, limited["With, Use"], chimw.RoutePattern, "GET /sub/items/1", "/sub/items/{id}")
	found(t, limited["With, Use"], chimw.PathParam("id"), "GET /sub/items/1", "1")
	found(t, limited["With, route"], chimw.RoutePattern, "GET /sub/items/1", "/sub/items/{id}")
}

func TestARouteIsFoundThroughPatternsOfEveryForm(t *testing.T) {
	build := func(limit func(http.Handler) http.Handler) *chi.Mux {
		r := chi.NewRouter()
		r.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				chi.RouteContext(r.Context()).URLParams.Add("added", "by middleware")
				next.ServeHTTP(w, r)
			})
		}, limit)
		items := chi.NewRouter()
		items.Use(limit)
		items.With(limit).Get("/", ok)
		items.With(limit).Get("/{id}", ok)
		items.With(limit).Get("/files/*", ok)
		items.With(limit).Get("/files/{dir}/", ok)
		items.With(limit).Get("/page-*", ok)
		r.Mount("/", items)
		r.Mount("/slash/", items)
		r.With(middleware.NoCache, limit).Mount("/with", items)
		r.Route("/year/{year:[0-9]{2}[0-9]+}-{month:[0-9]{2}}/by/{author}", func(r chi.Router) {
			r.Use(limit)
			r.Mount("/", items)
			r.Mount("/{id}/more", items)
		})
		return r
	}
	for _, c := range []struct{ request, want string }{
		{"GET /", "/"},
		{"GET /1", "/{id}"},
		{"GET http://example.com", "/"},
		{"GET /slash/", "/slash"},
		{"GET /slash/1", "/slash/{id}"},
		{"GET /with", "/with"},
		{"GET /with/", "/with"},
		{"GET /with/1", "/with/{id}"},
		{"GET /with/page-1", "/with/page-*"},
		{"GET /with/files/a/b", "/with/files/*"},
		{"GET /with/files/a/", "/with/files/{dir}"},
		{"GET /with/files/", "/with/files/*"},
		{"GET /with/no/page", ""},
		{"GET /year/2026-11/by/me", "/year/{year:[0-9]{2}[0-9]+}-{month:[0-9]{2}}/by/{author}"},
		{"GET /year/2026-11/by/me/1", "/year/{year:[0-9]{2}[0-9]+}-{month:[0-9]{2}}/by/{author}/{id}"},
		{"GET /year/2026-11/by/me/1/more/2", "/year/{year:[0-9]{2}[0-9]+}-{month:[0-9]{2}}/by/{author}/{id}/more/{id}"},
		{"GET /year/2026-11/by/me/no/page", ""},
		{"GET /year/26-11/by/me/1", ""},
	} {
		found(t, build, chimw.RoutePattern, c.request, c.want)
	}
	found(t, build, chimw.PathParam("added"), "GET /with/1", "by middleware")
}

func TestAKeyByRouteOutsideChiIsAMistake(t *testing.T) {
	r := httptest.NewRequest("GET", "/users/1", nil)
	for _, key := range []func(*http.Request) (string, error){chimw.RoutePattern, chimw.PathParam("id")} {
		if key, err := key(r); key != "" || !errors.Is(err, keyfuncs.ErrTooEarly) {
			t.Errorf("%q, %v", key, err)
		}
	}
}

func TestAContextMadeByHandIsTakenAsItIs(t *testing.T) {
	rctx := chi.NewRouteContext() // as in tests of handlers
	rctx.URLParams.Add("id", "1")
	r := httptest.NewRequest("GET", "/users/1", nil)
	r = r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, rctx))
	if key, err := chimw.RoutePattern(r); key != "" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	if key, err := chimw.PathParam("id")(r); key != "1" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	found(t, func(limit func(http.Handler) http.Handler) *chi.Mux {
		r := chi.NewRouter()
		r.Route("/{tenant}", func(r chi.Router) {
			r.Use(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					chi.RouteContext(r.Context()).URLParams = chi.RouteParams{}
					next.ServeHTTP(w, r)
				})
			}, limit)
			r.Get("/items", ok)
		})
		return r
	}, chimw.RoutePattern, "GET /acme/items", "/{tenant}/items")
}

func TestAParameterIsFoundWhereverTheLimiterIs(t *testing.T) {
	for path, id := range map[string]string{
		"/users/1": "1", "/api/acme/items/2": "2", "/api/acme/none": core.ErrAbsent.Error(),
		"/files/3": core.ErrAbsent.Error(),
	} {
		rec := &recorder{key: chimw.PathParam("id")}
		ask(everywhere(perDay(100, rec.find).Handler), "GET", path)
		for i, key := range rec.keys {
			if key != id {
				t.Errorf("%s: limiter %d found %q, want %q", path, i, key, id)
			}
		}
	}
	if chimw.PathParam("") != nil {
		t.Error("a parameter without a name must be nil, for New to report")
	}
}

func TestAParameterIsThatOfTheWholeRoute(t *testing.T) {
	build := func(limit func(http.Handler) http.Handler) *chi.Mux {
		r := chi.NewRouter()
		r.Use(limit)
		r.Route("/{id}", func(r chi.Router) {
			r.Use(limit)
			r.With(limit).Get("/", ok)
			r.With(limit).Get("/items/{id}", ok)
			r.With(limit).Get("/files/*", ok)
		})
		return r
	}
	found(t, build, chimw.PathParam("id"), "GET /1", "1")
	found(t, build, chimw.PathParam("id"), "GET /1/items/2", "2")
	found(t, build, chimw.PathParam("*"), "GET /1/files/a/b", "a/b")
	found(t, build, chimw.PathParam("*"), "GET /1/items/2", core.ErrAbsent.Error()) // not that of the mount
}

func TestACatchAllHasOneKeyWhereverTheLimiterIs(t *testing.T) {
	absent := core.ErrAbsent.Error()
	for _, c := range []struct{ request, pattern, rest string }{
		{"GET /files/", "/files/*", absent},
		{"GET /files/a", "/files/*", "a"},
		{"GET /sub/files/", "/sub/files/*", absent},
		{"GET /sub/files/a", "/sub/files/*", "a"},
		{"GET /sub/files/files/", "/sub/files/*", "files/"},
		{"GET /sub/page-", "/sub/page-*", absent},
		{"GET /sub/page-1", "/sub/page-*", "1"},
		{"GET /all", "/all", absent},
		{"GET /all/", "/all", absent},
		{"GET /all/a", "/all/*", "a"},
		{"GET /sub/x/deep/files/", "/sub/{dir}/deep/files/*", absent},
		{"GET /sub/x/deep/files/files/", "/sub/{dir}/deep/files/*", "files/"},
		{"GET /sub/files/deep/", "/sub/files/*", "deep/"},
	} {
		for name, before := range map[string]chi.Middlewares{
			"":          nil,
			"URLFormat": {middleware.URLFormat},
			"path given by middleware": {func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					chi.RouteContext(r.Context()).RoutePath = r.URL.Path
					next.ServeHTTP(w, r)
				})
			}},
		} {
			t.Run(c.request+" "+name, func(t *testing.T) {
				build := func(limit func(http.Handler) http.Handler) *chi.Mux {
					r := everywhere(limit, before...)
					r.Route("/all", func(r chi.Router) {
						r.Use(limit)
						r.With(limit).Get("/*", ok)
					})
					return r
				}
				found(t, build, chimw.RoutePattern, c.request, c.pattern)
				found(t, build, chimw.PathParam("*"), c.request, c.rest)
			})
		}
	}
	build := func(limit func(http.Handler) http.Handler) *chi.Mux {
		r := chi.NewRouter()
		r.Use(limit)
		r.With(limit).Get("/page-*", ok)
		r.Mount("/x/files", func() http.Handler { // a router at the path that a catch-all would have left
			sub := chi.NewRouter()
			sub.Use(limit)
			sub.With(limit).Get("/files/*", ok)
			return sub
		}())
		return r
	}
	found(t, build, chimw.PathParam("*"), "GET /page-", absent)
	found(t, build, chimw.PathParam("*"), "GET /x/files/files/", absent)
	found(t, build, chimw.PathParam("*"), "GET /x/files/files/files/", "files/")
	found(t, build, chimw.RoutePattern, "GET /x/files/files/", "/x/files/files/*")
}

func TestAParameterHasOneKeyHoweverItIsEncoded(t *testing.T) {
	for _, c := range []struct {
		name          string
		before        []func(http.Handler) http.Handler
		param         string
		request, want string
	}{
		{"plain", nil, "id", "GET /users/alice", "alice"},
		{"one letter", nil, "id", "GET /users/%61lice", "alice"},
		{"capital hex", nil, "id", "GET /users/a%6Cice", "alice"},
		{"small hex", nil, "id", "GET /users/a%6cice", "alice"},
		{"as Go writes it", nil, "id", "GET /users/a%20b", "a b"},
		{"not as Go writes it", nil, "id", "GET /users/%61%20b", "a b"},
		{"slash", nil, "id", "GET /users/a%2Fb", "a/b"},
		{"plus", nil, "id", "GET /users/%61+b", "a+b"},
		{"percent, as Go writes it", nil, "id", "GET /users/a%2561", "a%61"},
		{"percent, not as Go writes it", nil, "id", "GET /users/%61%2561", "a%61"},
		{"percent that is no escape", nil, "id", "GET /users/100%25", "100%"},
		{"sub-router", nil, "id", "GET /api/acme/items/%61", "a"},
		{"mount of a parameter", nil, "tenant", "GET /api/%61cme/items/1", "acme"},
		{"wildcard", nil, "*", "GET /files/%61/b%2Fc", "a/b/c"},
		{"half an escape", nil, "first", "GET /halves/%61", "%"},
		{"CleanPath", chi.Middlewares{middleware.CleanPath}, "id", "GET //users//%61", "a"},
		{"CleanPath, sub-router", chi.Middlewares{middleware.CleanPath}, "id", "GET //api/acme//items/%61%2561/",
			"a%61"},
		{"CleanPath, as Go writes it", chi.Middlewares{middleware.CleanPath}, "id", "GET //users//a%2561", "a%61"},
		{"CleanPath, wildcard", chi.Middlewares{middleware.CleanPath}, "*", "GET /files/%61//b", "a/b"},
		{"CleanPath, decoy", chi.Middlewares{middleware.CleanPath}, "id", "GET /users/%2561/../%61", "a"},
		{"StripSlashes", chi.Middlewares{middleware.StripSlashes}, "id", "GET /users/%61", "a"},
		{"StripSlashes, which unescapes", chi.Middlewares{middleware.StripSlashes}, "id", "GET /users/%61%2561/",
			"a%61"},
		{"URLFormat, which unescapes", chi.Middlewares{middleware.URLFormat}, "id", "GET /users/%61%2561.json", "a%61"},
		{"URLFormat, as Go writes it", chi.Middlewares{middleware.URLFormat}, "id", "GET /users/a%2561.json", "a%61"},
		{"URLFormat, empty format", chi.Middlewares{middleware.URLFormat}, "id", "GET /users/%61%2561.", "a%61"},
		{"URLFormat, no format", chi.Middlewares{middleware.URLFormat}, "id", "GET /users/%61%2561", "a%61"},
		{"URLFormat, sub-router", chi.Middlewares{middleware.URLFormat}, "id", "GET /api/%61/items/%61%2561.json",
			"a%61"},
		{"URLFormat after StripSlashes", chi.Middlewares{middleware.StripSlashes, middleware.URLFormat}, "id",
			"GET /users/%61%2561.json/", "a%61"},
		{"StripSlashes after URLFormat", chi.Middlewares{middleware.URLFormat, middleware.StripSlashes}, "id",
			"GET /users/%61%2561/.json", "a%61"},
		{"URLFormat after CleanPath", chi.Middlewares{middleware.CleanPath, middleware.URLFormat}, "id",
			"GET //users/%61%2561.json", "a%61"},
		{"URLFormat after CleanPath, decoy", chi.Middlewares{middleware.CleanPath, middleware.URLFormat}, "id",
			"GET /users/%2561.x/../%61.json", "a"},
		{"StripSlashes, sub-router", chi.Middlewares{middleware.StripSlashes}, "id", "GET /api/%61/items/a%2561/",
			"a%61"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found(t, func(limit func(http.Handler) http.Handler) *chi.Mux {
				r := everywhere(limit, c.before...)
				r.With(limit).Get("/halves/{first}6{second}", ok)
				return r
			}, chimw.PathParam(c.param), c.request, c.want)
		})
	}
}

func TestLookingAheadLeavesTheRequestAsItWas(t *testing.T) {
	r := chi.NewRouter()
	r.Use(perDay(9, keyfuncs.Join(chimw.RoutePattern, chimw.PathParam("id"))).Handler)
	r.Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) {
		rctx := chi.RouteContext(r.Context())
		if got := rctx.RoutePattern() + " " + rctx.URLParam("id") + " " + r.PathValue("id"); got != "/users/{id} 1 1" ||
			len(rctx.URLParams.Keys) != 1 {
			t.Errorf("the handler found %q, parameters %v", got, rctx.URLParams)
		}
	})
	want(t, r, "GET", "/users/1", 200)
}
