package client_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// away answers until a server is down, and refuses connections until it is up.
type away struct {
	began    time.Time
	down, up time.Duration
	bodies   []string
}

var refusedConnection = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

func (a *away) RoundTrip(r *http.Request) (*http.Response, error) {
	if since := time.Since(a.began); since >= a.down && since < a.up {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, refusedConnection
	}
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		a.bodies = append(a.bodies, string(b))
	}
	return answer(200), nil
}

func TestARestartIsOutlastedByAnyMethodWhoseBodyCanBeHadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{began: time.Now(), down: time.Second, up: 4 * time.Second}
		c := newClient(t, a, client.Options{})
		get(c, "http://a/")
		time.Sleep(2 * time.Second)
		response, err := do(c, request(t, "POST", "http://a/", strings.NewReader("hello")))
		if err != nil || response.StatusCode != 200 || len(a.bodies) != 1 || a.bodies[0] != "hello" {
			t.Errorf("%v, %v, bodies %q", response, err, a.bodies)
		}
	})
}

func TestARefusedConnectionIsTheErrorIfNothingCanBeRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		attempts int
		first    bool // the server has answered before
		body     io.Reader
	}{
		"never answered":           {0, false, nil},
		"Attempts is 1":            {1, true, nil},
		"a body that is used once": {0, true, io.NopCloser(strings.NewReader("x"))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &away{began: time.Now(), down: time.Second, up: time.Hour}
				c := newClient(t, a, client.Options{Attempts: test.attempts})
				if test.first {
					get(c, "http://a/")
				}
				time.Sleep(2 * time.Second)
				began := time.Now()
				if _, err := do(c, request(t, "POST", "http://a/", test.body)); !errors.Is(err,
					syscall.ECONNREFUSED) || time.Since(began) > 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

func TestAServerThatStaysAwayIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{began: time.Now(), down: time.Second, up: time.Hour}
		c := newClient(t, a, client.Options{})
		get(c, "http://a/")
		time.Sleep(2 * time.Second)
		for i, most := range []time.Duration{12 * time.Second, 0, 0} {
			began := time.Now()
			if _, err := get(c, "http://a/"); !errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) > most {
				t.Errorf("%d: %v after %v", i, err, time.Since(began))
			}
		}
	})
}

func TestDenialsNamesStatusesThatDeny(t *testing.T) {
	for _, test := range []struct {
		method string
		sent   int
	}{{"GET", 2}, {"POST", 1}} {
		synctest.Test(t, func(t *testing.T) {
			server := scripted(func(n int, _ *http.Request) *http.Response {
				if n == 1 {
					return answer(503)
				}
				return answer(200)
			})
			c := newClient(t, server, client.Options{Denials: []int{503}})
			if _, err := do(c, request(t, test.method, "http://a/", nil)); err != nil || server.count() != test.sent {
				t.Errorf("%s: %d requests, %v, want %d", test.method, server.count(), err, test.sent)
			}
		})
	}
}
