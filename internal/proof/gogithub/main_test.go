package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-github/v88/github"
	weirclient "github.com/weir-go/weir/client"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// inBubble runs f in a bubble, in a year whose seconds since 1970 have ten digits.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)))
		f(t)
	})
}

// falseGitHub allows calls as GitHub does, in windows of five minutes.
type falseGitHub struct {
	limit, used int
	ends        time.Time
	denied      int
	tokens      int // that installations have asked for
	lasts       time.Duration
	asked       map[string]bool // credentials of calls
}

const window = 5 * time.Minute

func newFalseGitHub(limit int) *falseGitHub {
	return &falseGitHub{limit: limit, lasts: time.Hour, asked: make(map[string]bool)}
}

func (g *falseGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now, h := time.Now(), w.Header()
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/json; charset=utf-8")
	if strings.HasSuffix(r.URL.Path, "/access_tokens") {
		g.tokens++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token": "ghs_%d", "expires_at": %q}`, g.tokens, now.Add(g.lasts).Format(time.RFC3339))
		return
	}
	g.asked[r.Header.Get("Authorization")] = true
	if !now.Before(g.ends) {
		g.used, g.ends = 0, now.Add(window).Truncate(time.Second)
	}
	h.Set("X-RateLimit-Limit", fmt.Sprint(g.limit))
	h.Set("X-RateLimit-Resource", "core")
	h.Set("X-RateLimit-Reset", fmt.Sprint(g.ends.Unix()))
	if g.used == g.limit {
		g.denied++
		h.Set("X-RateLimit-Remaining", "0")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message": "API rate limit exceeded for user ID 1."}`)
		return
	}
	g.used++
	h.Set("X-RateLimit-Remaining", fmt.Sprint(g.limit-g.used))
	fmt.Fprint(w, `[{"title": "a"}]`)
}

// RoundTrip makes it the transport of a client.
func (g *falseGitHub) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	g.ServeHTTP(recorder, r)
	response := recorder.Result()
	response.Request = r
	return response, nil
}

// call makes calls, and returns how many failed.
func call(ctx context.Context, t *testing.T, client *github.Client, times int) (failed int) {
	t.Helper()
	for range times {
		issues, _, err := client.Issues.ListByRepo(ctx, "o", "r", nil)
		var early *github.RateLimitError
		switch {
		case errors.As(err, &early):
			failed++
		case err != nil || len(issues) != 1:
			t.Fatalf("%v, %v", issues, err)
		}
	}
	return failed
}

func TestCallsOfGoGitHubWaitWhereItWouldFail(t *testing.T) {
	bypass := context.WithValue(context.Background(), github.BypassRateLimitCheck, true)
	byItself := func(base http.RoundTripper) (*github.Client, error) {
		limited := weirclient.MustNew(weirclient.Options{Base: base, Dialect: weirclient.GitHub, MaxWait: 10 * time.Minute})
		return github.NewClient(github.WithTransport(limited), github.WithAuthToken("a"))
	}
	program := func(base http.RoundTripper) (*github.Client, error) { return newClient(base, "a") }
	for name, test := range map[string]struct {
		new    func(base http.RoundTripper) (*github.Client, error)
		ctx    context.Context
		failed int
	}{
		"DisableRateLimitCheck":         {program, context.Background(), 0},
		"BypassRateLimitCheck":          {byItself, bypass, 0},
		"go-github decides before weir": {byItself, context.Background(), 7},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				server := newFalseGitHub(5)
				client, err := test.new(server)
				if err != nil {
					t.Fatal(err)
				}
				if failed := call(test.ctx, t, client, 12); failed != test.failed || server.denied > 0 {
					t.Errorf("of 12 calls at a limit of 5, %d failed, and %d were denied, want %d and 0", failed, server.denied,
						test.failed)
				}
			})
		})
	}
}

func TestCallsOfAnInstallationWaitAlthoughItsTokenChanges(t *testing.T) {
	key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(privateKey(t))})
	inBubble(t, func(t *testing.T) {
		server := newFalseGitHub(5)
		server.lasts = 90 * time.Second // of which ghinstallation uses all but the last minute
		client, err := newInstallation(server, 1, 2, key)
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for range 4 {
			failed += call(context.Background(), t, client, 3)
			time.Sleep(time.Minute)
		}
		if failed > 0 || server.denied > 0 {
			t.Errorf("of 12 calls at a limit of 5, %d failed, and %d were denied", failed, server.denied)
		}
		if server.tokens < 4 || len(server.asked) != server.tokens {
			t.Errorf("%d tokens were asked for and %d used, want four at least", server.tokens, len(server.asked))
		}
	})
}

func privateKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
