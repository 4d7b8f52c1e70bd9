package parity

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// table is a transcript. For each scenario it has the requests with the expected answers. Then it
// has the remaining units of every key, in the order of their first charges.
//
//	# name of the scenario
//	after 30s              the clock moves on before the next request
//	> GET /hello           a request and its fields
//	< 200                  its answer: status, fields except Date, content
//	= per-client: 1 of 2   the remaining units
//
// A scenario may begin with a line of what it needs of a server: "needs " and a [Need].
//
//go:embed table.txt
var table string

// Run runs every scenario of the table and every test of behaviour.
func Run[R any](t *testing.T, a Adapter[R]) {
	a.checkLacks(t)
	t.Run("table", func(t *testing.T) { runTable(t, a) })
	t.Run("behaviour", func(t *testing.T) { runBehaviour(t, a) })
}

func runTable[R any](t *testing.T, a Adapter[R]) {
	runScenarios(t, table, scenarios(a), func(t *testing.T, app App[R], want string) {
		if needs, rest, ok := strings.Cut(want, "\n"); ok && strings.HasPrefix(needs, "needs ") {
			a.skipWithout(t, Need(strings.TrimPrefix(needs, "needs ")))
			want = rest
		}
		same(t, want, transcript(t, a, app, want))
	})
}

// runScenarios runs the scenarios of a table, each with its application and what the table says.
func runScenarios[A any](
	t *testing.T, table string, apps map[string]A, run func(t *testing.T, app A, want string),
) {
	sections := strings.Split(table, "\n# ")[1:]
	if len(sections) != len(apps) {
		t.Errorf("%d scenarios in the table, %d applications", len(sections), len(apps))
	}
	for _, section := range sections {
		name, want, _ := strings.Cut(section, "\n")
		t.Run(name, func(t *testing.T) {
			app, ok := apps[name]
			if !ok {
				t.Fatal("there is no application of this name")
			}
			run(t, app, want)
		})
	}
}

// same reports how a transcript differs from the table.
func same(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// transcript sends the requests in want to app and returns the transcript.
func transcript[R any](t *testing.T, a Adapter[R], app App[R], want string) string {
	t.Helper()
	ledger := newLedger()
	for _, c := range []*Config[R]{app.Site, app.Group, app.Route} {
		if c == nil {
			continue
		}
		if c.Fallback = ledger; c.Backend == nil {
			c.Backend = ledger
		}
	}
	handler := withDeadline(a.Serve(t, app))
	server := httptest.NewServer(handler)
	defer server.Close()
	server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	var b strings.Builder
	lines := strings.Split(want, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if after, ok := strings.CutPrefix(line, "after "); ok {
			d, err := time.ParseDuration(after)
			if err != nil {
				t.Fatal(err)
			}
			ledger.advance(d)
			fmt.Fprintf(&b, "\n%s\n", line)
		}
		if !strings.HasPrefix(line, "> ") {
			continue
		}
		first := i
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "> ") {
			i++
		}
		ask(t, &b, server, lines[first:i+1])
	}
	ledger.write(&b)
	return b.String()
}

// exchange sends r and returns the answer with its body.
func exchange(t *testing.T, server *httptest.Server, r *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// ask sends a request and writes its answer to b.
func ask(t *testing.T, b *strings.Builder, server *httptest.Server, lines []string) {
	t.Helper()
	method, path, _ := strings.Cut(strings.TrimPrefix(lines[0], "> "), " ")
	r, err := http.NewRequest(method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", "parity")
	r.Header.Set("Accept-Encoding", "identity")
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "> "), ": ")
		r.Header.Add(name, value)
	}
	response, body := exchange(t, server, r)
	if b.Len() > 0 {
		fmt.Fprintln(b)
	}
	for _, line := range lines {
		fmt.Fprintln(b, line)
	}
	fmt.Fprintf(b, "< %d\n", response.StatusCode)
	var fields []string
	for name, values := range response.Header {
		for _, value := range values {
			if name != "Date" {
				fields = append(fields, name+": "+value)
			}
		}
	}
	slices.Sort(fields)
	for _, field := range fields {
		fmt.Fprintf(b, "< %s\n", field)
	}
	if len(body) > 0 {
		fmt.Fprintf(b, "< %s\n", strings.TrimSuffix(body, "\n"))
	}
}

// withDeadline gives a request with the field X-Deadline a deadline in the past.
func withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Deadline") != "" {
			ctx, cancel := context.WithDeadline(r.Context(), time.Unix(0, 0))
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// ledger is a Memory with a clock that the test sets. It lists the keys that were charged.
type ledger struct {
	memory *memory.Memory

	mu   sync.Mutex
	now  time.Time
	seen []backends.Charge
}

func newLedger() *ledger {
	l := &ledger{now: start}
	l.memory = memory.MustNew(memory.Options{MaxKeys: 1000, Clock: func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.now
	}})
	return l
}

func (l *ledger) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

func (l *ledger) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	l.mu.Lock()
	for _, c := range charges {
		if !slices.ContainsFunc(l.seen,
			func(s backends.Charge) bool { return s.Scope == c.Scope && s.Key == c.Key }) {
			l.seen = append(l.seen, backends.Charge{Scope: c.Scope, Key: c.Key, Limit: c.Limit})
		}
	}
	l.mu.Unlock()
	return l.memory.Take(ctx, charges, out)
}

func (l *ledger) Settle(ctx context.Context, endings []backends.Ending,
	out []limits.Settlement) error {
	return l.memory.Settle(ctx, endings, out)
}

func (l *ledger) Supports(limit limits.Limit) bool { return l.memory.Supports(limit) }

// write writes the remaining units of every key to b.
func (l *ledger) write(b *strings.Builder) {
	if b.Len() > 0 {
		fmt.Fprintln(b)
	}
	for _, c := range l.seen {
		var out [1]limits.Decision
		if err := l.memory.Peek(context.Background(), []backends.Charge{c}, out[:]); err != nil {
			fmt.Fprintf(b, "= %v\n", err)
			continue
		}
		fmt.Fprintf(b, "= %s: %d of %d\n", c.Scope, out[0].Remaining, c.Limit.Burst())
	}
}
