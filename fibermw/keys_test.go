package fibermw_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// key returns what a key function returns for a request, written as a client sends it.
func key(t *testing.T, f func(fiber.Ctx) (string, error), config fiber.Config,
	request string) (text string, err error) {
	t.Helper()
	app := fiber.New(config)
	text, err = "", errors.New("the key function was not called")
	app.All("/*", func(c fiber.Ctx) error {
		text, err = f(c)
		text = strings.Clone(text)
		return nil
	})
	converse(t, app, request)
	return text, err
}

func TestAKeyWithoutACopyIsThatOfTheCopy(t *testing.T) {
	for name, pair := range map[string][2]func(fiber.Ctx) (string, error){
		"peer":   {keyfuncs.Address(fibermw.Peer), fibermw.Lift(keyfuncs.Address(keyfuncs.Peer))},
		"header": {fibermw.Header("x-tenant"), fibermw.Lift(keyfuncs.Header("x-tenant"))},
	} {
		for _, fields := range []string{"", "X-Tenant: a\r\n", "X-Tenant:  a \r\n", "X-Tenant:\r\n",
			"X-Tenant: a\r\nX-Tenant: b\r\n", "x-tenant: " + strings.Repeat("x", 65) + "\r\n"} {
			request := "GET / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n"
			own, ownErr := key(t, pair[0], fiber.Config{}, request)
			lifted, liftedErr := key(t, pair[1], fiber.Config{}, request)
			if own != lifted || ownErr != liftedErr {
				t.Errorf("%s of %q: %q, %v; lifted %q, %v", name, fields, own, ownErr, lifted, liftedErr)
			}
		}
	}
}

// copyOf returns the copy that a lifted function gets of a request.
func copyOf(t *testing.T, config fiber.Config, request string) (r *http.Request) {
	t.Helper()
	_, err := key(t, func(c fiber.Ctx) (string, error) {
		r = fibermw.Request(c)
		return "", nil
	}, config, request)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestALiftedFunctionGetsTheRequestOfNetHTTP(t *testing.T) {
	const request = "POST /users/%61lice?q=a%20b HTTP/1.1\r\nHost: shop.example:8080\r\n" +
		"X-Tenant: a\r\nx-tenant: b\r\nAccept: text/plain\r\nCookie: a=1; b=2\r\nUser-Agent: test\r\n" +
		"Content-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody"
	arrived := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r }))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, request)
	want, got := <-arrived, copyOf(t, fiber.Config{}, request)
	type read struct {
		Method, Path, Query, Proto, Host, URI string
		Length                                int64
		Header                                http.Header
	}
	of := func(r *http.Request) read {
		return read{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Proto, r.Host, r.RequestURI,
			r.ContentLength, r.Header}
	}
	if diff := cmp.Diff(of(want), of(got)); diff != "" {
		t.Errorf("-net/http +lifted:\n%s", diff)
	}
	if body, err := io.ReadAll(got.Body); string(body) != "body" || err != nil {
		t.Errorf("content %q, %v", body, err)
	}
	if got.RemoteAddr != "192.0.2.1:80" || got.TLS != nil {
		t.Errorf("from %s, TLS %v", got.RemoteAddr, got.TLS)
	}
}

func TestARequestWithoutContentHasTheLengthZero(t *testing.T) {
	for request, length := range map[string]int64{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                                   0,
		"POST / HTTP/1.1\r\nHost: x\r\n\r\n":                                                  0,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n": -1,
	} {
		if got := copyOf(t, fiber.Config{}, request).ContentLength; got != length {
			t.Errorf("%q: length %d, want %d", request, got, length)
		}
	}
}

