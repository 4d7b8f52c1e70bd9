package parity

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// QuotaApp returns an application that answers GET /rate_limit by the Quota of a limiter with the
// routes, and GET /hello and POST /items by [Hello] behind this limiter.
type QuotaApp[R any] func(t *testing.T, c Config[R], routes ...string) http.Handler

// failing is a Memory that fails on demand.
type failing struct {
	*memory.Memory
	fails bool
}

func (f *failing) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if f.fails {
		return errors.New("down")
	}
	return f.Memory.Take(ctx, charges, out)
}

func (f *failing) Peek(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	if f.fails {
		return errors.New("down")
	}
	return f.Memory.Peek(ctx, charges, out)
}

// RunQuota tests the method Quota of an adapter's limiters. lift is the adapter's.
func RunQuota[R any](t *testing.T, app QuotaApp[R],
	lift func(func(*http.Request) (string, error)) func(R) (string, error)) {
	client := lift(func(r *http.Request) (string, error) {
		key := r.Header.Get("X-Client")
		if key == "broken" {
			return "", errors.New("broken")
		}
		return key, nil
	})
	on := func(method, path string) func(R) (string, error) {
		own := lift(func(r *http.Request) (string, error) {
			if r.Method != method || r.URL.Path != path || r.RequestURI != path {
				return "", core.ErrDoesNotApply
			}
			return r.Header.Get("X-Client"), nil
		})
		return own
	}
	perClient := core.Rule[R]{Name: "per-client", Limit: limits.FixedWindow(limits.PerMinute(3)), Key: client}
	scarce := core.Rule[R]{Name: "scarce", Limit: limits.FixedWindow(limits.PerDay(1)), Key: client}
	run := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) }) // begins on 2000-01-01
	}
	const fresh = `{"resources":{"per-client":{"limit":3,"used":0,"remaining":3,"reset":946684800}}}`

	run("a client sees its own key and pays nothing", func(t *testing.T) {
		q := quotaClient{t, app(t, config(perClient))}
		q.says("ann", fresh)
		q.ask("GET", "/hello", "ann", 200)
		q.ask("GET", "/hello", "ann", 200)
		for range 5 {
			q.says("ann",
				`{"resources":{"per-client":{"limit":3,"used":2,"remaining":1,"reset":946684860}}}`)
		}
		q.says("bob", fresh)
		q.ask("GET", "/hello", "ann", 200)
		q.ask("GET", "/hello", "ann", 429)
		q.says("ann",
			`{"resources":{"per-client":{"limit":3,"used":3,"remaining":0,"reset":946684860}}}`)
	})
	run("HEAD has the fields alone", func(t *testing.T) {
		q := quotaClient{t, app(t, config(perClient))}
		w := q.ask("HEAD", "/rate_limit", "ann", 200)
		if w.Body.Len() > 0 || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("got %q and %v", w.Body, w.Header())
		}
	})
	run("what the fields hide is hidden", func(t *testing.T) {
		hidden := scarce
		hidden.Hidden = true
		quotaClient{t, app(t, config(perClient, hidden))}.says("ann", fresh)
		c := config(perClient, scarce)
		c.Headers = headers.Options{Show: headers.OnDenial}
		q := quotaClient{t, app(t, c)}
		q.says("ann", `{"resources":{}}`)
		q.ask("GET", "/hello", "ann", 200)
		q.says("ann", `{"resources":{"scarce":{"limit":1,"used":1,"remaining":0,"reset":946771200}}}`)
		c.Headers = headers.Options{Show: headers.Omit}
		quotaClient{t, app(t, c)}.says("ann", `{"resources":{}}`)
	})
	run("routes are asked for instead of the path of the handler", func(t *testing.T) {
		hello, items := scarce, perClient
		hello.Name, hello.Key = "hello", on("GET", "/hello")
		items.Name, items.Key = "items", on("POST", "/items")
		c := config(hello, items, perClient)
		quotaClient{t, app(t, c)}.says("ann", fresh)
		q := quotaClient{t, app(t, c, "POST /items", "GET /hello")}
		q.ask("GET", "/hello", "ann", 200)
		q.says("ann", `{"resources":{`+
			`"items":{"limit":3,"used":0,"remaining":3,"reset":946684800},`+
			`"per-client":{"limit":3,"used":1,"remaining":2,"reset":946684860},`+
			`"hello":{"limit":1,"used":1,"remaining":0,"reset":946771200}}}`)
		q.ask("POST", "/items", "ann", 200)
	})
	run("a key for each route shows the one that binds", func(t *testing.T) {
		routed := perClient
		routed.Key = lift(func(r *http.Request) (string, error) { return r.URL.Path, nil })
		q := quotaClient{t, app(t, config(routed), "POST /items", "GET /hello", "GET /none")}
		q.ask("GET", "/hello", "ann", 200)
		q.says("ann",
			`{"resources":{"per-client":{"limit":3,"used":1,"remaining":2,"reset":946684860}}}`)
	})
	run("a key in the body is found for each route", func(t *testing.T) {
		json, form := perClient, scarce
		json.Key = lift(func(r *http.Request) (string, error) {
			b, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(b))
			return string(b), err
		})
		form.Key = lift(func(r *http.Request) (string, error) { return r.PostFormValue("name"), nil })
		q := quotaClient{t, app(t, config(json, form), "GET /hello", "POST /items")}
		post := func(path, content string) string {
			r := httptest.NewRequest("POST", path, strings.NewReader(content))
			if path == "/rate_limit" {
				r.Method = "GET"
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			q.app.ServeHTTP(w, r)
			return strings.TrimSuffix(w.Body.String(), "\n")
		}
		post("/items", "name=ann")
		const used = `"per-client":{"limit":3,"used":1,"remaining":2,"reset":946684860}`
		if got := post("/rate_limit", "name=ann"); !strings.Contains(got, used) ||
			!strings.Contains(got, `"scarce":{"limit":1,"used":1,`) {
			t.Errorf("ann has %s", got)
		}
		if got := post("/rate_limit", "name=bob"); strings.Contains(got, `"used":1`) {
			t.Errorf("bob has %s", got)
		}
	})
	run("what routes read of a body is bounded", func(t *testing.T) {
		length := scarce
		length.Key = lift(func(r *http.Request) (string, error) {
			n, err := io.Copy(io.Discard, r.Body)
			return strconv.FormatInt(n, 10), err
		})
		ask := func(size int, routes ...string) *httptest.ResponseRecorder {
			r := quotaRequest("GET", "/rate_limit", "ann")
			r.Body = io.NopCloser(bytes.NewReader(make([]byte, size)))
			r.ContentLength = int64(size)
			w := httptest.NewRecorder()
			app(t, config(perClient, length), routes...).ServeHTTP(w, r)
			return w
		}
		const most = 1 << 20
		for size, want := range map[int]int{most - 1: 200, most: 200, most + 1: 413, 2 * most: 413} {
			w := ask(size, "GET /hello", "POST /items")
			if w.Code != want || w.Header().Get("Cache-Control") != "no-store" ||
				want == 413 && w.Body.String() != "The body of the question is too long.\n" {
				t.Errorf("%d bytes: %d %v %s", size, w.Code, w.Header(), w.Body)
			}
		}
		if w := ask(2 * most); w.Code != 200 { // nothing is kept without routes
			t.Errorf("without routes: %d %s", w.Code, w.Body)
		}
	})
	run("a denial of this process hides no rule of the backend", func(t *testing.T) {
		local := scarce
		local.Local = true
		c := config(perClient, local)
		c.Backend = &failing{Memory: memory.MustNew(memory.Options{})}
		q := quotaClient{t, app(t, c)}
		q.ask("GET", "/hello", "ann", 200)
		q.ask("GET", "/hello", "ann", 429)
		q.says("ann", `{"resources":{`+
			`"per-client":{"limit":3,"used":1,"remaining":2,"reset":946684860},`+
			`"scarce":{"limit":1,"used":1,"remaining":0,"reset":946771200}}}`)
	})
	run("a failure is a 503 and never a guess", func(t *testing.T) {
		c := config(perClient)
		b := &failing{Memory: memory.MustNew(memory.Options{}), fails: true}
		c.Backend = b
		q := quotaClient{t, app(t, c)}
		q.ask("GET", "/hello", "ann", 200) // by the fallback, which is not asked
		w := q.ask("GET", "/rate_limit", "ann", 503)
		if h := w.Header(); h.Get("Retry-After") != "1" || h.Get("Cache-Control") != "no-store" ||
			strings.Contains(w.Body.String(), "resources") {
			t.Errorf("got %v %s", h, w.Body)
		}
		b.fails = false
		q.says("ann", fresh)
		q.ask("GET", "/rate_limit", "broken", 503)
	})
	run("a client that has left gets a bare 503", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		leave()
		w := httptest.NewRecorder()
		app(t, config(perClient)).ServeHTTP(w, quotaRequest("GET", "/rate_limit", "ann").WithContext(ctx))
		if w.Code != 503 || w.Body.Len() > 0 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
	run("malformed routes are found at the start", func(t *testing.T) {
		for _, route := range []string{"", "/hello", "GET", "GET hello", "GET /{id}", "GET  /hello", " /hello"} {
			if !panics(func() { app(t, config(perClient), route) }) {
				t.Errorf("%q is a route", route)
			}
		}
	})
}

func config[R any](rules ...core.Rule[R]) (c Config[R]) {
	c.Rules = rules
	return c
}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

func quotaRequest(method, path, client string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("X-Client", client)
	return r
}

// quotaClient asks an application.
type quotaClient struct {
	t   *testing.T
	app http.Handler
}

// ask sends a request and checks the status of the answer.
func (q quotaClient) ask(method, path, client string, status int) *httptest.ResponseRecorder {
	q.t.Helper()
	w := httptest.NewRecorder()
	q.app.ServeHTTP(w, quotaRequest(method, path, client))
	if w.Code != status {
		q.t.Errorf("%s %s of %s: got %d %s, want %d", method, path, client, w.Code, w.Body, status)
	}
	return w
}

// says checks the quotas of a client.
func (q quotaClient) says(client, want string) {
	q.t.Helper()
	w := q.ask("GET", "/rate_limit", client, 200)
	if got := strings.TrimSuffix(w.Body.String(), "\n"); got != want {
		q.t.Errorf("quotas of %s:\n got %s\nwant %s", client, got, want)
	}
	if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" ||
		h.Get("RateLimit") != "" {
		q.t.Errorf("got the fields %v", h)
	}
}
