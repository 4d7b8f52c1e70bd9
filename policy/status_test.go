package policy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/policy"
)

func TestAStatusFollowsItsFile(t *testing.T) {
	path := newFile(t, rate(1))
	p, err := policy.Load(path, names)
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		status := p.Status()
		ctx, cancel := context.WithCancel(t.Context())
		go policy.Watch(ctx, p, func([]core.Rule[request]) error { return nil }, policy.Options{
			Status: status, Logger: slog.New(slog.DiscardHandler),
		})
		looks := func(n int) {
			for range n {
				time.Sleep(2 * time.Second)
				synctest.Wait()
			}
		}
		synctest.Wait()
		if status.Source() != path || status.Digest() != p.Digest() || !status.Applied().Equal(begun) ||
			len(status.Differences()) != 0 {
			t.Errorf("at first: %q %q %v %v", status.Source(), status.Digest(), status.Applied(), status.Differences())
		}
		write(t, path, "version: 2\n")
		looks(2)
		since, err := status.Failure()
		if err == nil || since.IsZero() || !strings.Contains(err.Error(), "version") {
			t.Errorf("of a mistake: %v since %v", err, since)
		}
		must(t, os.Remove(path))
		looks(3)
		if still, err := status.Failure(); err == nil || !still.Equal(since) || status.Digest() != p.Digest() {
			t.Errorf("of a file that is gone, too: %v since %v", err, still)
		}
		write(t, path, rate(2))
		looks(2)
		since, err = status.Failure()
		if err != nil || !since.IsZero() || status.Digest() == p.Digest() || !status.Applied().Equal(time.Now()) ||
			len(status.Differences()) != 1 {
			t.Errorf("of another policy: %v, %v, applied %v, %v", err, since, status.Applied(), status.Differences())
		}
		write(t, path, "version: 2\n")
		looks(2)
		write(t, path, rate(2))
		looks(1)
		if _, err := status.Failure(); err != nil {
			t.Errorf("of a mistake that was taken back: %v", err)
		}
		if applied, failed := status.Loads(); applied != 2 || failed != 3 {
			t.Errorf("%d loads were applied and %d failed, want 2 and 3", applied, failed)
		}
		cancel()
		synctest.Wait()
	})
}

const withExceptions = `version: 1
client: {peer: true}
lists:
  offices: [198.51.100.0/24]
rules:
  - name: log-in
    match: [POST /login, POST /oauth]
    except: [list offices, GET /login/health]
    key: address
    limit: 5/minute
  - name: off
    key: everybody
    limit: 5/minute
    mode: disabled
`

func TestAPolicySaysWhyARuleDoesNotApply(t *testing.T) {
	p, err := policy.Parse("weir.yaml", []byte(withExceptions), policy.Names[*http.Request]{})
	must(t, err)
	for _, row := range []struct{ rule, method, path, peer, why string }{
		{"log-in", "POST", "/login", "192.0.2.1:1", ""},
		{"log-in", "GET", "/login", "192.0.2.1:1", "matches none of POST /login, POST /oauth"},
		{"log-in", "POST", "/login", "198.51.100.7:1", "is excepted by list offices"},
		{"log-in", "POST", "/login", "nobody", ""},
		{"off", "GET", "/", "192.0.2.1:1", "the rule is disabled"},
		{"none", "GET", "/", "192.0.2.1:1", ""},
	} {
		r := httptest.NewRequest(row.method, row.path, nil)
		r.RemoteAddr = row.peer
		if why := p.Status().WhyNot(row.rule, r); why != row.why {
			t.Errorf("%s: %s %s by %s: %q, want %q", row.rule, row.method, row.path, row.peer, why, row.why)
		}
	}
	var many strings.Builder
	for i := range 20 {
		fmt.Fprintf(&many, "      - /place-%d\n", i)
	}
	p, err = policy.Parse("weir.yaml",
		[]byte("version: 1\nrules:\n  - name: many\n    match:\n"+many.String()+
			"    key: everybody\n    limit: 5/minute\n"), policy.Names[*http.Request]{})
	must(t, err)
	if why := p.WhyNot("many", httptest.NewRequest("GET", "/", nil)); !strings.HasSuffix(why, "/place-7 and 12 more") {
		t.Errorf("of twenty patterns: %q", why)
	}
}

// A page shows which policy is in force, and why a newer one is not.
func ExamplePolicy_Status() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "weir.yaml")
	os.WriteFile(path, []byte(withExceptions), 0o600)
	p, err := policy.Load(path, policy.Names[*http.Request]{})
	if err != nil {
		fmt.Println(err)
	}
	status := p.Status()
	// go policy.Watch(ctx, p, limit.Replace, policy.Options{Status: status})
	_, failure := status.Failure()
	fmt.Println(filepath.Base(status.Source()), len(status.Digest()), status.Differences(), failure,
		status.Applied().IsZero())
	fmt.Println(status.WhyNot("log-in", httptest.NewRequest("GET", "/", nil)))
	// Output:
	// weir.yaml 64 [] <nil> false
	// matches none of POST /login, POST /oauth
}

func ExamplePolicy_WhyNot() {
	p, err := policy.Parse("weir.yaml", []byte(withExceptions), policy.Names[*http.Request]{})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(p.WhyNot("log-in", httptest.NewRequest("GET", "/login", nil)))
	fmt.Printf("%q\n", p.WhyNot("log-in", httptest.NewRequest("POST", "/login", nil)))
	// Output:
	// matches none of POST /login, POST /oauth
	// ""
}
