package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/shed"
)

const file = `
version: 1
client: {peer: true}
rules:
  - name: log-in
    match: POST /login
    key: address
    limit: 2/hour
`

func Example() {
	p, err := policy.Parse("weir.yaml", []byte(file), policy.Names[*http.Request]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := nethttp.MustNew(nethttp.Config{Rules: p.Rules()})
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/login", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

func ExampleLoad() {
	p, err := policy.Load("testdata/good/shop.yaml", policy.Names[*http.Request]{
		// set by your authentication
		Keys:  map[string]func(*http.Request) (string, error){"user": keyfuncs.Header("X-User")},
		Plans: map[string]func(*http.Request) (string, error){"plan": keyfuncs.Header("X-Plan")},
		Costs: map[string]func(*http.Request) int64{"report-size": func(*http.Request) int64 { return 1 }},
	})
	fmt.Println(len(p.Rules()), err)

	_, err = policy.Load("nowhere.yaml", policy.Names[*http.Request]{})
	fmt.Println(err)
	// Output:
	// 8 <nil>
	// policy: stat nowhere.yaml: no such file or directory
}

func ExampleParse() {
	_, err := policy.Parse("weir.yaml", []byte(`
version: 1
rules:
  - name: all
    key: adress
    limit: 100/minutes ago
`), policy.Names[*http.Request]{})
	fmt.Println(err)
	// Output:
	// weir.yaml:5:10: rule "all": key: there is no key "adress": write address
	// weir.yaml:6:12: rule "all": limit: want [algorithm] units/period [burst n], such as "100/minute" or "token-bucket 100/1m burst 20" (got "100/minutes ago")
}

func ExampleNames() {
	p, err := policy.Parse("weir.yaml", []byte(`
version: 1
program: {keys: [user]}
rules:
  - name: users
    route: GET /users/:id
    key: user
    limit: 100/minute
`), policy.Names[*gin.Context]{
		Request: func(c *gin.Context) *http.Request { return c.Request },
		Route:   (*gin.Context).FullPath,
		Keys: map[string]func(*gin.Context) (string, error){
			"user": keyfuncs.Value(func(c *gin.Context) any { return c.GetString("user") }),
		},
	})
	fmt.Println(p.Rules()[0].Limit, err)
	// Output: sliding-window 100/1m <nil>
}

func ExampleCheck() {
	err := policy.Check("weir.yaml", []byte(`
version: 1
program: {keys: [user]} # whatever it is
rules:
  - {name: all, key: user, limit: 100/minute}
`))
	fmt.Println(err)
	// Output: <nil>
}

func ExampleMistakes() {
	err := policy.Check("weir.yaml", []byte("version: 1\nrules: []\nlimits: 3\n"))
	for _, m := range policy.Mistakes(err) {
		fmt.Printf("line %d, column %d, %q: %s\n", m.Line, m.Column, m.Field, m.Text)
	}
	// Output:
	// line 2, column 8, "rules": is an empty list: add something or remove the field
	// line 3, column 1, "": there is no field "limits": the fields are version, domain, program, client, agents, paths, lists, rules, shed
}

func ExampleMistake_Error() {
	m := policy.Mistake{File: "weir.yaml", Line: 5, Column: 12, Rule: "api", Field: "cost", Text: "is required: add it"}
	fmt.Println(m.Error())
	// Output: weir.yaml:5:12: rule "api": cost: is required: add it
}

func ExamplePolicy_Rules() {
	p, _ := policy.Parse("weir.yaml", []byte(file), policy.Names[*http.Request]{})
	for _, rule := range p.Rules() {
		fmt.Println(rule.Name, rule.Limit, rule.Mode)
	}
	// Output: log-in sliding-window 2/1h enforce
}

func ExamplePolicy_Digest() {
	p, _ := policy.Parse("weir.yaml", []byte(file), policy.Names[*http.Request]{})
	fmt.Println(p.Digest()[:16])
	// Output: b4f9ae13d8ce140c
}

func ExamplePolicy_Expired() {
	p, _ := policy.Parse("weir.yaml", []byte(`
version: 1
program: {keys: [user]}
rules:
  - name: all
    key: user
    limit: 100/minute
    overrides:
      - {for: {user: tenant-42}, limit: 500/minute, until: 2026-12-31, why: migration}
`), policy.Names[*http.Request]{
		// set by your authentication
		Keys: map[string]func(*http.Request) (string, error){"user": keyfuncs.Header("X-User")},
	})
	fmt.Println(p.Expired(time.Date(2026, 12, 30, 23, 59, 59, 0, time.UTC)))
	fmt.Println(p.Expired(time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)))
	// Output:
	// []
	// [weir.yaml:9:9: rule "all": overrides: the override ended at the beginning of 2026-12-31 in UTC: remove it]
}

func ExamplePolicy_Changes() {
	old, _ := policy.Parse("weir.yaml", []byte(file), policy.Names[*http.Request]{})
	changed := bytes.Replace([]byte(file), []byte("2/hour"), []byte("5/hour"), 1)
	p, _ := policy.Parse("weir.yaml", changed, policy.Names[*http.Request]{})
	for _, c := range p.Changes(old) {
		fmt.Println(c)
	}
	// Output: rule "log-in": limit: sliding-window 2/1h → sliding-window 5/1h
}

func ExampleChange_String() {
	fmt.Println(policy.Change{Rule: "log-in", Field: "mode", Old: "shadow", New: "enforce"})
	fmt.Println(policy.Change{Field: "domain", New: "shop"})
	// Output:
	// rule "log-in": mode: shadow → enforce
	// domain: added: shop
}

// Watch runs until its context ends. The second argument is the policy in force.
func ExampleWatch() {
	dir, _ := os.MkdirTemp("", "policy")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "weir.yaml")
	os.WriteFile(path, []byte(file), 0o600)
	p, err := policy.Load(path, policy.Names[*http.Request]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	os.WriteFile(path, bytes.Replace([]byte(file), []byte("2/hour"), []byte("5/hour"), 1), 0o600)

	ctx, stop := context.WithCancel(context.Background())
	err = policy.Watch(ctx, p, func(rules []core.Rule[*http.Request]) error {
		fmt.Println("now", rules[0].Limit)
		stop()
		return nil
	}, policy.Options{Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	fmt.Println(err)
	// Output:
	// now sliding-window 5/1h
	// context canceled
}

func ExamplePolicy_Shed() {
	p, err := policy.Parse("weir.yaml", []byte(`
version: 1
rules: [{name: all, key: everybody, limit: 2000/second}]
shed:
  slo: 300ms
  exempt: GET /healthz
  classes:
    - {name: payments, match: POST /payments/}
    - {name: rest}
`), policy.Names[*http.Request]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	options, _ := p.Shed()
	shedder := shed.MustNew(options)
	for _, class := range shedder.State().Classes {
		fmt.Printf("%s may fill %d%%\n", class.Name, class.Share)
	}
	// Output:
	// payments may fill 100%
	// rest may fill 50%
}

// A shedder and a limiter follow one file. Without shed in the file nothing is shed.
func ExampleWatchPolicy() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "weir.yaml")
	os.WriteFile(path, []byte(file+"shed: {slo: 300ms}\n"), 0o600)
	p, err := policy.Load(path, policy.Names[*http.Request]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	options, _ := p.Shed()
	shedder := shed.MustNew(options)
	limiter := nethttp.MustNew(nethttp.Config{Rules: p.Rules()})
	fmt.Println(shedder.State().Mode)
	os.WriteFile(path, []byte(file), 0o600) // from now on nothing is shed

	ctx, stop := context.WithCancel(context.Background())
	policy.WatchPolicy(ctx, p, func(p *policy.Policy[*http.Request]) error {
		if err := limiter.Replace(p.Rules()); err != nil {
			return err
		}
		options, _ := p.Shed()
		return shedder.Replace(options)
	}, policy.Options{
		Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler), Observe: func(policy.Event) { stop() },
	})
	fmt.Println(shedder.State().Mode)
	// Output:
	// enforce
	// disabled
}

// SIGHUP makes the watcher read the file at once.
func ExampleOptions_reload() {
	signals, reload := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			reload <- struct{}{}
		}
	}()
	options := policy.Options{Reload: reload}
	fmt.Println(options.Reload != nil)
	// Output:
	// true
}

