package parity

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

// A limiter must not disturb the connection: upgrades, streams, HTTP/2.

// testUpgrade sends the handshake of RFC 6455, and then lines.
func testUpgrade[R any](t *testing.T, a Adapter[R]) {
	server := serve(t, a, everybody[R](limits.FixedWindow(limits.PerDay(1))),
		func(w http.ResponseWriter, r *http.Request) {
			if _, ok := w.(http.Hijacker); !ok {
				t.Errorf("%T is not an http.Hijacker", w)
				return
			}
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " +
				"websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
			rw.Flush()
			line, _ := rw.ReadString('\n')
			rw.WriteString("echo " + line)
			rw.Flush()
		})
	upgrade := func() (*http.Response, string) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /extra HTTP/1.1\r\nHost: x\r\nConnection: "+
			"Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		r := bufio.NewReader(conn)
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusSwitchingProtocols {
			return response, ""
		}
		io.WriteString(conn, "hi\n")
		line, _ := r.ReadString('\n')
		return response, line
	}
	first, line := upgrade()
	if wantStatus(t, first, http.StatusSwitchingProtocols); line != "echo hi\n" {
		t.Errorf("through the connection came %q", line)
	}
	second, _ := upgrade()
	if wantStatus(t, second, http.StatusTooManyRequests); second.Header.Get("Retry-After") != "86400" {
		t.Errorf("fields %v", second.Header)
	}
}

func testStreaming[R any](t *testing.T, a Adapter[R]) {
	release := make(chan struct{})
	server := serve(t, a, everybody[R](limits.FixedWindow(limits.PerDay(1))), streaming(t, release))
	checkStream(t, server, release, 1)
}

func testHTTP2[R any](t *testing.T, a Adapter[R]) {
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(a.Serve(t, App[R]{
		Site:  everybody[R](limits.FixedWindow(limits.PerDay(1))),
		Extra: map[string]http.Handler{"/extra": streaming(t, release)},
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	checkStream(t, server, release, 2)
}

// streaming writes one line, and a second one when release is closed.
func streaming(t *testing.T, release <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		flusher, ok := w.(http.Flusher)
		if !ok {
			t.Errorf("%T is not an http.Flusher", w)
			return
		}
		io.WriteString(w, "first\n")
		flusher.Flush()
		<-release
		io.WriteString(w, "second\n")
	}
}

func checkStream(t *testing.T, server *httptest.Server, release chan<- struct{}, major int) {
	t.Helper()
	response := get(t, server, "/extra")
	body := bufio.NewReader(response.Body)
	if line, err := body.ReadString('\n'); line != "first\n" || response.ProtoMajor != major {
		t.Errorf("HTTP/%d: %q, %v", response.ProtoMajor, line, err)
	}
	close(release)
	if line, err := body.ReadString('\n'); line != "second\n" {
		t.Errorf("then %q, %v", line, err)
	}
	if got := response.Header.Get("RateLimit"); got != `"everybody";r=0;t=86400` {
		t.Errorf("RateLimit %s", got)
	}
	denied := get(t, server, "/extra")
	wantStatus(t, denied, http.StatusTooManyRequests)
	if denied.Header.Get("Retry-After") != "86400" || denied.ProtoMajor != major {
		t.Errorf("HTTP/%d, fields %v", denied.ProtoMajor, denied.Header)
	}
}

// testController checks that an http.ResponseController works as without a limiter. Echo before
// 4.11 hides the connection.
func testController[R any](t *testing.T, a Adapter[R]) {
	setDeadline := func(site *Config[R]) (err error) {
		server := serve(t, a, site, func(w http.ResponseWriter, r *http.Request) {
			err = http.NewResponseController(w).SetWriteDeadline(time.Time{})
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("Flush: %v", err)
			}
		})
		wantStatus(t, get(t, server, "/extra"), http.StatusOK)
		return err
	}
	bare := setDeadline(nil)
	limited := setDeadline(everybody[R](limits.FixedWindow(limits.PerDay(9))))
	if fmt.Sprint(limited) != fmt.Sprint(bare) {
		t.Errorf("SetWriteDeadline: %v, and %v without a limiter", limited, bare)
	}
}
