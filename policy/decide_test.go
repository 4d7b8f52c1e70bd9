package policy_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/policy"
)

// story is a limiter made of a policy file.
type story struct {
	*testing.T
	limiter *core.Limiter[request]
}

func tell(t *testing.T, text string) *story {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte(text), names)
	if err != nil {
		t.Fatal(err)
	}
	l, err := core.New(core.Config[request]{Rules: p.Rules()})
	if err != nil {
		t.Fatal(err)
	}
	return &story{t, l}
}

// send returns what a request is made of: method, path and address, and header fields.
func send(method, path, address string, fields ...string) request {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = address + ":1234"
	if strings.Contains(address, ":") {
		r.RemoteAddr = "[" + address + "]:1234"
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// limits reports how many rules apply and the limit of the first one.
func (s *story) has(r request, rules int, limit string) {
	s.Helper()
	o := s.limiter.Decide(r.Context(), r)
	if o.Len() != rules {
		s.Errorf("%s %s: %d rules apply, want %d", r.Method, r.URL, o.Len(), rules)
		return
	}
	if o.Verdict() == core.Unavailable {
		s.Errorf("%s %s: %v", r.Method, r.URL, o.Err())
	}
	if rules > 0 && o.At(0).Limit().String() != limit {
		s.Errorf("%s %s: limit %v, want %s", r.Method, r.URL, o.At(0).Limit(), limit)
	}
}

func (s *story) key(r request, key string) {
	s.Helper()
	if o := s.limiter.Decide(r.Context(), r); o.Len() == 0 || o.At(0).Key != key {
		s.Errorf("%s %s: %d rules, key not %q: %+v", r.Method, r.URL, o.Len(), key, o)
	}
}

func (s *story) costs(r request, cost int64) {
	s.Helper()
	if o := s.limiter.Decide(r.Context(), r); o.Len() == 0 || o.At(0).Cost != cost {
		s.Errorf("%s %s: want cost %d, got %+v", r.Method, r.URL, cost, o)
	}
}

// One client may come from two addresses a day, whichever it used.
func TestAValueIsFoundByTheWordsOfAKey(t *testing.T) {
	s := tell(t, "version: 1\nclient: {peer: true}\nrules:\n"+
		"  - {name: a, match: /api/, key: header X-User, value: address, limit: distinct 2/1d}\n")
	for _, tt := range []struct {
		user, address string
		want          core.Verdict
	}{
		{"ann", "192.0.2.1", core.Allowed}, {"ann", "192.0.2.2", core.Allowed},
		{"ann", "192.0.2.1", core.Allowed}, {"ann", "192.0.2.3", core.Denied},
		{"bob", "192.0.2.3", core.Allowed}, {"ann", "192.0.2.2", core.Allowed},
	} {
		r := send("GET", "/api/x", tt.address, "X-User", tt.user)
		if o := s.limiter.Decide(r.Context(), r); o.Verdict() != tt.want {
			t.Errorf("%s from %s: %v, want %v", tt.user, tt.address, o.Verdict(), tt.want)
		}
	}
	s.has(send("GET", "/", "192.0.2.9"), 0, "")
}

const head = "version: 1\nclient: {peer: true}\nprogram: {keys: [user], plans: [plan], costs: [report-size]}\nrules:\n"

func TestACostAboveItsLimitClosesARoute(t *testing.T) {
	for _, limit := range []string{
		"1/day", "token-bucket 1/day", "leaky-queue 1/day", "sliding-log 1/day", "concurrent 1",
	} {
		s := tell(t, head+"  - {name: closed, match: /export, key: everybody, limit: "+limit+", cost: 2}\n")
		closed := send("GET", "/export", "192.0.2.1")
		o := s.limiter.Decide(closed.Context(), closed)
		if o.Allowed() || o.RetryAfter() != limits.Never {
			t.Errorf("%s: %v, retry after %v", limit, o.Verdict(), o.RetryAfter())
		}
		s.has(send("GET", "/", "192.0.2.1"), 0, "")
	}
}

func TestALimitOfAFileDenies(t *testing.T) {
	s := tell(t, head+"  - {name: a, match: /api/, key: address, limit: 2/h}\n")
	for i, want := range []core.Verdict{core.Allowed, core.Allowed, core.Denied} {
		r := send("GET", "/api/x", "192.0.2.1")
		if o := s.limiter.Decide(r.Context(), r); o.Verdict() != want {
			t.Errorf("request %d: %v, want %v", i+1, o.Verdict(), want)
		}
	}
}

func TestARuleAppliesToWhatItMatchesAndNotToExceptions(t *testing.T) {
	s := tell(t, `
version: 1
client: {peer: true}
lists: {offices: [198.51.100.0/24, "2001:db8:40::/48"], guests: 203.0.113.9}
rules:
  - name: api
    match: /api/
    except: [GET /api/health, list offices, list guests]
    key: address
    limit: 100/minute
`)
	s.has(send("GET", "/api/x", "192.0.2.1"), 1, "sliding-window 100/1m")
	s.has(send("GET", "/other", "192.0.2.1"), 0, "")
	s.has(send("GET", "/api/health", "192.0.2.1"), 0, "")
	s.has(send("POST", "/api/health", "192.0.2.1"), 1, "sliding-window 100/1m")
	s.has(send("GET", "/api/x", "198.51.100.7"), 0, "")
	s.has(send("GET", "/api/x", "2001:db8:40::1"), 0, "")
	s.has(send("GET", "/api/x", "203.0.113.9"), 0, "")
	s.has(send("GET", "/api/x", "203.0.113.8"), 1, "sliding-window 100/1m")
}

// A spelling of a probe that a router may read otherwise counts under both rules.
func TestProbesOfAFileCountUnderARuleOfTheirOwn(t *testing.T) {
	s := tell(t, `
version: 1
client: {peer: true}
rules:
  - name: requests
    except: ["GET /v2/{$}", "OPTIONS /{$}", HEAD /files/]
    key: address
    limit: 60/minute
  - name: probes
    match: ["GET /v2/{$}", "OPTIONS /{$}", HEAD /files/]
    key: address
    limit: 600/minute
`)
	for _, probe := range []string{"GET /v2/", "HEAD /v2/", "OPTIONS /", "HEAD /files/a/b"} {
		method, path, _ := strings.Cut(probe, " ")
		s.has(send(method, path, "192.0.2.1"), 1, "sliding-window 600/1m")
	}
	for _, request := range []string{"POST /v2/", "GET /v2/app/manifests/1", "GET /files/a/b", "OPTIONS /v2/"} {
		method, path, _ := strings.Cut(request, " ")
		s.has(send(method, path, "192.0.2.1"), 1, "sliding-window 60/1m")
	}
	for _, path := range []string{"//v2/", "/v2%2F", "/x/../v2/"} {
		r := send("GET", path, "192.0.2.1")
		if o := s.limiter.Decide(r.Context(), r); o.Len() != 2 {
			t.Errorf("%s: %d rules, want 2", path, o.Len())
		}
	}
}

// An address that is not known is on no list.
// The routes of ServeMux begin with their methods.
func TestAnExceptionMayBeARouteWithAMethod(t *testing.T) {
	s := tell(t, "version: 1\nrules:\n  - {name: a, key: everybody, limit: 9/s, except: [\"route POST "+
		"/users/{id}\", \"route GET /items\", route /plain]}\n")
	for _, test := range []struct {
		method, pattern string
		rules           int
	}{
		{"POST", "POST /users/{id}", 0}, {"POST", "/users/{id}", 0}, {"PUT", "/users/{id}", 1},
		{"PUT", "PUT /users/{id}", 1},
		{"HEAD", "GET /items", 0}, {"HEAD", "/items", 0}, {"POST", "/items", 1}, {"POST", "/plain", 0},
		{"POST", "POST /plain", 0}, {"GET", "", 1},
	} {
		r := send(test.method, "/", "192.0.2.1")
		r.Pattern = test.pattern
		if o := s.limiter.Decide(r.Context(), r); o.Len() != test.rules {
			t.Errorf("%s by %q: %d rules, want %d", test.method, test.pattern, o.Len(), test.rules)
		}
	}
}

// routed is a request of a framework.
type routed struct {
	*http.Request
	route string
}

func TestFindingOutThatARuleDoesNotApplyAllocatesNothing(t *testing.T) {
	p, err := policy.Parse("test.yaml",
		[]byte("version: 1\nrules:\n  - {name: a, key: everybody, limit: 9/s, match: \"POST /users/{id}/posts\"}\n"+
			"  - {name: b, key: everybody, limit: 9/s, match: [\"POST /users/{id}/posts\", /x], route: /y}\n"),
		policy.Names[*routed]{
			Request: func(r *routed) *http.Request { return r.Request },
			Route:   func(r *routed) string { return r.route },
		})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range p.Rules() {
		for route, applies := range map[string]bool{
			"/users/:id": false, "/users/:id/posts": true, "/users/*": false, "": false,
		} {
			r := &routed{send("POST", "/users/7/posts/8", "192.0.2.1"), route}
			if n := testing.AllocsPerRun(100, func() { rule.Key(r) }); n > 0 {
				t.Errorf("rule %s, route %q: %v allocations", rule.Name, route, n)
			}
			if _, err := rule.Key(r); (err == nil) != applies {
				t.Errorf("rule %s, route %q: %v", rule.Name, route, err)
			}
		}
	}
}

func TestARequestWithoutAnAddressIsNoException(t *testing.T) {
	s := tell(t, head[:len("version: 1\nclient: {peer: true}\n")]+
		"lists: {all: [0.0.0.0/0]}\nrules:\n  - {name: a, key: everybody, limit: 1/s, except: list all}\n")
	r := send("GET", "/", "192.0.2.1")
	r.RemoteAddr = "192.0.2.1"
	if o := s.limiter.Decide(r.Context(), r); o.Verdict() != core.Unavailable {
		t.Errorf("%v", o.Verdict())
	}
}

func TestKeysAreThoseOfKeyfuncs(t *testing.T) {
	for key, want := range map[string]string{
		"address":                             "192.0.2.1",
		"everybody":                           "everybody",
		"header X-Tenant":                     "acme",
		"header x-tenant":                     "acme",
		"api-key X-Key":                       keyfuncs.Digest("secret"),
		"cookie sid":                          keyfuncs.Digest("s1"),
		"bearer":                              keyfuncs.Digest("token"),
		"user":                                "ann",
		"route":                               "/x/{id}",
		"[address, header X-Tenant]":          "9:192.0.2.14:acme",
		"{first: [user, address]}":            "user:ann",
		"{first: [header X-None, address]}":   "address:192.0.2.1",
		"{first: [[user, bearer], address]}":  "user+bearer:3:ann32:" + keyfuncs.Digest("token"),
		"[route, {first: [user, address]}]":   "7:/x/{id}8:user:ann",
		"{first: [api-key X-Key, everybody]}": "api-key.X-Key:" + keyfuncs.Digest("secret"),
	} {
		s := tell(t, head+"  - {name: a, key: "+key+", limit: 100/s}\n")
		r := send("GET", "/x/7", "192.0.2.1", "X-Tenant", "acme", "X-Key", "secret", "Cookie", "sid=s1",
			"Authorization", "Bearer token", "X-User", "ann")
		r.Pattern = "/x/{id}"
		s.key(r, want)
	}
}

func TestClientSaysWhatAnAddressIs(t *testing.T) {
	for client, want := range map[string]string{
		"{peer: true}":                           "10.0.0.1",
		"{trusted-proxies: [10.0.0.0/8, unix]}":  "203.0.113.7",
		"{trusted-proxies: 10.0.0.1}":            "203.0.113.7",
		"{proxy-count: 2}":                       "198.51.100.1",
		"{forwarded: 10.0.0.1}":                  "2001:db8::/64",
		"{forwarded: 10.0.0.1, ipv6-prefix: 48}": "2001:db8::/48",
		"{single-header: {name: X-Real-IP, trusted-proxies: [10.0.0.1]}}":      "203.0.113.9",
		"{single-header: {name: x-real-ip, any-peer: true}, ipv6-prefix: 128}": "203.0.113.9",
	} {
		s := tell(t, "version: 1\nclient: "+client+"\nrules:\n  - {name: a, key: address, limit: 100/s}\n")
		s.key(
			send("GET", "/", "10.0.0.1", "X-Forwarded-For", "198.51.100.1, 203.0.113.7", "Forwarded",
				`for="[2001:db8::7]"`, "X-Real-IP", "203.0.113.9"), want)
	}
}

func TestPlansHaveLimits(t *testing.T) {
	s := tell(t, head+"  - {name: a, key: user, limit: {by: plan, plans: {free: 10/s, pro: token-bucket 20/s burst "+
		"5}, default: 1/s}}\n")
	s.has(send("GET", "/", "192.0.2.1", "X-User", "a", "X-Plan", "free"), 1, "sliding-window 10/1s")
	s.has(send("GET", "/", "192.0.2.1", "X-User", "b", "X-Plan", "pro"), 1, "token-bucket 20/1s burst 5")
	s.has(send("GET", "/", "192.0.2.1", "X-User", "c", "X-Plan", "gold"), 1, "sliding-window 1/1s")
	s.has(send("GET", "/", "192.0.2.1", "X-User", "d"), 1, "sliding-window 1/1s")
}

func TestOverridesAreForOneKey(t *testing.T) {
	digest := keyfuncs.Digest("secret")
	s := tell(t, head+`
  - name: first
    match: /first
    key: {first: [api-key X-Key, user, address]}
    limit: {by: plan, plans: {free: 10/s}, default: 1/s}
    overrides:
      - {for: {user: ann}, limit: 2/s}
      - {for: {api-key x-key: `+digest+`}, limit: 3/s}
      - {for: {address: "2001:db8::7"}, limit: 4/s}
  - name: joined
    match: /joined
    key: [address, header X-Tenant]
    limit: 1/s
    overrides: [{for: {header x-tenant: acme, address: "::ffff:192.0.2.1"}, limit: 5/s}]
`)
	s.has(send("GET", "/first", "192.0.2.1", "X-User", "ann"), 1, "sliding-window 2/1s")
	s.has(send("GET", "/first", "192.0.2.1", "X-User", "bob"), 1, "sliding-window 1/1s")
	s.has(send("GET", "/first", "192.0.2.1", "X-User", "bob", "X-Plan", "free"), 1, "sliding-window 10/1s")
	s.has(send("GET", "/first", "192.0.2.1", "X-Key", "secret"), 1, "sliding-window 3/1s")
	s.has(send("GET", "/first", "192.0.2.1", "X-User", "api-key.X-Key:"+digest), 1, "sliding-window 1/1s")
	s.has(send("GET", "/first", "2001:db8::8"), 1, "sliding-window 4/1s")
	s.has(send("GET", "/first", "2001:db8:0:1::8"), 1, "sliding-window 1/1s")
	s.has(send("GET", "/joined", "192.0.2.1", "X-Tenant", "acme"), 1, "sliding-window 5/1s")
	s.has(send("GET", "/joined", "192.0.2.2", "X-Tenant", "acme"), 1, "sliding-window 1/1s")
}

// To find a key may be expensive: a token is parsed, or a session is looked up.
func TestARuleWithOverridesFindsItsKeyOnce(t *testing.T) {
	counting := names
	asked := 0
	counting.Keys = map[string]func(request) (string, error){"user": func(r request) (string, error) {
		asked++
		return names.Keys["user"](r)
	}}
	p, err := policy.Parse("test.yaml", []byte(head+`
  - name: a
    key: user
    limit: {by: plan, plans: {free: 10/s}, default: 1/s}
    overrides: [{for: {user: ann}, limit: 2/s}]
`), counting)
	if err != nil {
		t.Fatal(err)
	}
	l, err := core.New(core.Config[request]{Rules: p.Rules()})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{t, l}
	for user, want := range map[string]string{"ann": "sliding-window 2/1s", "bob": "sliding-window 1/1s"} {
		asked = 0
		s.has(send("GET", "/", "192.0.2.1", "X-User", user), 1, want)
		if asked != 1 {
			t.Errorf("%s: the key was found %d times", user, asked)
		}
	}
}

// The bubble begins at midnight UTC of 2000-01-01.
func TestAnOverrideEndsAtTheBeginningOfItsDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := head + `
  - name: a
    key: user
    limit: 1/s
    overrides:
      - {for: {user: ann}, limit: 2/s, until: 2000-01-02, why: trial}
      - {for: {user: bob}, limit: 2/s, until: 2000-01-01}
`
		s := tell(t, text)
		p, err := policy.Parse("test.yaml", []byte(text), names)
		if err != nil {
			t.Fatal(err)
		}
		ended := func(want int) {
			t.Helper()
			if got := p.Expired(time.Now()); len(got) != want {
				t.Errorf("%d overrides have ended, want %d: %q", len(got), want, got)
			}
		}
		ann, bob := send("GET", "/", "192.0.2.1", "X-User", "ann"), send("GET", "/", "192.0.2.1", "X-User", "bob")
		s.has(ann, 1, "sliding-window 2/1s")
		s.has(bob, 1, "sliding-window 1/1s")
		ended(1)
		time.Sleep(24*time.Hour - time.Nanosecond)
		s.has(ann, 1, "sliding-window 2/1s")
		ended(1)
		time.Sleep(time.Nanosecond)
		s.has(ann, 1, "sliding-window 1/1s")
		ended(2)
	})
}

