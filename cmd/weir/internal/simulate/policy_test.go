package simulate_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/internal/proof/testrun"
)

func policyFile(t testing.TB, text string) *simulate.Policy {
	t.Helper()
	p, err := simulate.ReadPolicy(write(t, "weir.yaml", []byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rules returns what the rules of a side deny, as text, and why rules are not simulated.
func rules(side *simulate.Side) (denied, skipped string) {
	for _, r := range side.Rules {
		denied += fmt.Sprintf("%s %d/%d", r.Name, r.Denied.High, r.Asked)
		if r.Shadowed.High > 0 {
			denied += fmt.Sprintf(" (%d)", r.Shadowed.High)
		}
		denied += "; "
	}
	for _, s := range side.Skipped {
		skipped += s.Rule + ": " + s.Why + "\n"
	}
	return denied, skipped
}

// combined returns n lines of one client, a second apart.
func combined(n int, request string, status int) string {
	var b strings.Builder
	for i := range n {
		at := time.Date(2026, 11, 20, 12, 0, i, 0, time.UTC)
		fmt.Fprintf(&b, "192.0.2.7 - ann [%s] \"%s HTTP/1.1\" %d 5 \"-\" \"curl/8\"\n",
			at.Format("02/Jan/2006:15:04:05 -0700"), request, status)
	}
	return b.String()
}

func TestWhatALogDoesNotHaveIsNotSimulated(t *testing.T) {
	p := policyFile(t, `
version: 1
program: {keys: [user], plans: [plan], costs: [size]}
client: {trusted-proxies: [192.0.2.0/24]}
lists: {us: [192.0.2.0/24]}
rules:
  - {name: addresses, key: address, limit: fixed-window 3/hour}
  - {name: agents, key: header User-Agent, limit: fixed-window 4/hour}
  - {name: tenants, key: header X-Tenant, limit: 4/hour}
  - {name: tokens, key: bearer, limit: 4/hour}
  - {name: users, key: {first: [user, address]}, limit: 4/hour}
  - {name: plans, key: address, limit: {by: plan, plans: {pro: 5/hour}, default: 1/hour}}
  - {name: sizes, key: address, limit: 5/hour, cost: size}
  - {name: at-once, key: everybody, limit: concurrent 5}
  - {name: routes, route: /a, key: everybody, limit: 5/hour}
  - {name: hosts, match: example.com/, key: everybody, limit: 5/hour}
  - {name: off, key: everybody, limit: 5/hour, mode: disabled}
  - {name: later, key: everybody, limit: fixed-window 1/hour, mode: shadow}
  - {name: others, match: /b, key: everybody, limit: 5/hour}
  - {name: guests, key: everybody, limit: 5/hour, except: list us}
`)
	log := write(t, "access.log", []byte(combined(10, "GET /a", 200)))
	r := do(t, simulate.Options{Logs: []string{log}, Policy: p})
	denied, skipped := rules(&r.Policy)
	if want := "addresses 7/10; agents 0/10; later 0/10 (9); others 0/0; guests 0/0; "; denied != want {
		t.Errorf("denied %s\nwant   %s", denied, want)
	}
	for _, want := range []string{
		"tenants: the log does not have the header X-Tenant: if it is there by another name, say so by --field " +
			"header.X-Tenant=NAME\n",
		"tokens: the log does not have the header Authorization:",
		"users: the log does not have the key user: if it is there by another name, say so by --field key.user=NAME\n",
		"plans: the log does not have the plan plan:", "sizes: the log does not have the cost size:",
		"at-once: a concurrency limit needs the duration of requests", "routes: the log does not have the route",
		"hosts: a pattern of it has a host", "off: it is disabled",
	} {
		if !strings.Contains(skipped, want) {
			t.Errorf("got  %swant %s", skipped, want)
		}
	}
	// The same log, with the user by its name.
	byName := accesslog.Options{Fields: map[string]string{"key.user": "user"}}
	r = do(t, simulate.Options{Logs: []string{log}, Policy: p, Log: byName, ShowKeys: true})
	found := false
	for _, rule := range r.Policy.Rules {
		found = found || rule.Name == "users" && rule.Top[0].Key == "user:ann"
	}
	if !found {
		t.Errorf("users is not simulated: %+v", r.Policy)
	}
	// The same log without users: the report does not ask for the flag that was given.
	log = write(t, "nobody.log", []byte(strings.ReplaceAll(combined(10, "GET /a", 200), " ann ", " - ")))
	r = do(t, simulate.Options{Logs: []string{log}, Policy: p, Log: byName})
	_, skipped = rules(&r.Policy)
	want := "users: the log does not have the key user (the first lines have nothing in the field user)\n"
	if !strings.Contains(skipped, want) {
		t.Errorf("got  %swant %s", skipped, want)
	}
}

func TestFailuresAreCountedByTheStatusInTheLog(t *testing.T) {
	p := policyFile(t, `
version: 1
client: {peer: true}
rules:
  - name: failures
    match: POST /login
    key: address
    limit: fixed-window 3/hour
    final-cost: [{status: 401, units: 1}, {status: [2xx, 3xx, 4xx, 5xx], units: 0}]
`)
	for status, want := range map[int]int64{200: 0, 401: 7} {
		r := do(t, simulate.Options{
			Logs: []string{write(t, "access.log", []byte(combined(10, "POST /login", status)))}, Policy: p,
		})
		if got := r.Policy.Rules[0].Denied; got.High != want || got.Low != want {
			t.Errorf("status %d: denied %v, want %d", status, got, want)
		}
	}
}

// caddy returns a line of Caddy's log: a request that begins at a second and takes so long.
func caddy(start, lasting float64) string {
	return fmt.Sprintf(
		`{"ts":%.6f,"request":{"client_ip":"192.0.2.7","method":"GET","host":"example.com","uri":"/"},"duration":%f,"size":1,"status":200}`+"\n",
		1_763_640_000+start+lasting, lasting)
}

func TestConcurrencyIsSimulatedWhereDurationsAreLogged(t *testing.T) {
	p := policyFile(t, "version: 1\nclient: {peer: true}\nrules:\n"+
		"  - {name: at-once, key: address, limit: concurrent 2}\n")
	// Three overlap from 2 on, so the third is denied. The fourth begins when the first ends.
	log := caddy(0, 5) + caddy(1, 8) + caddy(2, 1) + caddy(5, 1) + caddy(5.5, 1) + caddy(6, 1)
	r := do(t, simulate.Options{Logs: []string{write(t, "access.log", []byte(log))}, Policy: p})
	if got := r.Policy.Rules; len(got) != 1 || got[0].Denied != (simulate.Range{Low: 2, High: 2}) {
		t.Errorf("got %+v, want 2 denials: those at 2 and 5.5", got)
	}
	if r.WholeSeconds {
		t.Error("stamps are finer than a second")
	}
}

func TestTwoPoliciesAreCompared(t *testing.T) {
	log := write(t, "access.log", []byte(combined(10, "GET /a", 200)))
	r := do(t, simulate.Options{
		Logs: []string{log}, Policy: oneLimit(t, "fixed-window 3/hour", "address"),
		Against: oneLimit(t, "fixed-window 8/hour", "everybody"), ShowKeys: true,
	})
	if r.Moved.Denied.High != 5 || r.Moved.Allowed.High != 0 || r.Against.Denied.High != 2 ||
		r.Policy.Denied.High != 7 {
		t.Errorf("got %+v, against %+v", r.Moved, r.Against)
	}
	want := simulate.MovedClient{Client: "192.0.2.7", Asked: 10, Change: simulate.Range{Low: -5, High: -5}}
	if len(r.Moved.Clients) != 1 || r.Moved.Clients[0] != want {
		t.Errorf("got %+v, want %+v", r.Moved.Clients, want)
	}
	for text, want := range map[string]bool{
		"newly-denied > 4": true, "newly-denied > 5": false, "newly-denied >= 50%": true, "newly-allowed > 0": false,
		"denied > 69%": true, "denied < 7": false, "denied(per-address) >= 7": true, "clients >= 100%": true,
		"clients(per-address) > 1": false,
		"wait > 59m":               true, "wait > 2h": false, "unread > 0": false,
	} {
		c, err := simulate.ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		holds, got, err := c.MayHold(r)
		if err != nil || holds != want {
			t.Errorf("%s: got %v (%s), %v", text, holds, c.Got(got, r), err)
		}
	}
}

func TestConditionsThatCannotBeReadSayWhy(t *testing.T) {
	for _, text := range []string{
		"", "denied", "denied = 1", "denied > x", "denied > 1s", "wait > 5", "wait > 5%", "unread(x) > 1",
		"requests > 5", "denied > 1.2.3",
	} {
		if _, err := simulate.ParseCondition(text); err == nil ||
			!strings.Contains(err.Error(), "write a condition such as") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	r := do(t, simulate.Options{
		Logs:   []string{write(t, "access.log", []byte(combined(2, "GET /a", 200)))},
		Policy: oneLimit(t, "3/hour", "address"),
	})
	for text, want := range map[string]string{"denied(x) > 1": "no rule", "newly-denied > 1": "needs --against"} {
		c, err := simulate.ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.MayHold(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestTheSuggestedLimitIsTheLowestThatMeetsTheCondition(t *testing.T) {
	var log bytes.Buffer
	generate(&log, 5000, 200, testrun.Seed(t))
	name := write(t, "access.log", log.Bytes())
	for limit, at := range map[string]string{
		"fixed-window 1/hour": "fixed-window %d/1h", "token-bucket 10/hour burst 5": "token-bucket %d/1h burst %d",
	} {
		c, err := simulate.ParseCondition("denied < 1%")
		if err != nil {
			t.Fatal(err)
		}
		r := do(t, simulate.Options{Logs: []string{name}, Policy: oneLimit(t, limit, "address"), Suggest: c})
		var units, burst int64
		if n, _ := fmt.Sscanf(r.Suggestion.Limit, at, &units, &burst); n == 0 {
			t.Fatalf("%s: got %+v", limit, r.Suggestion)
		}
		with := func(n int64) *simulate.Report {
			text := fmt.Sprintf(at, n)
			if strings.Contains(at, "burst") {
				text = fmt.Sprintf(at, n, max(1, (n+1)/2))
			}
			return do(t, simulate.Options{Logs: []string{name}, Policy: oneLimit(t, text, "address")})
		}
		if got := with(units); got.Policy.Denied.High*100 >= got.Requests || got.Policy.Denied != r.Suggestion.Denied {
			t.Errorf("%s: with %d: denied %v, the suggestion says %v", limit, units, got.Policy.Denied,
				r.Suggestion.Denied)
		}
		if got := with(units - 1); got.Policy.Denied.High*100 < got.Requests {
			t.Errorf("%s: %d would do, too", limit, units-1)
		}
	}
}

func TestALadderHasWhatTheEngineDecidesAtEachRung(t *testing.T) {
	var log bytes.Buffer
	generate(&log, 5000, 50, testrun.Seed(t))
	name := write(t, "access.log", log.Bytes())
	r := do(t, simulate.Options{Logs: []string{name}, Policy: oneLimit(t, "8/hour", "address"), Ladder: true})
	if n := len(r.Policy.Rules[0].Ladder); n != 8 {
		t.Fatalf("%d rungs, want 8", n)
	}
	for _, rung := range r.Policy.Rules[0].Ladder {
		alone := do(t, simulate.Options{Logs: []string{name}, Policy: oneLimit(t, rung.Limit, "address")})
		if alone.Policy.Denied != rung.Denied || alone.Policy.Rules[0].KeysDenied != rung.Keys {
			t.Errorf("%s: the ladder says %v, alone %v", rung.Limit, rung.Denied, alone.Policy.Denied)
		}
	}
}

func TestMoreKeysThanExpectedAreReadAgain(t *testing.T) {
	var log bytes.Buffer
	generate(&log, 20000, 5000, testrun.Seed(t))
	name := write(t, "access.log", log.Bytes())
	options := simulate.Options{Logs: []string{name}, Policy: oneLimit(t, "3/hour", "address")}
	want := do(t, options)
	simulate.SetFewKeys(t, 100)
	passes := 0
	options.Progress = func(pass int, done, total int64) { passes = pass }
	if got := do(t, options); got.Policy.Denied != want.Policy.Denied || got.Requests != want.Requests || passes < 3 {
		t.Errorf("got %v of %d in %d passes, want %v of %d", got.Policy.Denied, got.Requests, passes,
			want.Policy.Denied, want.Requests)
	}
}

func TestPolicyMistakesAreReported(t *testing.T) {
	if _, err := simulate.OneLimit("sixty", "address", "", nil); err == nil ||
		!strings.Contains(err.Error(), "--limit") {
		t.Errorf("got %v", err)
	}
	if _, err := simulate.OneLimit("1/hour", "header", "", []string{"login"}); err == nil ||
		strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v, want two mistakes", err)
	}
	if _, err := simulate.ReadPolicy(write(t, "weir.yaml", []byte("version: 2"))); err == nil {
		t.Error("a file with mistakes is read")
	}
}

func TestAStopEndsASimulation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	name := write(t, "access.log", []byte(combined(10, "GET /a", 200)))
	_, err := simulate.Do(ctx, simulate.Options{Logs: []string{name}, Policy: oneLimit(t, "3/hour", "address")})
	if err != context.Canceled {
		t.Errorf("got %v", err)
	}
	if _, err := simulate.Do(t.Context(),
		simulate.Options{Logs: []string{name + ".missing"},
			Policy: oneLimit(t, "3/hour", "address")}); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}

func TestRungsOfALadderDiffer(t *testing.T) {
	r := do(t, simulate.Options{
		Logs:   []string{write(t, "access.log", []byte(combined(10, "GET /a", 200)))},
		Policy: oneLimit(t, "fixed-window 2/minute", "address"), Ladder: true,
	})
	got := ""
	for _, rung := range r.Policy.Rules[0].Ladder {
		got += fmt.Sprint(rung.Limit, " ")
	}
	if want := "fixed-window 1/1m fixed-window 2/1m fixed-window 3/1m fixed-window 4/1m fixed-window 8/1m " +
		"fixed-window 16/1m "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
