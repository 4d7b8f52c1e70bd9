package policy_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/weir-go/weir/policy"
)

// elsewhere are paths that some server of another language takes for /login.
var elsewhere = []string{
	"/login", "/LOGIN", "/Login/", "/logIn?x=1", "/login;a=b", "/login;", "/login;a=b/", "/;a/login",
	"/x/..;/login", "/x/..;a=b/login", "/x/%2e%2e;/login", "/x/%2e%2e;a%2Fb/login",
	"/x/..%3B/login", "/LOGIN;JSESSIONID=1",
	"/login%3Ba=b", "/%4Cogin", "/LOG%49N;a=%2Fb", "//LOGIN", "/./;a/Login", "/login#x", `/x\..\LOGIN`,
	"/login;a=b#c", `/Login\#`,
}

func applies(t *testing.T, file, method, target string, names policy.Names[request]) bool {
	t.Helper()
	p, err := policy.Parse("a.yaml", []byte(file), names)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, "/", nil)
	if r.URL, err = url.ParseRequestURI(target); err != nil {
		t.Fatal(err)
	}
	_, err = p.Rules()[0].Key(r)
	return err == nil
}

const (
	anyServer = "version: 1\npaths: any-server\nrules:\n"
	ofGo      = "version: 1\npaths: go\nrules:\n"
	unsaid    = "version: 1\nrules:\n"
)

func TestNoSpellingOfAnyServerPassesALimit(t *testing.T) {
	for _, patterns := range []string{
		`POST /login`, `POST /Login`, `"/{page}"`, `/x, /login`, `/login/`,
	} {
		for _, target := range elsewhere {
			rule := "  - {name: a, key: everybody, limit: 1/s, match: [" + patterns + "]}\n"
			if !applies(t, anyServer+rule, "POST", target, policy.Names[request]{}) {
				t.Errorf("match %s: %s escapes", patterns, target)
			}
		}
	}
	for target, want := range map[string]bool{
		"/a/CAF%C3%89/b%2Fc": true, "/x;/../login": true,
		"/logins": false, "/log;in": false, "/x;/login": false, "/login.": false,
	} {
		rule := "  - {name: a, key: everybody, limit: 1/s, match: [/login, \"/a/café/{id}\"]}\n"
		if got := applies(t, anyServer+rule, "GET", target, policy.Names[request]{}); got != want {
			t.Errorf("%s: applies %v, want %v", target, got, want)
		}
	}
}

func TestAFileSaysWhoseReadingsCount(t *testing.T) {
	const rule = "  - {name: a, key: everybody, limit: 1/s, match: /login}\n"
	for _, test := range []struct {
		head    string
		names   policy.Names[request]
		applies bool
	}{
		{unsaid, policy.Names[request]{}, false},
		{unsaid, policy.Names[request]{AnyServer: true}, true},
		{ofGo, policy.Names[request]{AnyServer: true}, false},
		{anyServer, policy.Names[request]{}, true},
	} {
		if got := applies(t, test.head+rule, "POST", "/LOGIN", test.names); got != test.applies {
			t.Errorf("%q, %v: applies %v, want %v", test.head, test.names.AnyServer, got, test.applies)
		}
	}
}

// An exception is a path that is written exactly so, also where it might be another server's.
func TestNoSpellingOfAnyServerReachesAnException(t *testing.T) {
	const rule = "  - {name: a, key: everybody, limit: 1/s, except: [/health, /public/]}\n"
	for _, target := range []string{
		"/HEALTH", "/health;a=b", "/health#x", "/public/..;/login", "/public/..;a/..;/login", "/PUBLIC/x",
		`/public/\..\..\login`, "/public/x%3B", "/public/x/..%3B/login", "/public/%2e%2e;/login",
		"/public/%252e%252e/login", "/public/..%252Flogin", "/public/x%3Fa", "/public/x%00", "/public/x%0A",
	} {
		if !applies(t, anyServer+rule, "GET", target, policy.Names[request]{}) {
			t.Errorf("%s is excepted", target)
		}
	}
	for _, target := range []string{"/health", "/public/", "/public/x"} {
		if applies(t, anyServer+rule, "GET", target, policy.Names[request]{}) {
			t.Errorf("%s is not excepted", target)
		}
	}
}

func TestNoSpellingOfAnyServerIsCheaper(t *testing.T) {
	p, err := policy.Parse("a.yaml", []byte(anyServer+
		"  - {name: a, key: everybody, limit: 100/s, cost: ["+
		"{match: POST /login, units: 10}, {match: /public/, units: 0}]}\n"), policy.Names[request]{})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range elsewhere {
		r := httptest.NewRequest("POST", "/", nil)
		if r.URL, err = url.ParseRequestURI(target); err != nil {
			t.Fatal(err)
		}
		if cost := p.Rules()[0].Cost(r); cost != 10 {
			t.Errorf("%s costs %d, want 10", target, cost)
		}
	}
	r := httptest.NewRequest("POST", "/public/..;/private", nil)
	if cost := p.Rules()[0].Cost(r); cost != 1 {
		t.Errorf("%s costs %d, want 1", r.URL, cost)
	}
}

func TestWhereCaseIsReadAnywayNothingIsAllocated(t *testing.T) {
	p, err := policy.Parse("a.yaml", []byte(anyServer+
		"  - {name: a, key: everybody, limit: 1/s, match: POST /api/login}\n"), policy.Names[request]{})
	if err != nil {
		t.Fatal(err)
	}
	key := p.Rules()[0].Key
	for _, target := range []string{"/api/login", "/API/LOGIN", "/other", "//api/x/../Login"} {
		r := httptest.NewRequest(http.MethodPost, target, nil)
		if n := testing.AllocsPerRun(100, func() { key(r) }); n > 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
	}
}
