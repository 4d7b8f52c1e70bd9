package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// stuck returns a body that begins, and then says nothing until it is closed.
func stuck(beginning string) io.ReadCloser {
	r, w := io.Pipe()
	go w.Write([]byte(beginning)) // ends when r is closed
	return r
}

// A server that never ends a denial in JSON held its request for ever.
func TestABodyThatDoesNotEndHoldsNoDenialBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(i int, _ *http.Request) *http.Response {
			if i > 1 {
				return answer(200)
			}
			a := answer(429, "Content-Type", "application/json", "Retry-After", "1")
			a.Body, a.ContentLength = stuck(`{"error":`), -1
			return a
		})
		c := newClient(t, server, client.Options{})
		response, err := get(c, "http://a/")
		if took := time.Since(server.began); err != nil || response.StatusCode != 200 || took > 10*time.Second {
			t.Fatalf("%v, %v after %v", response, err, took)
		}
	})
}

// The time is that of a body: a slow one that ends in it is whole.
func TestASlowBodyOfADenialIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `{"error":{"code":"insufficient_quota"}}`
		server := scripted(func(int, *http.Request) *http.Response {
			a := answer(429, "Content-Type", "application/json")
			r, w := io.Pipe()
			go func() {
				for part := range strings.SplitAfterSeq(text, ":") {
					time.Sleep(500 * time.Millisecond)
					w.Write([]byte(part))
				}
				w.Close()
			}()
			a.Body, a.ContentLength = r, -1
			return a
		})
		c := newClient(t, server, client.Options{})
		response, err := c.RoundTrip(request(t, "GET", "http://a/", nil))
		if err != nil || response.StatusCode != 429 || len(server.at) != 1 {
			t.Fatalf("%v, %v after %d requests", response, err, len(server.at))
		}
		time.Sleep(time.Minute)
		if got, err := io.ReadAll(response.Body); string(got) != text || err != nil {
			t.Errorf("the body is %q, %v", got, err)
		}
	})
}
