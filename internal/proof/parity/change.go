package parity

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// runChanges tests rules that change while requests are in flight.
func runChanges[R any](t *testing.T, a Adapter[R]) {
	for _, b := range []struct {
		name string
		test func(*testing.T, Adapter[R])
	}{
		{"replacements under load lose and mix nothing", testReplacedUnderLoad[R]},
		{"what is used stays used", testCarriedOver[R]},
		{"a replacement with a mistake changes nothing", testMistake[R]},
		{"a request in the queue goes on as it began", testReplacedInQueue[R]},
		{"a request under way ends as it began", testReplacedUnderWay[R]},
		{"a rule is hidden and shown again", testHidden[R]},
		{"a request in the queue shows what its rules showed", testHiddenInQueue[R]},
		{"an override comes and goes", testOverride[R]},
		{"an explanation takes nothing", testExplain[R]},
		{"a key that is reset is fresh", testResetKey[R]},
		{"a shadow changes no answer", testShadows[R]},
		{"a shadow changes no answer when the backend fails", testShadowsWithoutBackend[R]},
		{"a shadow does not delay", testShadowQueue[R]},
		{"the modes in the context", testModes[R]},
		{"the field for shadows", testShadowField[R]},
		{"the field for shadows is written once", testShadowFieldOnce[R]},
	} {
		t.Run(b.name, func(t *testing.T) { b.test(t, a) })
	}
}

// daily returns a rule of n requests a day, with one key for all.
func daily[R any](name string, n int64) core.Rule[R] {
	return core.Rule[R]{Name: name, Limit: limits.FixedWindow(limits.PerDay(n)),
		Key: keyfuncs.Constant[R]("everybody")}
}