// The client of this test sends a tenth of the content and waits for the answer.
func TestAStreamIsNotReadOutsideADecision(t *testing.T) {
	app := fiber.New(fiber.Config{StreamRequestBody: true, BodyLimit: 10})
	var err error
	app.Post("/", func(c fiber.Ctx) error {
		_, err = fibermw.Request(c).Body.Read(make([]byte, 1))
		if !c.Request().IsBodyStream() {
			t.Error("the handler has no stream")
		}
		c.RequestCtx().SetConnectionClose()
		return nil
	})
	status, _ := converse(t, app, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"+strings.Repeat("x", 100))
	if status != 200 || err == nil || !strings.Contains(err.Error(), "in the key function") {
		t.Errorf("status %d, read: %v", status, err)
	}
}

// A rule that fails open must not be passed by a target that net/http refuses.
func TestATargetThatCannotBeParsedHasAKey(t *testing.T) {
	for _, target := range []string{"/100%", "/%zz?q=1", "//[::1/"} {
		request := "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"
		addr, err := key(t, fibermw.Lift(keyfuncs.Address(keyfuncs.Peer)), fiber.Config{}, request)
		if addr != "192.0.2.1" {
			t.Errorf("%s: %q, %v", target, addr, err)
		}
	}
}

// Unless it is told to, Fiber does not distinguish /API from /api.
func TestThePathIsThatByWhichFiberRoutes(t *testing.T) {
	request := "GET /API/%4A\xff/x?Q=A HTTP/1.1\r\nHost: x\r\n\r\n"
	for sensitive, path := range map[bool]string{false: "/api/j\xff/x", true: "/API/J\xff/x"} {
		r := copyOf(t, fiber.Config{CaseSensitive: sensitive}, request)
		if r.URL.Path != path || r.URL.RawQuery != "Q=A" || r.RequestURI != "/API/%4A\xff/x?Q=A" {
			t.Errorf("CaseSensitive %t: %q, %q of %q", sensitive, r.URL.Path, r.URL.RawQuery, r.RequestURI)
		}
	}
}

func TestNamesOfFieldsAreCanonicalWhateverFiberDoes(t *testing.T) {
	const request = "GET / HTTP/1.0\r\nhost: x\r\nx-api-key: k1\r\n\r\n"
	r := copyOf(t, fiber.Config{DisableHeaderNormalizing: true}, request)
	if r.Header.Get("X-API-Key") != "k1" || r.ProtoMinor != 0 {
		t.Errorf("%s, header %v", r.Proto, r.Header)
	}
}

// Middleware between two limiters may change the request.
func TestEachLimiterCopiesTheRequestAnew(t *testing.T) {
	app := fiber.New()
	pathAndTenant := keyfuncs.Join(fibermw.Lift(keyfuncs.Path), fibermw.Lift(keyfuncs.Header("X-Tenant")))
	app.Use(oncePerDay(pathAndTenant).Middleware())
	app.Use(func(c fiber.Ctx) error {
		c.Request().Header.Set("X-Tenant", "checked "+c.Get("X-Tenant"))
		return c.Next()
	})
	var seen []string
	tenant := fibermw.Lift(keyfuncs.Header("X-Tenant"))
	app.Use(oncePerDay(func(c fiber.Ctx) (string, error) {
		text, err := tenant(c)
		seen = append(seen, text)
		return text, err
	}).Middleware())
	app.Get("/*", func(c fiber.Ctx) error { return c.SendString(c.Get("X-Tenant")) })
	if body, _ := want(t, app, "GET", "/1", 200, "X-Tenant: a"); body != "checked a" {
		t.Errorf("content %q", body)
	}
	want(t, app, "GET", "/2", 429, "X-Tenant: a")
	want(t, app, "GET", "/3", 200, "X-Tenant: b")
	if diff := cmp.Diff([]string{"checked a", "checked a", "checked b"}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestLiftedFunctionsOfADecisionShareACopy(t *testing.T) {
	var copies []*http.Request
	note := fibermw.Lift(func(r *http.Request) (string, error) {
		copies = append(copies, r)
		return "", core.ErrAbsent
	})
	app := fiber.New()
	app.Use(perDay(9, keyfuncs.First(note, note, everybody)).Middleware())
	app.Post("/", hi)
	want(t, app, "POST", "/", 200)
	want(t, app, "POST", "/", 200)
	if len(copies) != 4 || copies[0] != copies[1] || copies[1] == copies[2] {
		t.Errorf("the copies are %p", copies)
	}
	if n, err := copies[0].Body.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("after the decision %d bytes are read, %v", n, err)
	}
}

// secure is a connection with a TLS state.
type secure struct{ net.Conn }

func (secure) Handshake() error { return nil }
func (secure) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{ServerName: "shop.example"}
}

func TestTheStateOfTLSIsCopied(t *testing.T) {
	app, name := fiber.New(), ""
	app.Get("/", func(c fiber.Ctx) (err error) {
		name, err = fibermw.Lift(func(r *http.Request) (string, error) { return r.TLS.ServerName, nil })(c)
		return err
	})
	app.Handler()
	ours, theirs := net.Pipe()
	go io.WriteString(ours, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	go app.Server().ServeConn(secure{theirs})
	io.ReadAll(ours)
	if name != "shop.example" {
		t.Errorf("%q", name)
	}
}

func TestAPeerWithoutAnIPAddressIsRefused(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New()
	errs := make(chan error, 2)
	app.Get("/", func(c fiber.Ctx) error {
		_, own := fibermw.Peer(c)
		errs <- own
		_, lifted := fibermw.Lift(keyfuncs.Peer)(c)
		errs <- lifted
		return nil
	})
	app.Handler()
	go app.Server().Serve(listener)
	defer app.Shutdown()
	local := &net.UnixAddr{Name: dir + "/203.0.113.7:80", Net: "unix"} // a name that a client chooses
	conn, err := net.DialUnix("unix", local, &net.UnixAddr{Name: dir + "/s", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 2 {
		if err := <-errs; !errors.Is(err, keyfuncs.ErrUnidentified) {
			t.Errorf("%v", err)
		}
	}
}

func TestAParameterHasOneKeyHoweverItIsEscaped(t *testing.T) {
	for _, unescapes := range []bool{false, true} {
		app, got := fiber.New(fiber.Config{UnescapePath: unescapes}), ""
		app.Get("/users/:id", func(c fiber.Ctx) (err error) {
			got, err = fibermw.PathParam("id")(c)
			got = strings.Clone(got)
			return err
		})
		for path, key := range map[string]string{
			"/users/alice": "alice", "/users/%61lice": "alice", "/users/alice/": "alice", "/users/%2561": "%61",
		} {
			if want(t, app, "GET", path, 200); got != key {
				t.Errorf("UnescapePath %t: %s: key %q, want %q", unescapes, path, got, key)
			}
		}
	}
}

func TestFibersClientAddressIsUsedOnlyIfItIsOne(t *testing.T) {
	const field = "X-Forwarded-For"
	for name, c := range map[string]struct {
		config fiber.Config
		value  string
		key    string // "": refused
	}{
		"no ProxyHeader":    {fiber.Config{}, "203.0.113.7", "192.0.2.1"},
		"no TrustProxy":     {fiber.Config{ProxyHeader: field}, "203.0.113.7", "192.0.2.1"},
		"another proxy":     {fiber.Config{ProxyHeader: field, TrustProxy: true}, "203.0.113.7", "192.0.2.1"},
		"a list":            {trusting(field, false), "203.0.113.7, 203.0.113.8", ""},
		"a list, validated": {trusting(field, true), "203.0.113.7, 203.0.113.8", "203.0.113.8"},
		"missing":           {trusting(field, false), "", ""},
		"no address":        {trusting(field, false), "unknown", ""},
		"a zone":            {trusting(field, false), "fe80::1%eth0", ""},
	} {
		request := "GET / HTTP/1.1\r\nHost: x\r\n" + field + ": " + c.value + "\r\n\r\n"
		got, err := key(t, keyfuncs.Address(fibermw.IP), c.config, request)
		if got != c.key || (err == nil) != (c.key != "") || err != nil && !errors.Is(err, keyfuncs.ErrUnidentified) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.key)
		}
	}
}

func trusting(field string, validate bool) fiber.Config {
	return fiber.Config{ProxyHeader: field, TrustProxy: true, EnableIPValidation: validate,
		TrustProxyConfig: fiber.TrustProxyConfig{Proxies: []string{"192.0.2.1"}}}
}

// A lifted function may read the content and put it back, as docs/keys.md shows.
func TestALiftedFunctionMayReplaceTheBody(t *testing.T) {
	user := fibermw.Lift(func(r *http.Request) (string, error) {
		start, err := io.ReadAll(io.LimitReader(r.Body, 3))
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(start), r.Body), r.Body}
		return string(start), err
	})
	limit := limits.FixedWindow(limits.PerMinute(1))
	limiter := fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{
		{Name: "a", Limit: limit, Key: user}, {Name: "b", Limit: limit, Key: user},
	}})
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Post("/", func(c fiber.Ctx) error { return c.Send(c.Body()) })
	for _, tt := range []struct {
		content string
		status  int
	}{{"ann and more", 200}, {"bob and more", 200}, {"ann", 429}} {
		response, err := app.Test(httptest.NewRequest("POST", "/", strings.NewReader(tt.content)))
		if err != nil || response.StatusCode != tt.status {
			t.Fatalf("%s: %v, %v, want %d", tt.content, response, err, tt.status)
		}
		if got, err := io.ReadAll(response.Body); tt.status == 200 && string(got) != tt.content {
			t.Errorf("the handler reads %q, %v, want %q", got, err, tt.content)
		}
	}
}
