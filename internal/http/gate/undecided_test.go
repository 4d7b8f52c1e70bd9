package gate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// logged has the lines of a logger, without time.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// wants fails unless these lines have been written since the last call, once all goroutines are idle.
func (l *logged) wants(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	for _, line := range want {
		level, rest, _ := strings.Cut(line, " ")
		fmt.Fprintf(&text, "level=%s msg=\"weir: a rule cannot decide\" %s\n", level, rest)
	}
	if l.text.String() != text.String() {
		t.Errorf("logged\n%swant\n%s", l.text.String(), text.String())
	}
	l.text.Reset()
}

type request = *http.Request

// gateOf returns a gate with rules, and its log.
func gateOf(t *testing.T, config core.Config[request]) (*gate.Gate[request], *logged) {
	t.Helper()
	log := new(logged)
	config.MaxWaiting = 1
	g, err := gate.New(gate.Config[request]{
		Config: config, Framework: gate.Framework[request]{Context: request.Context}, Logger: log.logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, log
}

// serve serves a request from a proxy, with lines of X-Forwarded-For, and returns the status.
func serve(g *gate.Gate[request], lines ...string) int {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:80"
	r.Header["X-Forwarded-For"] = lines
	w := httptest.NewRecorder()
	g.Serve(w, r, r, func(w http.ResponseWriter, _ request) error { return nil })
	return w.Code
}

func perAddress(name string) core.Rule[request] {
	return core.Rule[request]{Name: name, Limit: limits.FixedWindow(limits.PerMinute(1000)),
		Key: keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8"))}
}

func TestWhyNobodyCouldDecideIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log := gateOf(t, core.Config[request]{Rules: []core.Rule[request]{perAddress("a")}})
		const missing = `error="keyfuncs: cannot tell who sent the request: the forwarding header is missing" ` +
			`effect="requests are unavailable (503)"`
		for range 60 {
			if status := serve(g); status != 503 {
				t.Fatal(status)
			}
		}
		log.wants(t, "WARN rule=a failed=key requests=1 "+missing)
		time.Sleep(59 * time.Second)
		log.wants(t)
		time.Sleep(time.Second)
		log.wants(t, "WARN rule=a failed=key requests=59 "+missing)

		serve(g, "203.0.113.7, unknown") // another cause has a line of its own
		serve(g)
		log.wants(t, `WARN rule=a failed=key requests=1 error="keyfuncs: cannot tell who sent the request: a hop of the `+
			`forwarding header is not an IP address" effect="requests are unavailable (503)"`)
		time.Sleep(time.Minute)
		log.wants(t, "WARN rule=a failed=key requests=1 "+missing)
		time.Sleep(time.Hour)
		log.wants(t)
		serve(g, "203.0.113.7")
		log.wants(t)
		serve(g) // after a minute without one, the first is logged at once again
		log.wants(t, "WARN rule=a failed=key requests=1 "+missing)
	})
}