// changing returns a configuration with rules, and a pointer to the limiter that the adapter will
// make of it.
func changing[R any](rules ...core.Rule[R]) (*Config[R], *Limiter[R]) {
	made := new(Limiter[R])
	return &Config[R]{Config: core.Config[R]{Rules: rules},
		Made: func(l Limiter[R]) { *made = l }}, made
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reply is an answer and its content.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends GET path to an application without a connection.
func send(t *testing.T, app http.Handler, path string) reply {
	t.Helper()
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	return reply{w.Code, w.Header(), w.Body.String()}
}

func testCarriedOver[R any](t *testing.T, a Adapter[R]) {
	limit, made := changing(daily[R]("wide", 9), daily[R]("narrow", 2))
	app := a.Serve(t, App[R]{Site: limit})
	send(t, app, "/hello")
	send(t, app, "/hello")
	must(t, (*made).Replace([]core.Rule[R]{daily[R]("narrow", 3), daily[R]("new", 5)}))
	third := send(t, app, "/hello")
	if got := third.header["Ratelimit"]; third.status != http.StatusOK || len(got) != 1 ||
		!strings.HasPrefix(got[0], `"narrow";r=0;t=`) || !strings.Contains(got[0], `"new";r=4;t=`) {
		t.Errorf("%d, RateLimit %q", third.status, got)
	}
	if got := third.header.Get("RateLimit-Policy"); got != `"narrow";q=3;w=86400, "new";q=5;w=86400` {
		t.Errorf("RateLimit-Policy %s", got)
	}
	if fourth := send(t, app, "/hello"); fourth.status != http.StatusTooManyRequests ||
		!strings.Contains(fourth.body, `"violated-policies":["narrow"]`) {
		t.Errorf("%d: %s", fourth.status, fourth.body)
	}
	disabled := daily[R]("narrow", 3)
	disabled.Mode = core.Disabled
	must(t, (*made).Replace([]core.Rule[R]{disabled}))
	if free := send(t, app, "/hello"); free.status != http.StatusOK ||
		free.header.Get("RateLimit") != "" || free.header.Get("RateLimit-Policy") != "" {
		t.Errorf("without a rule: %d, fields %v", free.status, free.header)
	}
}

// testHidden hides a rule that has counted. It goes on counting, and no answer tells of it.
func testHidden[R any](t *testing.T, a Adapter[R]) {
	shared, own := daily[R]("shared", 2), daily[R]("own", 9)
	hidden := shared
	hidden.Hidden = true
	limit, made := changing(shared, own)
	app := a.Serve(t, App[R]{Site: limit})
	want := func(got reply, status int, fields, names string) {
		t.Helper()
		policy, told := got.header.Get("RateLimit-Policy"), fmt.Sprint(got.header, got.body)
		if got.status != status || policy != fields || (got.header.Get("RateLimit") == "") != (fields == "") ||
			(got.header.Get("Retry-After") == "") != (status == http.StatusOK) ||
			strings.Contains(told, "shared") != strings.Contains(fields, "shared") ||
			strings.Contains(got.body, "violated-policies") != (names != "") || !strings.Contains(got.body, names) {
			t.Errorf("%d, want %d by %s: %s", got.status, status, fields, told)
		}
	}
	const both, alone = `"shared";q=2;w=86400, "own";q=9;w=86400`, `"own";q=9;w=86400`
	want(send(t, app, "/hello"), http.StatusOK, both, "")
	must(t, (*made).Replace([]core.Rule[R]{hidden, own}))
	if rules := (*made).State().Rules; !rules[0].Hidden || rules[1].Hidden {
		t.Errorf("Rules: %+v", rules)
	}
	want(send(t, app, "/hello"), http.StatusOK, alone, "")
	want(send(t, app, "/hello"), http.StatusTooManyRequests, alone, "")
	must(t, (*made).Replace([]core.Rule[R]{hidden}))
	want(send(t, app, "/hello"), http.StatusTooManyRequests, "", "")
	must(t, (*made).Replace([]core.Rule[R]{shared, own}))
	want(send(t, app, "/hello"), http.StatusTooManyRequests, both, `["shared"]`)
}

func testMistake[R any](t *testing.T, a Adapter[R]) {
	limit, made := changing(daily[R]("shared", 2), daily[R]("other", 9))
	limit.Headers = headers.Options{
		Formats:       []headers.Format{headers.IETF, headers.Discord},
		DiscordScopes: map[string]headers.DiscordScope{"shared": headers.DiscordShared},
	}
	app := a.Serve(t, App[R]{Site: limit})
	if err := (*made).Replace([]core.Rule[R]{daily[R]("new", 5)}); err == nil || !strings.Contains(err.Error(), `discord scopes: there is no rule "shared"`) {
		t.Errorf("a rule is gone that the header options name: %v", err)
	}
	err := (*made).Replace([]core.Rule[R]{daily[R]("new", 0)})
	if err == nil || !strings.Contains(err.Error(), `discord scopes: there is no rule "shared"`) || !strings.Contains(err.Error(), `rule "new": limit`) {
		t.Errorf("two mistakes: %v", err)
	} else if n := strings.Count(err.Error(), "discord scopes"); n != 1 {
		t.Errorf("a mistake is reported %d times: %v", n, err)
	}
	if err := (*made).Replace(nil); err == nil {
		t.Error("no rules are no mistake")
	}
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := send(t, app, "/hello"); got.status != want ||
			!strings.Contains(got.header.Get("RateLimit-Policy"), `"shared";q=2`) {
			t.Errorf("request %d: %d, fields %v", i, got.status, got.header)
		}
	}
	if rules := (*made).State().Rules; len(rules) != 2 || rules[0].Name != "shared" {
		t.Errorf("Rules: %+v", rules)
	}
}