// Today is long after 2001, as for a tool that replays a log of that year.
func TestOverridesEndByTheInstantThatNamesSay(t *testing.T) {
	replayed := names
	replayed.Now = func(r request) time.Time {
		at, err := time.Parse(time.DateOnly, r.Header.Get("X-Day"))
		if err != nil {
			t.Error(err)
		}
		return at
	}
	p, err := policy.Parse("test.yaml",
		[]byte(head+"  - {name: a, key: user, limit: 1/s, overrides: [{for: {user: ann}, limit: 2/s, until: "+
			"2001-01-02}]}\n"), replayed)
	if err != nil {
		t.Fatal(err)
	}
	l, err := core.New(core.Config[request]{Rules: p.Rules()})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{t, l}
	s.has(send("GET", "/", "192.0.2.1", "X-User", "ann", "X-Day", "2001-01-01"), 1, "sliding-window 2/1s")
	s.has(send("GET", "/", "192.0.2.1", "X-User", "ann", "X-Day", "2001-01-02"), 1, "sliding-window 1/1s")
}

func TestCostsAreByPattern(t *testing.T) {
	s := tell(t, head+`
  - name: a
    key: everybody
    limit: 100000/s
    cost:
      - {match: [POST /reports, /big/], units: 10}
      - {match: /free, units: 0}
      - {route: GET /r/:id, units: 7}
      - {units: 3}
`)
	s.costs(send("POST", "/reports", "192.0.2.1"), 10)
	s.costs(send("GET", "/reports", "192.0.2.1"), 3)
	s.costs(send("GET", "/big/x", "192.0.2.1"), 10)
	s.costs(send("GET", "/free", "192.0.2.1"), 0)
	r := send("GET", "/free", "192.0.2.1")
	r.URL.Path = "/big/../free" // a router that does not clean paths serves /big/
	s.costs(r, 10)
	r = send("GET", "/r/1", "192.0.2.1")
	r.Pattern = "/r/:id"
	s.costs(r, 7)

	s = tell(t, head+"  - {name: a, key: everybody, limit: 1000/s, cost: report-size}\n")
	r.ContentLength = 77
	s.costs(r, 77)
	s = tell(t, head+"  - {name: a, key: everybody, limit: 1000/s, cost: 5}\n")
	s.costs(r, 5)
}

