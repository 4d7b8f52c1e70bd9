package fibermw_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// server is an http.Handler in front of an app, for tests that have one. Each request has a
// connection of its own to the server of fasthttp. The app sees its context, as if middleware had
// set it.
type server struct{ fast *fasthttp.Server }

func serverOf(app *fiber.App) http.Handler {
	app.Handler() // builds the routes
	return server{app.Server()}
}

// contexts has the contexts of requests by the value of contextField.
var (
	contexts sync.Map
	lastID   atomic.Int64
)

const contextField = "X-Parity-Context"

// setContext is the first middleware of an app under test.
func setContext(c fiber.Ctx) error {
	if ctx, ok := contexts.LoadAndDelete(strings.Clone(c.Get(contextField))); ok {
		c.SetContext(ctx.(context.Context))
		c.Request().Header.Del(contextField)
	}
	return c.Next()
}

// peer is the address of a client, whatever a test takes for one.
type peer string

func (peer) Network() string  { return "tcp" }
func (p peer) String() string { return string(p) }

type connection struct {
	net.Conn
	peer net.Addr
}

func (c connection) RemoteAddr() net.Addr { return c.peer }
func (c connection) LocalAddr() net.Addr  { return peer("192.0.2.99:80") }

// SetDeadline does not fail on a connection that the handler has closed already: fasthttp would drop
// the request, which would end with the next collection of garbage.
func (c connection) SetDeadline(at time.Time) error {
	c.Conn.SetDeadline(at)
	return nil
}

func addrOf(text string) net.Addr {
	if addr, err := netip.ParseAddrPort(text); err == nil {
		return net.TCPAddrFromAddrPort(addr)
	}
	return peer(text)
}

func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ours, theirs := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer func() {
			if recover() != nil { // fasthttp lets a panic end the process
				theirs.Close()
			}
		}()
		s.fast.ServeConn(connection{theirs, addrOf(r.RemoteAddr)}) // closes it unless it is hijacked
	}()
	id := strconv.FormatInt(lastID.Add(1), 10)
	contexts.Store(id, r.Context())
	upgrade := r.Header.Get("Upgrade") != ""
	go send(ours, r, id, upgrade)
	if upgrade {
		client, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		go func() { io.Copy(ours, client); ours.Close() }()
		go func() { io.Copy(client, ours); client.Close() }()
		<-served
		return
	}
	defer func() { <-served }()
	defer ours.Close()
	response, err := http.ReadResponse(bufio.NewReader(ours), r)
	if err != nil {
		panic(http.ErrAbortHandler) // the client has no answer either
	}
	for name, values := range response.Header {
		if name != "Connection" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(response.StatusCode)
	buf := make([]byte, 4096)
	for {
		n, err := response.Body.Read(buf)
		w.Write(buf[:n])
		if response.ContentLength < 0 {
			w.(http.Flusher).Flush()
		}
		switch err {
		case nil:
		case io.EOF:
			return
		default:
			panic(http.ErrAbortHandler)
		}
	}
}

func send(to io.Writer, r *http.Request, id string, upgrade bool) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(to, "%s %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\n", r.Method, r.URL.RequestURI(), r.Host, contextField, id)
	r.Header.WriteSubset(to, map[string]bool{"Connection": !upgrade, "Content-Length": true})
	if !upgrade {
		io.WriteString(to, "Connection: close\r\n")
	}
	if len(body) > 0 {
		fmt.Fprintf(to, "Content-Length: %d\r\n", len(body))
	}
	io.WriteString(to, "\r\n")
	to.Write(body)
}

// write has c answer with what f writes.
func write(c fiber.Ctx, f func(http.ResponseWriter)) error {
	w := httptest.NewRecorder()
	f(w)
	for name, values := range w.Header() {
		c.Set(name, values[0])
	}
	return c.Status(w.Code).Send(w.Body.Bytes())
}

// converse sends bytes to an app and reads an answer.
func converse(t *testing.T, app *fiber.App, request string) (status int, h http.Header) {
	t.Helper()
	app.Handler()
	ours, theirs := net.Pipe()
	go io.WriteString(ours, request)
	served := make(chan error, 1)
	go func() { served <- app.Server().ServeConn(connection{theirs, addrOf("192.0.2.1:80")}) }()
	response, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, response.Body)
	ours.Close()
	<-served
	return response.StatusCode, response.Header
}