func ExampleOptions() {
	options := policy.Options{
		Every: 10 * time.Second,
		Observe: func(e policy.Event) {
			if e.Err != nil {
				fmt.Println("not applied:", e.Err)
			}
		},
	}
	options.Observe(policy.Event{File: "weir.yaml", Err: os.ErrNotExist})
	// Output: not applied: file does not exist
}

func ExampleSchema() {
	var schema struct {
		Title string
	}
	fmt.Println(json.Unmarshal(policy.Schema(), &schema), schema.Title)
	// Output: <nil> weir policy, version 1
}

func ExampleEvent() {
	e := policy.Event{
		File: "weir.yaml", Changes: []policy.Change{{Rule: "log-in", Field: "limit", Old: "2/1h", New: "5/1h"}},
	}
	fmt.Println(e.File, e.Changes)
	// Output: weir.yaml [rule "log-in": limit: 2/1h → 5/1h]
}

// A service in front of programs in any language reads a file as if it said paths: any-server.
func ExampleNames_anyServer() {
	p, err := policy.Parse("weir.yaml", []byte(`
version: 1
rules: [{name: log-in, match: POST /login, key: everybody, limit: 10/minute}]
`), policy.Names[*http.Request]{AnyServer: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, target := range []string{"/login", "/LOGIN", "/x/..;/login", "/logins"} {
		why := p.WhyNot("log-in", httptest.NewRequest("POST", target, nil))
		fmt.Println(target, why == "")
	}
	// Output:
	// /login true
	// /LOGIN true
	// /x/..;/login true
	// /logins false
}
