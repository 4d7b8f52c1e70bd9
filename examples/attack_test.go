package examples

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// servers returns the names of all programs of this module that serve HTTP.
func servers(t *testing.T) (names []string) {
	t.Helper()
	mains, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, main := range mains {
		name := filepath.Dir(main)
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err != nil && name != "client" {
			names = append(names, name)
		}
	}
	return append(names, systems(t)...)
}

// says reports whether the source of a program contains text.
func says(t *testing.T, program, text string) bool {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(program, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(source), text)
}

// serving starts a program without Redis, with its policy file if it has one.
func serving(t *testing.T, program string, env ...string) string {
	t.Helper()
	policy := filepath.Join(program, "weir.yaml")
	if _, err := os.Stat(policy); err == nil {
		env = append(env, "POLICY="+policy)
	}
	if program == "redis" { // which is for a Redis that may be down
		env = append(env, "REDIS_URL=redis://"+freeAddr(t))
	}
	return start(t, program, env...)
}

// A client chooses what it sends. If a program counts by credentials that it has not given out, each
// request may have a budget of its own.
func TestNoInventedCredentialIsAFreshBudget(t *testing.T) {
	requests := map[string]string{ // of a limit by credential or address; GET / for others
		"chi": "GET /search", "echo": "GET /search", "gin": "GET /search", "uploads": "POST /chat?tokens=100",
		"systems/apigateway": "GET /prod/pets", "systems/discord": "POST /channels/1/messages",
		"systems/github": "GET /repos/ann/weir/issues", "systems/llm": "POST /v1/chat/completions",
		"systems/nginx":     "GET /plain",
		"systems/registry":  "GET /v2/app/manifests/1",
		"systems/stripe":    "GET /v1/customers",
		"systems/telemetry": "POST /v1/traces",
	}
	env := map[string]string{"systems/cloudflare": "BLOCK=ban 100/1m for 10m", "systems/nginx": "PERIOD=10m"}
	without := []string{"shed", "systems/login", "systems/envoy"} // they read no credentials
	for _, program := range servers(t) {
		if slices.Contains(without, program) {
			for _, credential := range []string{`"X-API-Key"`, `"Authorization"`, "keyfuncs.BearerToken"} {
				if says(t, program, credential) {
					t.Errorf("%s reads %s: add what it counts to the table", program, credential)
				}
			}
			continue
		}
		t.Run(program, func(t *testing.T) {
			url := serving(t, program, env[program])
			method, path := "GET", "/"
			if request := requests[program]; request != "" {
				method, path, _ = strings.Cut(request, " ")
			}
			for i := range 500 { // more than a minute allows an address
				key := fmt.Sprint("invented-", i)
				a := send(t, method, url+path, "", "X-API-Key", key, "Authorization", "Bearer "+key)
				switch a.StatusCode {
				case http.StatusOK:
				case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusUnauthorized,
					http.StatusForbidden:
					return
				default:
					t.Fatalf("%s %s: %s", method, path, a.Status)
				}
			}
			t.Error("500 requests with a credential each are allowed")
		})
	}
}

// A page of another site can send forms from the browsers of its visitors: they would be banned.
func TestNoOtherSiteLogsIn(t *testing.T) {
	found := 0
	for _, program := range servers(t) {
		if !says(t, program, `/login"`) {
			continue
		}
		found++
		url := serving(t, program)
		form := func(site string) answer {
			return send(t, "POST", url+"/login", "user=ann&password=guess", "Content-Type",
				"application/x-www-form-urlencoded",
				"Sec-Fetch-Site", site)
		}
		for range 30 { // more than any limit of log-ins
			if a := form("cross-site"); a.StatusCode != http.StatusForbidden {
				t.Fatalf("%s: a form of another site: %s", program, a.Status)
			}
		}
		if a := form("same-origin"); a.StatusCode != http.StatusOK && a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: a form of its own, after others have sent 30: %s", program, a.Status)
		}
	}
	if found < 6 {
		t.Errorf("found %d programs with a log-in", found)
	}
}

// How often a name has failed says whether it exists, and that another client guesses.
func TestAnAnswerToALogInSaysNothingOfTheName(t *testing.T) {
	found := 0
	for _, program := range servers(t) {
		if !says(t, program, `PostFormValue("user")`) {
			continue
		}
		found++
		url := serving(t, program)
		logIn(t, url, "ann", "guess").want(t, http.StatusUnauthorized)
		for _, name := range []string{"ann", "nobody"} {
			a := logIn(t, url, name, "guess").want(t, http.StatusUnauthorized)
			for field := range a.Header {
				if strings.Contains(strings.ToLower(field), "ratelimit") {
					t.Errorf("%s shows %s to whoever types %s", program, field, name)
				}
			}
		}
	}
	if found < 2 {
		t.Errorf("found %d programs that count log-ins by name", found)
	}
}

// DNS rebinding: a page in an operator's browser asks by a name of its own, which leads here.
func TestOperatorsAreAnsweredUnderNoOtherName(t *testing.T) {
	requests := map[string]string{
		"systems/envoy": "GET /stats", "systems/stripe": "POST /modes?name=fleet&mode=enforce",
	}
	for _, program := range servers(t) {
		if !says(t, program, `"ADMIN"`) {
			continue
		}
		request, ok := requests[program]
		if !ok {
			t.Errorf("%s has pages for operators: add one to the table", program)
			continue
		}
		admin := freeAddr(t)
		serving(t, program, "ADMIN="+admin)
		method, path, _ := strings.Cut(request, " ")
		for host, want := range map[string]int{
			"rebound.example": http.StatusMisdirectedRequest, "rebound.example:8081": http.StatusMisdirectedRequest,
			"127.0.0.1.rebound.example": http.StatusMisdirectedRequest,
			"localhost:8081":            http.StatusOK, "127.0.0.1": http.StatusOK, "[::1]:8081": http.StatusOK,
		} {
			r, err := http.NewRequest(method, "http://"+admin+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			r.Header.Set("Origin", "http://"+host) // of the page that asks
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if response.Body.Close(); response.StatusCode != want {
				t.Errorf("%s, %s of %s: %s, want %d", program, request, host, response.Status, want)
			}
		}
	}
}

// Without ReadTimeout, a client that never sends the rest of a body holds a goroutine, and what the
// request has taken, for ever: a hundred of them filled the fleet of Stripe. Without WriteTimeout, so
// does one that reads no answers.
func TestNoServerWaitsForAClientForEver(t *testing.T) {
	testrun.FullOnly(t, "waits for twenty seconds, and ninety where work may take as long")
	var all sync.WaitGroup
	for _, program := range servers(t) {
		url := serving(t, program)
		dial := func() net.Conn {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			conn.SetDeadline(time.Now().Add(3 * time.Minute))
			return conn
		}
		sends, reads := dial(), dial()
		fmt.Fprint(sends, "POST /login HTTP/1.1\r\nHost: localhost\r\n",
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nuser=")
		all.Go(func() {
			if _, err := io.Copy(io.Discard, sends); os.IsTimeout(err) {
				t.Errorf("%s still waits for the rest of the body", program)
			}
		})
		all.Go(func() { // it answers until nothing more fits between it and the client
			for {
				if _, err := io.WriteString(reads, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
					if os.IsTimeout(err) {
						t.Errorf("%s still waits for a client that does not read", program)
					}
					return
				}
			}
		})
	}
	all.Wait()
}
