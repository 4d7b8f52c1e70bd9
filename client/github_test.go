package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// forbids serves 403s of GitHub whose bodies rest writes, and returns a client of them.
func forbids(t *testing.T, rest func(w io.Writer, flush func())) (c *client.Transport, stop func()) {
	base, stop := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		flush := w.(http.Flusher).Flush
		flush()
		rest(w, flush)
	}))
	return newClient(t, base, client.Options{Dialect: client.GitHub}), stop
}

// asks sends a request and fails unless it is answered 403 within a time.
func asks(t *testing.T, c *client.Transport, ctx context.Context, least, most time.Duration) *http.Response {
	t.Helper()
	began := time.Now()
	response, err := c.RoundTrip(request(t, "GET", "http://api.github.com/user", nil).WithContext(ctx))
	if err != nil || response.StatusCode != http.StatusForbidden {
		t.Fatal(response, err)
	}
	if took := time.Since(began); took < least || took > most {
		t.Fatalf("answered after %v, want %v to %v", took, least, most)
	}
	return response
}

func TestTheBodyOfAForbiddenThatComesLateIsWhole(t *testing.T) {
	const message = `{"message": "Resource not accessible by personal access token"}`
	for name, rest := range map[string]func(w io.Writer, flush func()){
		"at once":    func(w io.Writer, _ func()) { io.WriteString(w, message) },
		"in an hour": func(w io.Writer, _ func()) { time.Sleep(time.Hour); io.WriteString(w, message) },
		"in two": func(w io.Writer, flush func()) {
			io.WriteString(w, message[:9])
			flush()
			time.Sleep(time.Hour)
			io.WriteString(w, message[9:])
		},
		"in droplets": func(w io.Writer, flush func()) {
			for i := range message {
				io.WriteString(w, message[i:i+1])
				flush()
				time.Sleep(500 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := forbids(t, rest)
				defer stop()
				for range 2 {
					response := asks(t, c, t.Context(), 0, time.Hour)
					if got, err := io.ReadAll(response.Body); err != nil || string(got) != message {
						t.Errorf("%q, %v", got, err)
					}
					response.Body.Close()
				}
			})
		})
	}
}

func TestAForbiddenOfGitHubIsReadNoLongerThanItsContextLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := forbids(t, func(io.Writer, func()) { time.Sleep(time.Hour) })
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		response := asks(t, c, ctx, time.Second, time.Second)
		if _, err := io.ReadAll(response.Body); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's error", err)
		}
		response.Body.Close()
	})
}

func TestAForbiddenOfGitHubIsReadTo16KiBAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := 0
		c := newClient(t, scripted(func(int, *http.Request) *http.Response {
			a := answer(403, "Content-Type", "application/json")
			a.Body, a.ContentLength = endless{&read}, -1
			return a
		}), client.Options{Dialect: client.GitHub})
		response := asks(t, c, t.Context(), 0, 0)
		if read != 16<<10 {
			t.Errorf("%d bytes were read ahead", read)
		}
		if n, err := io.CopyN(io.Discard, response.Body, 1<<20); n != 1<<20 || err != nil || read < 1<<20 {
			t.Errorf("%d bytes, of %d, %v", n, read, err)
		}
	})
}
