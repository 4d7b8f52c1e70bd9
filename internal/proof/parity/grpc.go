package parity

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// testGRPC checks what a call of gRPC is answered in front of its server. Its client reads a status
// of HTTP as UNAVAILABLE, which retry policies repeat at once.
func testGRPC[R any](t *testing.T, a Adapter[R]) {
	const tooMany = "8 Too many requests: retry in 24 hours."
	for name, tt := range map[string]struct {
		change  func(*Config[R])
		header  string
		timeout string
		want    string
	}{
		"denied":           {header: "application/grpc", want: tooMany + " 86400000"},
		"denied, a suffix": {header: "application/grpc+proto", want: tooMany + " 86400000"},
		"an early deadline": {
			header: "application/grpc", timeout: "86400S", want: tooMany + " -1",
		},
		"plain text": {
			change: func(c *Config[R]) { c.PlainText = true }, header: "application/grpc",
			want: tooMany + " 86400000",
		},
		"no fields": {
			change: func(c *Config[R]) { c.Headers.Show = headers.Omit }, header: "application/grpc",
			want: tooMany + " 86400000",
		},
		"a wait above the bound": {
			change: func(c *Config[R]) { c.Headers.MaxRetryAfter = time.Hour }, header: "application/grpc",
			want: tooMany + " -1",
		},
		"a wait above the bound and before the deadline": {
			change: func(c *Config[R]) { c.Headers.MaxRetryAfter = time.Hour }, header: "application/grpc",
			timeout: "86401S", want: tooMany + " 86400000",
		},
		"a wait above the bound in plain text": {
			change: func(c *Config[R]) { c.Headers.MaxRetryAfter, c.PlainText = time.Hour, true },
			header: "application/grpc", want: tooMany + " -1",
		},
		"capacity": {
			change: func(c *Config[R]) { c.Rules[0].DenyAs503 = true }, header: "application/grpc",
			want: "14 The service is at capacity: retry in 24 hours. 86400000",
		},
		"the program's own answer": {
			change: func(c *Config[R]) { c.Sorry = true }, header: "application/grpc", want: "429",
		},
		"another": {header: "application/json", want: "429"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := everybody[R](limits.SlidingLog(limits.PerDay(1)))
			if tt.change != nil {
				tt.change(limit)
			}
			server := startGRPC(t, a, App[R]{Site: limit})
			call(t, server, "application/json", "")
			if got := call(t, server, tt.header, tt.timeout); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// testWebGRPC checks what a call of gRPC-Web is answered, which may come over HTTP/1.1. Its client
// takes a document for UNKNOWN. The status stays, since other clients may name the media type, too.
func testWebGRPC[R any](t *testing.T, a Adapter[R]) {
	for _, plain := range []bool{false, true} {
		for sent, want := range map[string]string{
			"application/grpc-web":            "429 application/grpc-web 8",
			"application/grpc-web+proto":      "429 application/grpc-web 8",
			"application/grpc-web-text+proto": "429 application/grpc-web-text 8",
		} {
			limit := everybody[R](limits.SlidingLog(limits.PerDay(1)))
			limit.PlainText = plain
			server := httptest.NewServer(a.Serve(t, App[R]{Site: limit}))
			t.Cleanup(server.Close)
			var got string
			var h http.Header
			for range 2 {
				r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/hello",
					strings.NewReader("\x00\x00\x00\x00\x00"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", sent)
				response, body := exchange(t, server, r)
				h = response.Header
				got = fmt.Sprint(response.StatusCode, " ", h.Get("Content-Type"), " ", h.Get("Grpc-Status"), body)
			}
			if got != want || h.Get("Retry-After") != "86400" ||
				h.Get("Grpc-Message") != "Too many requests: retry in 24 hours." {
				t.Errorf("%s: %s, want %s; %v", sent, got, want, h)
			}
		}
	}
}

// testShedGRPC checks that a call of gRPC that is shed is UNAVAILABLE.
func testShedGRPC[R any](t *testing.T, a Adapter[R]) {
	s := shed.MustNew(shed.Options[R]{Limit: 1})
	inside, release := make(chan bool), make(chan bool)
	server := startGRPC(t, a, App[R]{Shed: s, Extra: map[string]http.Handler{
		"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			inside <- true
			<-release
		}),
	}})
	done := make(chan error)
	go func() {
		response, err := server.Client().Get(server.URL + "/extra")
		if err == nil {
			response.Body.Close()
		}
		done <- err
	}()
	<-inside
	got := call(t, server, "application/grpc", "")
	if !strings.HasPrefix(got, "14 The service is at capacity: retry in ") ||
		!strings.HasSuffix(got, "000") {
		t.Error(got)
	}
	release <- true
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func startGRPC[R any](t *testing.T, a Adapter[R], app App[R]) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(a.Serve(t, app))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// call returns the answer to a POST: the code, message and pushback of gRPC, or the status.
func call(t *testing.T, server *httptest.Server, contentType, timeout string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/hello",
		strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	if timeout != "" {
		r.Header.Set("Grpc-Timeout", timeout)
	}
	response, body := exchange(t, server, r)
	h := response.Header
	if h.Get("Grpc-Status") == "" {
		return fmt.Sprint(response.StatusCode)
	}
	if response.StatusCode != http.StatusOK || len(body) > 0 ||
		h.Get("Content-Type") != "application/grpc" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%s, %q, %v", response.Status, body, h)
	}
	return h.Get("Grpc-Status") + " " + h.Get("Grpc-Message") + " " + h.Get("Grpc-Retry-Pushback-Ms")
}