func testOverride[R any](t *testing.T, a Adapter[R]) {
	synctest.Test(t, func(t *testing.T) {
		limit, made := changing(daily[R]("a", 1))
		app := a.Serve(t, App[R]{Site: limit})
		send(t, app, "/hello")
		until := time.Now().Add(time.Minute)
		must(t, (*made).Override("a",
			core.Override{Limit: limits.FixedWindow(limits.PerDay(3)), Until: until, Why: "a launch"}))
		if got := send(t, app, "/hello"); got.status != http.StatusOK ||
			!strings.HasPrefix(got.header.Get("RateLimit-Policy"), `"a";q=3;`) {
			t.Errorf("under the override: %d, fields %v", got.status, got.header)
		}
		if state := (*made).State().Rules[0]; state.Override.Why != "a launch" ||
			state.Limit != limits.FixedWindow(limits.PerDay(3)) {
			t.Errorf("Rules: %+v", state)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := send(t, app, "/hello"); got.status != http.StatusTooManyRequests ||
			!strings.HasPrefix(got.header.Get("RateLimit-Policy"), `"a";q=1;`) {
			t.Errorf("after the override: %d, fields %v", got.status, got.header)
		}
		shadow := core.Shadow
		must(t, (*made).Override("a", core.Override{Mode: &shadow, Until: time.Now().Add(time.Minute)}))
		if got := send(t, app, "/hello"); got.status != http.StatusOK ||
			got.header.Get("RateLimit") != "" || got.header.Get("RateLimit-Policy") != "" {
			t.Errorf("as a shadow: %d, fields %v", got.status, got.header)
		}
		must(t, (*made).Override("a", core.Override{}))
		if got := send(t, app, "/hello"); got.status != http.StatusTooManyRequests {
			t.Errorf("after the override is cleared: %d", got.status)
		}
		must(t, (*made).OverrideKey("a", "everybody",
			core.Override{Limit: limits.FixedWindow(limits.PerDay(9)), Until: time.Now().Add(time.Minute)}))
		if got := send(t, app, "/hello"); got.status != http.StatusOK ||
			!strings.HasPrefix(got.header.Get("RateLimit-Policy"), `"a";q=9;`) || len((*made).KeyOverrides("a")) != 1 {
			t.Errorf("under the override of its key: %d, fields %v", got.status, got.header)
		}
		must(t, (*made).OverrideKey("a", "everybody", core.Override{}))
		if got := send(t, app, "/hello"); got.status != http.StatusTooManyRequests || len((*made).KeyOverrides("a")) != 0 {
			t.Errorf("after the override of its key: %d", got.status)
		}
		if err := (*made).Override("none",
			core.Override{Mode: &shadow, Until: time.Now().Add(time.Minute)}); err == nil {
			t.Error("a rule is overridden that there is not")
		}
	})
}

// testExplain explains every request that is decided.
func testExplain[R any](t *testing.T, a Adapter[R]) {
	limit, made := changing(daily[R]("a", 2))
	decisions := 0
	limit.Observer = core.ObserverFuncs[R]{
		OnDecision: func(ctx context.Context, request R, decided core.Outcome) {
			decisions++
			left := int64(2 - min(decisions, 2))
			for range 3 {
				o := (*made).Explain(request)
				if o.Allowed() != (left > 0) || o.Len() != 1 || o.At(0).Remaining != left ||
					o.At(0).Rule() != "a" {
					t.Errorf("after %d requests: %v, %d left", decisions, o.Verdict(), o.At(0).Remaining)
				}
			}
			if d, err := (*made).ExplainKey(ctx, "a", decided.At(0).Key, limits.Limit{}); err != nil ||
				d.Remaining != left {
				t.Errorf("the key after %d requests: %d left, %v", decisions, d.Remaining, err)
			}
		}, Next: limit.Observer}
	app := a.Serve(t, App[R]{Site: limit})
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := send(t, app, "/hello"); got.status != want {
			t.Errorf("%d, want %d", got.status, want)
		}
	}
	if decisions != 3 {
		t.Errorf("OnDecision was called %d times, want 3: an explanation is no request", decisions)
	}
	if _, err := (*made).ExplainKey(t.Context(), "none", "everybody", limits.Limit{}); err == nil {
		t.Error("a rule is explained that there is not")
	}
}