func TestEachRuleSaysWhatFailedAndWhatFollows(t *testing.T) {
	secret := "203.0.113.7"
	broken := fmt.Errorf("%s is unknown: %w", secret, errors.New(secret))
	fails := func(change func(*core.Rule[request])) []core.Rule[request] {
		rule := core.Rule[request]{Name: "a", Limit: limits.FixedWindow(limits.PerMinute(1000)),
			Key: func(request) (string, error) { return "k", nil }}
		change(&rule)
		return []core.Rule[request]{rule}
	}
	key := func(f func(request) (string, error)) []core.Rule[request] {
		return fails(func(rule *core.Rule[request]) { rule.Key = f })
	}
	const unavailable = ` effect="requests are unavailable (503)"`
	const hidden = `: its text may have a key: read Err of the Outcome"`
	down := func(policy core.FailurePolicy) []core.Rule[request] {
		return fails(func(rule *core.Rule[request]) { rule.OnFailure = policy })
	}
	for name, c := range map[string]struct {
		rules []core.Rule[request]
		want  string
	}{
		"an error of the program": {key(func(request) (string, error) { return "", broken }),
			`WARN rule=a failed=key requests=1 error="a *errors.errorString` + hidden + unavailable},
		"one that says what to log": {
			key(func(request) (string, error) { return "", fmt.Errorf("%s: %w", secret, tells{secret}) }),
			`WARN rule=a failed=key requests=1 error="the tenant is unknown"` + unavailable},
		"one that wraps ErrUnidentified": {
			key(func(request) (string, error) { return "", fmt.Errorf("%w: %s", keyfuncs.ErrUnidentified, secret) }),
			`WARN rule=a failed=key requests=1 error="keyfuncs: cannot tell who sent the request"` + unavailable},
		"a panic": {key(func(request) (string, error) { panic(secret) }),
			`WARN rule=a failed=key requests=1 error="panic with a string` + hidden + unavailable},
		"a panic of the runtime": {key(func(r request) (string, error) { return r.Header["X"][3], nil }),
			`WARN rule=a failed=key requests=1 error="panic: runtime error: index out of range [3] with length 0"` +
				unavailable},
		"a cost below 0": {fails(func(rule *core.Rule[request]) { rule.Cost = func(request) int64 { return -1 } }),
			`WARN rule=a failed=cost requests=1 error="must not be negative (got -1)"` + unavailable},
		"a panic of Cost": {
			fails(func(rule *core.Rule[request]) { rule.Cost = func(request) int64 { panic(broken) } }),
			`WARN rule=a failed=cost requests=1 error="panic with a *fmt.wrapError` + hidden + unavailable},
		"a limit that is not legal": {fails(func(rule *core.Rule[request]) {
			rule.Limit, rule.LimitFor = limits.Limit{}, func(request, string) (limits.Limit, error) {
				return limits.Limit{}, nil
			}
		}), ""},
		"no limit": {fails(func(rule *core.Rule[request]) {
			rule.Limit, rule.LimitFor = limits.Limit{}, func(request, string) (limits.Limit, error) {
				return limits.Limit{}, broken
			}
		}),
			`WARN rule=a failed=limit requests=1 error="a *errors.errorString` + hidden + unavailable},
		"open": {fails(func(rule *core.Rule[request]) {
			rule.Cost, rule.OnFailure = func(request) int64 { return -1 }, core.FailOpen
		}), `WARN rule=a failed=cost requests=1 error="must not be negative (got -1)" effect="requests are allowed and not ` +
			`counted"`},
		"a shadow": {
			fails(func(rule *core.Rule[request]) { rule.Cost, rule.Mode = func(request) int64 { return -1 }, core.Shadow }),
			`INFO rule=a failed=cost requests=1 error="must not be negative (got -1)" effect="none: the rule is a shadow"`},
		"the backend fails: closed": {down(core.FailClosed),
			`WARN rule=a failed=backend requests=1 error="no connection" effect="requests are unavailable (503)"`},
		"the backend fails: open": {down(core.FailOpen),
			`WARN rule=a failed=backend requests=1 error="no connection" effect="requests are allowed and not counted"`},
		"the backend fails: fallback": {down(core.FallBack),
			`INFO rule=a failed=backend requests=1 error="no connection" effect="the fallback decides"`},
		"of several, one fails closed": {[]core.Rule[request]{
			{Name: "open", Limit: limits.FixedWindow(limits.PerMinute(1)), Key: keyfuncs.Path, OnFailure: core.FailOpen},
			{Name: "closed", Limit: limits.FixedWindow(limits.PerMinute(1)), Key: keyfuncs.Path, OnFailure: core.FailClosed},
		}, `WARN rule=closed failed=backend requests=1 error="no connection" effect="requests are unavailable (503)"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := core.Config[request]{Rules: c.rules}
				if strings.HasPrefix(name, "the backend") || strings.HasPrefix(name, "of several") {
					config.Backend = lost{}
				}
				g, log := gateOf(t, config)
				serve(g)
				synctest.Wait()
				if strings.Contains(log.text.String(), secret) {
					t.Errorf("a key is logged: %s", log.text.String())
				}
				if c.want == "" { // the texts of package limits are their own business
					if got := log.text.String(); !strings.Contains(got, "rule=a failed=limit requests=1") ||
						strings.Contains(got, "its text may") {
						t.Errorf("logged %s", got)
					}
					return
				}
				log.wants(t, c.want)
			})
		})
	}
}

// tells is an error that says what to log of it.
type tells struct{ secret string }

func (e tells) Error() string        { return "tenant " + e.secret + " is unknown" }
func (e tells) LogValue() slog.Value { return slog.StringValue("the tenant is unknown") }

// lost is a backend that cannot be reached.
type lost struct{}

func (lost) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.New("no connection")
}

func TestAFullQueueIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log := gateOf(t, core.Config[request]{Rules: []core.Rule[request]{
			{Name: "other", Limit: limits.FixedWindow(limits.PerMinute(1000)), Key: keyfuncs.Path},
			{Name: "queue", Limit: limits.LeakyQueue(limits.PerMinute(1), 10), Key: keyfuncs.Path},
		}})
		serve(g)
		go serve(g) // waits
		synctest.Wait()
		log.wants(t)
		if status := serve(g); status != 503 {
			t.Fatal(status)
		}
		log.wants(t, `WARN rule=queue failed=queue requests=1 error="core: the queue is full" effect="requests are `+
			`unavailable (503)"`)
		time.Sleep(time.Hour)
	})
}