// The patterns of net/http begin with a method if they were registered with one, and those
// of other routers never do.
func TestARouteWithoutAMethodIsForAllMethods(t *testing.T) {
	s := tell(t, head+`
  - {name: any, route: "/x/{id}", key: everybody, limit: 100/s}
  - {name: get, route: "GET /x/{id}", key: everybody, limit: 100/s}
  - {name: rest, except: ["route /x/{id}"], key: everybody, limit: 100/s}
`)
	for _, test := range []struct {
		method, pattern string
		rules           []string
	}{
		{"GET", "GET /x/{id}", []string{"any", "get"}},
		{"HEAD", "GET /x/{id}", []string{"any", "get"}},
		{"GET", "/x/{id}", []string{"any", "get"}},
		{"POST", "/x/{id}", []string{"any"}},
		{"POST", "POST /x/{id}", []string{"any"}},
		{"POST", "POST  /x/{id}", []string{"any"}},
		{"GET", "GET example.com/x/{id}", []string{"rest"}},
		{"GET", "/x/{id}/y", []string{"rest"}},
		{"GET", "", []string{"rest"}},
	} {
		r := send(test.method, "/x/7", "192.0.2.1")
		r.Pattern = test.pattern
		o := s.limiter.Decide(r.Context(), r)
		var got []string
		for i := range o.Len() {
			got = append(got, o.At(i).Rule())
		}
		if !slices.Equal(got, test.rules) {
			t.Errorf("%s by %q: %v apply, want %v", test.method, test.pattern, got, test.rules)
		}
	}
}

