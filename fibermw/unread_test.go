package fibermw_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/shed"
)

// fasthttp takes what a handler leaves of a body that streams for the next request, and answers it.
func TestADeniedBodyThatStreamsIsNoOtherRequest(t *testing.T) {
	full := shed.MustNew(shed.Options[fiber.Ctx]{Limit: 1})
	p, _ := full.Acquire(t.Context(), nil)
	defer p.End(shed.Result{})
	never := perDayConfig(1, everybody)
	never.DrainLimit = -1
	for name, middleware := range map[string]fiber.Handler{
		"a limiter":                      perDay(1, everybody).Middleware(),
		"a limiter that reads nothing":   fibermw.MustNew(never).Middleware(),
		"the quotas, which read nothing": perDay(1, everybody).Quota(),
		"a shedder":                      fibermw.Shed(full),
	} {
		app := fiber.New(fiber.Config{StreamRequestBody: true, BodyLimit: 64 << 20})
		app.Use("/in", middleware)
		app.Post("/in", hi)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
		exchange(t, listener, "POST /in HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		for what, tt := range map[string]struct {
			body string
			kept bool // the connection serves another request
		}{
			"of 8 kB":           {strings.Repeat("x", 8<<10), true},
			"of 3 MB":           {strings.Repeat("x", 3<<20), true},
			"of 9 MB, too long": {strings.Repeat("x", 9<<20), false},
		} {
			length := fmt.Sprint("Content-Length: ", len(tt.body))
			for _, field := range []string{length, "Transfer-Encoding: chunked"} {
				sent := tt.body
				if strings.HasPrefix(field, "Transfer") {
					sent = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(sent), sent)
				}
				got := exchange(t, listener, "POST /in HTTP/1.1\r\nHost: a\r\n"+field+"\r\n\r\n"+sent)
				want := tt.kept && !strings.HasSuffix(name, "nothing")
				n, kept := strings.Count(got, "HTTP/1.1 "), !strings.Contains(got, "Connection: close")
				if n == 0 && !want {
					continue // lost: the connection was closed with bytes that nothing has read
				}
				if n != 1 {
					t.Errorf("%s, %s, %.10s: %d answers", name, what, field, n)
				}
				if kept != want {
					t.Errorf("%s, %s, %.10s: connection kept: %t", name, what, field, kept)
				}
			}
		}
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// exchange sends a request, all of it, and then reads until the server closes the connection.
func exchange(t *testing.T, listener net.Listener, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, request) // fails if the server closes the connection
	conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	return string(answer)
}