// Decide leaves the answer to its caller, and Explain takes nothing.
func TestWhatIsDecidedForHandlersIsLoggedAndWhatIsExplainedIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log := gateOf(t, core.Config[request]{Rules: []core.Rule[request]{perAddress("a")}})
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.1:80"
		g.Explain(r)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		g.Decide(r.WithContext(ended)) // its client has left
		log.wants(t)
		g.Decide(r)
		log.wants(t, `WARN rule=a failed=key requests=1 error="keyfuncs: cannot tell who sent the request: the forwarding `+
			`header is missing" effect="requests are unavailable (503)"`)
	})
}

// blocks is a handler that blocks once, and then panics.
type blocks struct {
	slog.Handler
	lines chan struct{}
	until chan struct{}
}

func (h blocks) Handle(context.Context, slog.Record) error {
	h.lines <- struct{}{}
	<-h.until
	panic("boom")
}

func TestALoggerThatBlocksOrPanicsHoldsUpNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := blocks{slog.DiscardHandler, make(chan struct{}, 100), make(chan struct{})}
		g, err := gate.New(gate.Config[request]{Config: core.Config[request]{Rules: []core.Rule[request]{perAddress("a")}},
			Logger: slog.New(enabled{h})})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 10 { // with minutes in which there is nothing to tell
			serve(g)
			time.Sleep(130 * time.Second)
		}
		if len(h.lines) != 1 || time.Since(start) != 1300*time.Second {
			t.Errorf("%d lines after %v", len(h.lines), time.Since(start))
		}
		close(h.until)
		time.Sleep(time.Hour)
		if len(h.lines) != 2 { // those of meanwhile
			t.Errorf("%d lines", len(h.lines))
		}
	})
}

type enabled struct{ blocks }

func (enabled) Enabled(context.Context, slog.Level) bool { return true }

func TestWithoutALoggerThatOfSlogLogs(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		g, err := gate.New(gate.Config[request]{Config: core.Config[request]{Rules: []core.Rule[request]{perAddress("a")}}})
		if err != nil {
			t.Fatal(err)
		}
		log := new(logged)
		slog.SetDefault(log.logger()) // after New: the default at that time logs
		serve(g)
		log.wants(t, `WARN rule=a failed=key requests=1 error="keyfuncs: cannot tell who sent the request: the forwarding `+
			`header is missing" effect="requests are unavailable (503)"`)
	})
}