func TestFinalCostsAreByStatus(t *testing.T) {
	p, err := policy.Parse("test.yaml", []byte(head+`
  - name: a
    key: everybody
    limit: 10/s
    final-cost:
      - {status: [401, 5xx], units: 4}
      - {status: 2XX, units: 0}
  - {name: b, key: everybody, limit: 10/s, final-cost: spent}
`), names)
	if err != nil {
		t.Fatal(err)
	}
	a, b := p.Rules()[0].FinalCost, p.Rules()[1].FinalCost
	for _, test := range []struct {
		result core.Result
		a, b   int64
	}{
		{core.Result{Status: 401, Cost: 2, Spent: -1}, 4, 2},
		{core.Result{Status: 503, Cost: 2, Spent: -1}, 4, 2},
		{core.Result{Status: 200, Cost: 2, Spent: -1}, 0, 2},
		{core.Result{Status: 200, Cost: 2, Spent: 5}, 0, 5},
		{core.Result{Status: 403, Cost: 2, Spent: -1}, 2, 2},
		{core.Result{Status: 403, Cost: 2, Spent: 7}, 7, 7},
		{core.Result{Status: 0, Cost: 2, Spent: -1}, 2, 2},
		{core.Result{Status: 200, Left: true, Cost: 2, Spent: -1}, 2, 2},
		{core.Result{Status: 200, Panicked: true, Cost: 2, Spent: 9}, 9, 9},
		{core.Result{Status: 999, Cost: 2, Spent: -1}, 2, 2},
	} {
		if gotA, gotB := a(test.result), b(test.result); gotA != test.a || gotB != test.b {
			t.Errorf("%+v: %d and %d, want %d and %d", test.result, gotA, gotB, test.a, test.b)
		}
	}
}

