package parity

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// The log says why a rule cannot decide, although the program sets no logger.

// lines is the output of slog.Default.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// logOf returns the output of slog.Default until the end of the test.
func logOf(t *testing.T) *lines {
	l, before := new(lines), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(l, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return l
}

// want waits for the first line. It checks that the line has the reason, and that no line has an
// address.
func (l *lines) want(t *testing.T) {
	t.Helper()
	const first = `level=WARN msg="weir: a rule cannot decide" rule=per-client failed=key ` +
		`requests=1 ` +
		`error="keyfuncs: cannot tell who sent the request: a hop of the forwarding header is not an ` +
		`IP address" effect="requests are unavailable (503)"`
	deadline := time.Now().Add(30 * time.Second) // reached only if no line comes
	for ; ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		switch {
		case strings.Contains(text, first):
			if strings.Contains(text, "203.0.113") || strings.Contains(text, "127.0.0.1") {
				t.Errorf("an address is logged: %s", text)
			}
			return
		case time.Now().After(deadline):
			t.Fatalf("logged %q, want %s", text, first)
		}
	}
}

// behindProxies returns a limiter by client address that trusts every address as a proxy.
func behindProxies[R any](
	lift func(func(*http.Request) (string, error)) func(R) (string, error)) *Config[R] {
	source := keyfuncs.MustTrustedProxies("127.0.0.1", "::1")
	return &Config[R]{Config: core.Config[R]{
		Rules: []core.Rule[R]{{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(1)),
			Key: lift(keyfuncs.Address(source))}},
		Backend: newLedger(),
	}}
}

func testUndecided[R any](t *testing.T, a Adapter[R]) {
	log := logOf(t)
	server := httptest.NewServer(a.Serve(t, App[R]{Site: behindProxies[R](a.Lift)}))
	defer server.Close()
	for range 20 {
		r, err := http.NewRequest("GET", server.URL+"/hello", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", "203.0.113.7, unknown")
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		wantStatus(t, response, http.StatusServiceUnavailable)
	}
	log.want(t)
}

func testCallUndecided[R any](t *testing.T, a Caller[R]) {
	log := logOf(t)
	client := a.Open(t, CallApp[R]{Site: behindProxies[R](a.Lift)})
	fields := http.Header{"X-Forwarded-For": {"203.0.113.7, unknown"}}
	for i := range 10 {
		wantAnswer(t, client.Call(t.Context(), firstService, fields, fmt.Sprint(i)), CodeUnavailable)
		stream := client.Stream(t.Context(), "Down", fields)
		stream.CloseSend()
		wantAnswer(t, drain(stream), CodeUnavailable)
	}
	log.want(t)
}
