package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/stats"
)

// limited returns a limiter that is counted by counts: two requests a day for each client.
func limited(counts *stats.Stats) *nethttp.Limiter {
	api := counts.Limiter("api")
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(2)), Key: keyfuncs.Address(keyfuncs.Peer),
		}},
		Observer: api,
	})
	return limiter
}

// operator knows the people who may see the page, by what a proxy says that authenticates.
func operator(r *http.Request) (admin.Person, error) {
	switch name := r.Header.Get("X-Operator"); name {
	case "ann":
		return admin.Person{Name: name, MayChange: true}, nil
	case "bob":
		return admin.Person{Name: name}, nil
	}
	return admin.Person{}, errors.New("is not an operator")
}

// send sends a request of a person to a page, and prints the answer.
func send(page http.Handler, person, method, path, body string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost:8081"
	r.Header.Set("X-Operator", person)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	var problem struct{ Detail string }
	if json.Unmarshal(w.Body.Bytes(), &problem); problem.Detail != "" {
		fmt.Println(w.Code, problem.Detail)
		return
	}
	answer, _ := io.ReadAll(io.LimitReader(w.Body, 90))
	fmt.Println(w.Code, string(answer))
}

var quiet = slog.New(slog.DiscardHandler)

// The page has an address of its own, which nobody outside reaches.
func ExampleNew() {
	counts := stats.New(stats.Options{})
	limiter := limited(counts)
	page, err := admin.New(operator, admin.Sources{
		Stats: counts, Limiters: map[string]admin.Limiter{"api": limiter},
	}, admin.Options{Instance: "eu-1", Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &http.Server{
		Addr: "127.0.0.1:8081", Handler: page,
		ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	_ = server // go server.ListenAndServe()

	send(page, "ann", "GET", "/api/session", "")
	send(page, "mallory", "GET", "/api/session", "")
	// Output:
	// 200 {"Instance":"eu-1","Name":"ann","MayChange":false,"Masked":true,"Explains":["api"]}
	// 403 you are not known here
}

// One person may change things, another may look.
func ExamplePerson() {
	counts := stats.New(stats.Options{})
	page, err := admin.New(operator, admin.Sources{
		Stats: counts, Limiters: map[string]admin.Limiter{"api": limited(counts)},
	}, admin.Options{Changes: true, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	send(page, "bob", "POST", "/api/mode", `{"Rule":"per-client","Mode":"shadow"}`)
	send(page, "bob", "POST", "/api/explain", `{"Rule":"none","Key":"192.0.2.1"}`)
	// Output:
	// 403 you may look and not change
	// 404 there is no rule "none"
}

// What people change is written down, with the key as the page shows it.
func ExampleOptions() {
	counts := stats.New(stats.Options{})
	limiter := limited(counts)
	page, err := admin.New(operator, admin.Sources{
		Stats: counts, Limiters: map[string]admin.Limiter{"api": limiter},
	}, admin.Options{
		Instance: "eu-1",
		Changes:  true,
		Hosts:    []string{"localhost", "ops.example.com"},
		Keys:     admin.Shown,
		Audit: func(_ context.Context, c admin.Change) {
			fmt.Println(c.Who, c.Action, c.Limiter, c.Rule, c.Key, c.From, c.To, time.Until(c.Until).Round(time.Hour),
				c.Why, c.Err)
		},
		Logger: quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("POST", "/api/mode",
		strings.NewReader(`{"Rule":"per-client","Mode":"shadow","Why":"a partner shares an address"}`))
	r.Host = "ops.example.com"
	r.Header.Set("X-Operator", "ann")
	r.Header.Set("Content-Type", "application/json")
	page.ServeHTTP(httptest.NewRecorder(), r)
	fmt.Println(limiter.State().Rules[0].Mode)
	// Output:
	// ann mode api per-client  enforce shadow 1h0m0s a partner shares an address <nil>
	// shadow
}

// A customer was denied. The page says so, and somebody forgives the key.
func ExampleChange() {
	counts := stats.New(stats.Options{Logger: quiet})
	limiter := limited(counts)
	page, err := admin.New(operator, admin.Sources{
		Stats: counts, Limiters: map[string]admin.Limiter{"api": limiter},
	}, admin.Options{
		Changes: true,
		Logger:  quiet,
		Audit: func(_ context.Context, c admin.Change) {
			key, _, _ := strings.Cut(c.Key, "#") // a digest of this process follows
			fmt.Println(c.Who, c.Action, c.Rule, key, c.Err)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/", nil)
	for range 3 {
		o := limiter.Decide(r)
		fmt.Println(o.Verdict())
	}
	forgive := httptest.NewRequest("POST", "/api/forgive",
		strings.NewReader(`{"Rule":"per-client","Key":"192.0.2.1","Why":"a customer called"}`))
	forgive.Host = "localhost"
	forgive.Header.Set("X-Operator", "ann")
	forgive.Header.Set("Content-Type", "application/json")
	page.ServeHTTP(httptest.NewRecorder(), forgive)
	o := limiter.Decide(r)
	fmt.Println(o.Verdict())
	// Output:
	// allowed
	// allowed
	// denied
	// ann forgive per-client address in 192.0.2.0/24 <nil>
	// allowed
}

// Keys may identify people, so they are masked unless somebody decides otherwise.
func ExampleKeyDisplay() {
	for _, display := range []admin.KeyDisplay{admin.Masked, admin.Shown} {
		counts := stats.New(stats.Options{Logger: quiet})
		limiter := limited(counts)
		page, err := admin.New(operator, admin.Sources{
			Stats: counts, Limiters: map[string]admin.Limiter{"api": limiter},
		}, admin.Options{Keys: display, Logger: quiet})
		if err != nil {
			fmt.Println(err)
			return
		}
		r := httptest.NewRequest("POST", "/api/explain", strings.NewReader(`{"Key":"192.0.2.1"}`))
		r.Host = "localhost"
		r.Header.Set("X-Operator", "bob")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		_, shown, _ := strings.Cut(w.Body.String(), `"Key":"`)
		shown, _, _ = strings.Cut(shown, `"`)
		shown, _, _ = strings.Cut(shown, "#")
		fmt.Println(shown)
	}
	// Output:
	// 192.0.2.0/24
	// 192.0.2.1
}

// database is a policy that does not come from a file.
type database struct{ loaded time.Time }

func (d database) Source() string     { return "limits in the database" }
func (d database) Digest() string     { return "v17" }
func (d database) Applied() time.Time { return d.loaded }
func (d database) Differences() []string {
	return []string{`rule "per-client": limit: 1/day → 2/day`}
}
func (d database) Failure() (time.Time, error) { return time.Time{}, nil }

// Rules may come from anywhere. For a policy file, Policy is its Status.
func ExamplePolicy() {
	counts := stats.New(stats.Options{})
	_, err := admin.New(operator, admin.Sources{
		Stats:    counts,
		Limiters: map[string]admin.Limiter{"api": limited(counts)},
		Policy:   database{time.Now()},
	}, admin.Options{})
	fmt.Println(err)
	// Output: <nil>
}

// The page stands under a path of another server.
func ExampleSources() {
	counts := stats.New(stats.Options{})
	sources := admin.Sources{Stats: counts, Limiters: map[string]admin.Limiter{"api": limited(counts)}}
	page, err := admin.New(operator, sources, admin.Options{Hosts: []string{"example.com"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/weir/", http.StripPrefix("/ops/weir", page))
	r := httptest.NewRequest("GET", "/ops/weir/", nil)
	r.Header.Set("X-Operator", "ann")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}

// The page explains requests of limiters that are a RequestExplainer, and keys of all.
func ExampleRequestExplainer() {
	var limiter admin.Limiter = limited(stats.New(stats.Options{}))
	_, explains := limiter.(admin.RequestExplainer)
	fmt.Println(explains)
	// Output: true
}

// The limiters of core, and of every framework, are a Limiter.
func ExampleLimiter() {
	var limiter admin.Limiter = core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "per-user", Limit: limits.FixedWindow(limits.PerDay(2)),
		Key: func(user string) (string, error) { return user, nil },
	}}})
	d, err := limiter.ExplainKey(context.Background(), "per-user", "ann", limits.Limit{})
	fmt.Println(d.Remaining, err)
	// Output: 2 <nil>
}

// A program gives one customer more for a day.
func ExampleKeyOverrider() {
	counts := stats.New(stats.Options{})
	limiter := limited(counts)
	page := admin.MustNew(operator,
		admin.Sources{Stats: counts, Limiters: map[string]admin.Limiter{"api": limiter}},
		admin.Options{Changes: true, Logger: quiet})
	digest := keyfuncs.Digest("192.0.2.1")
	r := httptest.NewRequest("PUT", "/api/overrides/api/per-client/"+digest,
		strings.NewReader(`{"Key":"192.0.2.1","Limit":"500/minute","Until":"24h","Why":"ticket 7"}`))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Operator", "ann")
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	fmt.Println(w.Code)
	var keys admin.KeyOverrider = limiter
	for _, o := range keys.KeyOverrides("per-client") {
		fmt.Println(o.Limit, o.Why)
	}
	// Output:
	// 201
	// sliding-window 500/1m ann: ticket 7
}