func TestARuleHasTheFieldsOfTheFile(t *testing.T) {
	p, err := policy.Load("testdata/good/shop.yaml", names)
	if err != nil {
		t.Fatal(err)
	}
	rules := make(map[string]core.Rule[request])
	for _, r := range p.Rules() {
		rules[r.Name] = r
	}
	if r := rules["everybody"]; r.Scope != "shop/everybody" || r.OnFailure != core.FailOpen ||
		r.Limit != limits.SlidingWindow(limits.PerSecond(2000)) || r.LimitFor != nil || r.Cost != nil ||
		r.FinalCost != nil || !r.Hidden {
		t.Errorf("%+v", r)
	}
	if r := rules["failed-log-ins"]; r.Mode != core.EnforceFor(25) || r.FinalCost == nil || r.Hidden {
		t.Errorf("%+v", r)
	}
	if r := rules["in-this-process"]; !r.Local || !r.DenyAs503 || r.Limit != limits.Concurrent(500) {
		t.Errorf("%+v", r)
	}
	if r := rules["bytes"]; r.Scope != "shop/uploads" || r.Unit != core.ContentBytes || r.Mode != core.Disabled {
		t.Errorf("%+v", r)
	}
	if len(p.Digest()) != 64 {
		t.Error(p.Digest())
	}
}

