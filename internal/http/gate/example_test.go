package gate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits"
)

// An adapter for a framework that has a context type of its own.
func ExampleGate() {
	type Context struct {
		w    http.ResponseWriter
		r    *http.Request
		user string
	}
	g, err := gate.New(gate.Config[*Context]{
		Config: core.Config[*Context]{Rules: []core.Rule[*Context]{{
			Name:  "per-user",
			Limit: limits.FixedWindow(limits.PerDay(1)),
			Key:   func(c *Context) (string, error) { return c.user, nil },
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit := func(next func(*Context) error) func(*Context) error {
		proceed := func(w http.ResponseWriter, c *Context) error { // once, not for every request
			c.w = w
			return next(c)
		}
		return func(c *Context) error { return g.Serve(c.w, c.r, c, proceed) }
	}

	page := limit(func(c *Context) error {
		_, err := fmt.Fprint(c.w, "hi, ", c.user)
		return err
	})
	for _, user := range []string{"ann", "ann", "bob"} {
		w := httptest.NewRecorder()
		page(&Context{w, httptest.NewRequest("GET", "/", nil), user})
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Body.Len() > 0)
	}
	// Output:
	// 200 "per-user";q=1;w=86400 true
	// 429 "per-user";q=1;w=86400 true
	// 200 "per-user";q=1;w=86400 true
}

// A denial in the way of the framework: an error for its error handler.
func ExampleNew() {
	key := func(path string) (string, error) { return path, nil }
	g, err := gate.New(gate.Config[string]{
		Config: core.Config[string]{
			Rules: []core.Rule[string]{{Name: "path", Limit: limits.FixedWindow(limits.PerDay(1)), Key: key}}},
		Framework: gate.Framework[string]{
			Denied: func(_ http.ResponseWriter, path string, o core.Outcome) error {
				return fmt.Errorf("%s: %v", path, o.Verdict())
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	next := func(_ http.ResponseWriter, path string) error {
		fmt.Println("served", path)
		return nil
	}
	r := httptest.NewRequest("GET", "/a", nil)
	for range 2 {
		fmt.Println(g.Serve(httptest.NewRecorder(), r, r.URL.Path, next))
	}
	// Output:
	// served /a
	// <nil>
	// /a: denied
}