func TestAFrameworkWithoutARequestIsToldSo(t *testing.T) {
	_, err := policy.Parse("test.yaml",
		[]byte(head+"  - {name: a, key: address, limit: 1/s}\n  - {name: b, match: /x, key: user, limit: 1/s}\n"+
			"  - {name: c, route: /x, key: user, limit: 1/s}\n"), policy.Names[string]{
			Keys:  map[string]func(string) (string, error){"user": keyfuncs.Constant[string]("x")},
			Plans: map[string]func(string) (string, error){"plan": keyfuncs.Constant[string]("x")},
			Costs: map[string]func(string) int64{"report-size": func(string) int64 { return 1 }},
		})
	if got := policy.Mistakes(err); len(got) != 3 {
		t.Errorf("%v", err)
	}
	for _, m := range policy.Mistakes(err) {
		if !strings.Contains(m.Text, "policy.Names") {
			t.Error(m)
		}
	}
}

func TestChangesNameNoKey(t *testing.T) {
	load := func(text string) *policy.Policy[request] {
		p, err := policy.Parse("test.yaml", []byte(text), names)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	old := load(head + "  - {name: a, key: user, limit: 1/s, overrides: [{for: {user: tenant-1}, limit: 2/s}]}\n" +
		"  - {name: b, key: user, limit: 1/s}\n")
	p := load("version: 1\ndomain: d\nlists: {l: [192.0.2.1]}\n" + head[len("version: 1\n"):] +
		"  - {name: a, key: user, limit: 3/s, mode: shadow, hidden: true, " +
		"overrides: [{for: {user: tenant-2}, limit: 2/s}]}\n" +
		"  - {name: c, match: /x, key: user, limit: 1/s}\n")
	var got []string
	for _, c := range p.Changes(old) {
		got = append(got, c.String())
	}
	want := []string{
		"domain: added: d",
		"lists.l: added: 1 range",
		`rule "a": limit: sliding-window 1/1s → sliding-window 3/1s`,
		`rule "a": overrides: sliding-window 2/1s, other keys → sliding-window 2/1s`,
		`rule "a": mode: enforce → shadow`,
		`rule "a": hidden: false → true`,
		`rule "c": added: sliding-window 1/1s`,
		`rule "b": removed: sliding-window 1/1s`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := len(p.Changes(nil)); n < 2 {
		t.Errorf("%d changes from nothing", n)
	}
	if c := p.Changes(p); c != nil {
		t.Error(c)
	}
}

func TestARuleMaySkipRequestsWithoutItsKey(t *testing.T) {
	const file = "version: 1\nclient: {peer: true}\nrules:\n" +
		"- {name: a, key: header X-Tenant, absent: skip, limit: 1/h}\n" +
		"- {name: b, key: [address, cookie sid], absent: skip, limit: 1/h}\n" +
		"- {name: c, key: bearer, absent: count, limit: 2/h}\n"
	p, err := policy.Parse("test.yaml", []byte(file), names)
	if err != nil {
		t.Fatal(err)
	}
	s := tell(t, file)
	bare := send("GET", "/", "192.0.2.1")
	s.has(bare, 1, "sliding-window 2/1h")
	s.has(send("GET", "/", "192.0.2.1", "X-Tenant", "acme"), 2, "sliding-window 1/1h")
	s.has(send("GET", "/", "192.0.2.1", "Cookie", "sid=1"), 2, "sliding-window 1/1h")
	for rule, want := range map[string]string{
		"a": "has no header X-Tenant", "b": "has no address + cookie sid", "c": "",
	} {
		if got := p.WhyNot(rule, bare); got != want {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
}
