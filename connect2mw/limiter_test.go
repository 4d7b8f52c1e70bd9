package connect2mw_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connect2mw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

const greet = "/greet.v1.Greeter/Greet"

func greeter(_ context.Context, name string) (string, error) { return "Hello, " + name + ".", nil }

// serving returns a server of some methods behind an interceptor.
func serving(interceptor connect.ServerInterceptor, methods ...connect.Method) *connect.Server {
	server := connect.NewServer(interceptor)
	server.Register(methods...)
	return server
}

// ask calls a unary method.
func ask(ctx context.Context, c *connect.Client, procedure, text string) (string, error) {
	answer := new(message)
	err := c.CallUnary(ctx, unarySpec(procedure), wrapperspb.String(text), answer)
	return answer.GetValue(), err
}

func everybody(limit limits.Limit) []connect2mw.Rule {
	return []connect2mw.Rule{{Name: "everybody", Limit: limit, Key: keyfuncs.Constant[*connect2mw.Call]("everybody")}}
}

// The answers of the Connect protocol are those of HTTP.
func TestADenialIsAnHTTPAnswer(t *testing.T) {
	full := everybody(limits.TokenBucket(limits.PerDay(1), 1))
	full[0].DenyAs503 = true
	for status, rules := range map[int][]connect2mw.Rule{
		429: everybody(limits.TokenBucket(limits.PerDay(1), 1)), 503: full,
	} {
		l := newLimiter(t, connect2mw.Config{Rules: rules})
		c, url := start(t, mounted(serving(l.Interceptor(), unary(greet, greeter))), false)
		for _, want := range []int{200, status} {
			response, err := c.Post(url+greet, "application/json", strings.NewReader(`"Ann"`))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			h := response.Header
			if response.StatusCode != want || (h.Get("RateLimit") != "") != (want != 503) ||
				(h.Get("Retry-After") != "") != (want != 200) ||
				(h.Get("Cache-Control") == "no-store") != (want != 200) {
				t.Errorf("%s, fields %v, want %d", response.Status, h, want)
			}
		}
	}
}

// Whatever a client sends as a message is counted before it is read, and costs no decoding once it is
// denied. What is refused before it is a call is not seen.
func TestCallsThatCannotBeDecodedAreCounted(t *testing.T) {
	const garbage = "\x1f\x8b garbage"
	for _, c := range []struct {
		name, path, media string
		body              string
		fields            []string
		counts            bool
	}{
		{"garbage", greet, "application/proto", garbage, nil, true},
		{"garbage as JSON", greet, "application/json", garbage, nil, true},
		{"garbage that says gzip", greet, "application/json", garbage, []string{"Content-Encoding", "gzip"}, true},
		{"a message that is too long", greet, "application/json", `"` + strings.Repeat("x", 100) + `"`, nil, true},
		{"garbage over gRPC", greet, "application/grpc+proto", garbage, []string{"Te", "trailers"}, true},
		{"garbage over gRPC-Web", greet, "application/grpc-web", garbage, nil, true},
		{"no message", greet, "application/grpc-web", "", nil, true},
		{"an unknown method", "/greet.v1.Greeter/Nothing", "application/json", "{}", nil, true},
		{"an unknown encoding", greet, "application/json", "{}", []string{"Content-Encoding", "zstd"}, false},
		{"an unknown type", greet, "text/plain", "{}", nil, false},
		{"an unknown service", "/greet.v1.Other/Greet", "application/json", "{}", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var decided, allowed, read atomic.Int64
			l := newLimiter(t, connect2mw.Config{
				Rules: everybody(limits.TokenBucket(limits.PerDay(20), 20)),
				Observer: core.ObserverFuncs[*connect2mw.Call]{
					OnDecision: func(_ context.Context, _ *connect2mw.Call, o core.Outcome) {
						decided.Add(1)
						if o.Allowed() {
							allowed.Add(1)
						}
					}},
			})
			server := serving(l.Interceptor(), connect.Method{Spec: unarySpec(greet),
				Handler: func(_ context.Context, _ connect.Spec, s connect.ServerStream) error {
					read.Add(1)
					return s.Receive(new(message))
				}})
			server.SetUnknownHandler(func(_ context.Context, spec connect.Spec, _ connect.ServerStream) error {
				read.Add(1)
				return connect.Errorf(connect.CodeUnimplemented, "no method %s", spec.Procedure)
			})
			client, url := start(t, mounted(server, connecthttp.WithReadMaxBytes(50)), true)
			for range 200 {
				r, err := http.NewRequestWithContext(t.Context(), "POST", url+c.path, strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", c.media)
				for i := 0; i < len(c.fields); i += 2 {
					r.Header.Set(c.fields[i], c.fields[i+1])
				}
				response, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			want := [3]int64{200, 20, 20}
			if !c.counts {
				want = [3]int64{}
			}
			if got := [3]int64{decided.Load(), allowed.Load(), read.Load()}; got != want {
				t.Errorf("decided, allowed and read %v of 200, want %v", got, want)
			}
		})
	}
}

// What a handler sets for its answer stays, and what an interceptor outside has set.
func TestFieldsOfHandlersStay(t *testing.T) {
	l := newLimiter(t, connect2mw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(99)))})
	outside := func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			info, _ := connect.CallInfoForServerContext(ctx)
			info.ResponseHeader().Set("X-Outside", "kept")
			return next(ctx, spec, stream)
		}
	}
	server := connect.NewServer(outside, l.Interceptor())
	server.Register(unary(greet, func(ctx context.Context, text string) (string, error) {
		info, _ := connect.CallInfoForServerContext(ctx)
		info.ResponseHeader().Set("X-Own", "kept")
		if text == "" {
			return "", connect.NewError(connect.CodeNotFound, "no such thing")
		}
		return text, nil
	}))
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			client := w.open(t, server)
			for _, text := range []string{"x", ""} {
				ctx, info := connect.NewClientContext(t.Context())
				_, err := ask(ctx, client, greet, text)
				fields := parityAnswer(info, err).Fields
				if (err == nil) != (text == "x") || fields.Get("X-Own") != "kept" || fields.Get("X-Outside") != "kept" ||
					len(fields.Values("RateLimit")) != 1 {
					t.Errorf("%q: %v, %v", text, err, fields)
				}
			}
		})
	}
}

// A client that sees the code of an error behind would take it for its own.
func TestAnErrorFromBehindHasTheStatusOfItsAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"of the handler":   {connect.NewError(connect.CodeUnauthenticated, "no"), 401},
		"from behind":      {connect.NewError(connect.CodeUnauthenticated, "no").WithRemote(), 500},
		"no error of ours": {errors.New("broken"), 500},
		"a deadline":       {context.DeadlineExceeded, 504},
		"the client left":  {context.Canceled, 499},
	} {
		results := make(chan core.Result, 1)
		rules := everybody(limits.FixedWindow(limits.PerDay(9)))
		rules[0].FinalCost = func(r core.Result) int64 {
			results <- r
			return 1
		}
		l := newLimiter(t, connect2mw.Config{Rules: rules})
		client := way{inProcess: true}.open(t, serving(l.Interceptor(),
			unary(greet, func(context.Context, string) (string, error) { return "", c.err })))
		ask(t.Context(), client, greet, "")
		if r := <-results; r.Status != c.want {
			t.Errorf("%s: status %d, want %d", name, r.Status, c.want)
		}
	}
}

func TestKeys(t *testing.T) {
	proxies := connect2mw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
	from := func(addr string, fields ...string) *connect2mw.Call {
		c := call(fields...)
		c.Info.PeerAddr = addr
		return c
	}
	for _, c := range []struct {
		name string
		key  func(*connect2mw.Call) (string, error)
		call *connect2mw.Call
		want string
		err  error
	}{
		{"a peer", keyfuncs.Address(connect2mw.Peer), from("192.0.2.1:1"), "192.0.2.1", nil},
		{"no peer", keyfuncs.Address(connect2mw.Peer), from(""), "", keyfuncs.ErrUnidentified},
		{"an address that was written over the peer's", keyfuncs.Address(connect2mw.Peer), from("192.0.2.1"), "",
			keyfuncs.ErrUnidentified},
		{"a client that forges a hop", proxies, from("192.0.2.1:1", "X-Forwarded-For", "203.0.113.7"), "192.0.2.1",
			nil},
		{"a client behind a proxy", proxies, from("10.0.0.1:1", "X-Forwarded-For", "203.0.113.7"), "203.0.113.7", nil},
		{"a host", connect2mw.Lift(keyfuncs.Host), from("", "Host", "API.example:80"), "api.example", nil},
		{"a certificate that the transport hides", connect2mw.Lift(keyfuncs.SPIFFEID), from("192.0.2.1:1"), "",
			keyfuncs.ErrUnidentified},
		{"no service", connect2mw.Service, new(connect2mw.Call), "", nil},
	} {
		if got, err := c.key(c.call); got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	if connect2mw.Lift[string](nil) != nil {
		t.Error("a nil function is lifted")
	}
}

func TestACertificateReachesTheRules(t *testing.T) {
	leaf := &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "example.org", Path: "/billing"}}}
	for _, c := range []struct {
		name  string
		state *tls.ConnectionState
		key   string
		err   error
	}{
		{"a certificate", &tls.ConnectionState{
			PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}},
		}, "spiffe://example.org/billing", nil},
		{"none", new(tls.ConnectionState), "", core.ErrAbsent},
		{"no TLS", nil, "", core.ErrAbsent},
	} {
		read := func(call *connect2mw.Call) (string, error) {
			key, err := connect2mw.Lift(keyfuncs.SPIFFEID)(call)
			if key != c.key || !errors.Is(err, c.err) {
				t.Errorf("%s: %q, %v, want %q, %v", c.name, key, err, c.key, c.err)
			}
			return key, err
		}
		l := newLimiter(t, connect2mw.Config{
			Rules: []connect2mw.Rule{{Name: "a", Limit: limits.FixedWindow(limits.PerDay(9)), Key: read}},
		})
		r := httptest.NewRequest("POST", greet, strings.NewReader(`"Ann"`))
		r.Header.Set("Content-Type", "application/json")
		r.TLS = c.state
		w := httptest.NewRecorder()
		mounted(serving(l.Interceptor(), unary(greet, greeter))).ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d, want 200", c.name, w.Code)
		}
	}
}

func TestQueuesWaitWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, connect2mw.Config{Rules: everybody(limits.LeakyQueue(limits.PerMinute(1), 3))})
		client := way{inProcess: true}.open(t, serving(l.Interceptor(), unary(greet, greeter)))
		within := func(within time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			began := time.Now()
			_, err := ask(ctx, client, greet, "Ann")
			return time.Since(began), err
		}
		within(time.Hour)
		if took, err := within(time.Hour); err != nil || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		if took, err := within(time.Second); connect.CodeOf(err) != connect.CodeDeadlineExceeded || took != time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestMistakesAreReportedTogether(t *testing.T) {
	_, err := connect2mw.New(connect2mw.Config{
		Rules: []connect2mw.Rule{{Name: "a"}}, MaxWaiting: -1, Headers: headers.Options{Jitter: -1},
	})
	for _, want := range []string{"key: is nil", "limit:", "max waiting", "jitter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: nothing of %q", err, want)
		}
	}
	for _, l := range []*connect2mw.Limiter{nil, new(connect2mw.Limiter)} {
		func() {
			defer func() {
				want := "connect2mw: Limiter.Interceptor: the limiter is nil or zero: make one with New"
				if got := recover(); got != want {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			l.Interceptor()
		}()
	}
}

func TestHealthChecksPassUnlessProbesCount(t *testing.T) {
	const service = "/grpc.health.v1.Health/"
	for _, counted := range []bool{false, true} {
		l := newLimiter(t, connect2mw.Config{
			Rules: everybody(limits.FixedWindow(limits.PerDay(1))), CountProbes: counted,
		})
		server := serving(l.Interceptor())
		for _, method := range []string{"Check", "List", "Watch"} {
			server.Register(unary(service+method, greeter))
		}
		client := way{}.open(t, server)
		passed := func(method string) bool {
			_, err := ask(t.Context(), client, service+method, "")
			return err == nil
		}
		if !passed("List") {
			t.Error("the first call is denied")
		}
		for _, method := range []string{"Check", "Watch"} {
			if passed(method) == counted {
				t.Errorf("%s: counted %t", method, counted)
			}
		}
		if passed("List") {
			t.Error("List passes uncounted")
		}
	}
}

func TestProceduresThatNothingLimitsAreListed(t *testing.T) {
	server := connect.NewServer()
	for _, method := range []string{"Place", "Follow", "Cancel"} {
		server.Register(unary("/shop.v1.Orders/"+method, greeter))
	}
	ruleFor := func(name string, applies func(*connect2mw.Call) bool) connect2mw.Rule {
		return connect2mw.Rule{
			Name: name, Limit: limits.FixedWindow(limits.PerMinute(1000)),
			Key: core.When(applies, keyfuncs.Address(connect2mw.Peer)),
		}
	}
	is := func(method string) func(*connect2mw.Call) bool {
		return func(c *connect2mw.Call) bool { return strings.HasSuffix(c.Spec.Procedure, "/"+method) }
	}
	shadow := ruleFor("shadow", is("Cancel"))
	shadow.Mode = core.Shadow
	for name, c := range map[string]struct {
		rules []connect2mw.Rule
		want  []string
	}{
		"one has a rule":       {[]connect2mw.Rule{ruleFor("a", is("Place"))}, []string{"Cancel", "Follow"}},
		"a name is misspelt":   {[]connect2mw.Rule{ruleFor("a", is("place"))}, []string{"Cancel", "Follow", "Place"}},
		"a shadow is no limit": {[]connect2mw.Rule{ruleFor("a", is("Place")), shadow}, []string{"Cancel", "Follow"}},
		"all have a limit":     {everybody(limits.FixedWindow(limits.PerDay(1))), nil},
	} {
		var want []string
		for _, method := range c.want {
			want = append(want, "/shop.v1.Orders/"+method)
		}
		l := newLimiter(t, connect2mw.Config{Rules: c.rules})
		if got := l.Unlimited(server.Specs()); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A program answers a call without credentials as it likes, and says no wait then.
func TestAnAnswerThatBlamesTheClientHasNoWait(t *testing.T) {
	errNoToken := errors.New("no token")
	for name, c := range map[string]struct {
		denied func(*connect2mw.Call, core.Outcome, *connect.Error) error
		code   connect.Code
		waits  bool
	}{
		"by default": {nil, connect.CodeUnavailable, true},
		"unauthenticated": {func(_ *connect2mw.Call, o core.Outcome, _ *connect.Error) error {
			if errors.Is(o.Err(), errNoToken) {
				return connect.NewError(connect.CodeUnauthenticated, "send a token")
			}
			return nil
		}, connect.CodeUnauthenticated, false},
		"Unavailable of the program's own": {func(*connect2mw.Call, core.Outcome, *connect.Error) error {
			return connect.NewError(connect.CodeUnavailable, "soon")
		}, connect.CodeUnavailable, true},
	} {
		rules := everybody(limits.FixedWindow(limits.PerMinute(100)))
		rules[0].Key = func(*connect2mw.Call) (string, error) { return "", errNoToken }
		l := newLimiter(t, connect2mw.Config{Rules: rules, Denied: c.denied})
		client := way{}.open(t, serving(l.Interceptor(), unary(greet, greeter)))
		ctx, info := connect.NewClientContext(t.Context())
		_, err := ask(ctx, client, greet, "")
		if connect.CodeOf(err) != c.code || info.ResponseHeader().Has("Retry-After") != c.waits {
			t.Errorf("%s: %v, want %v, waits %t", name, err, c.code, c.waits)
		}
	}
}

// gRPC's own retries wait for the field, and read no other.
func TestADenialOverGRPCHasAPushback(t *testing.T) {
	l := newLimiter(t, connect2mw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
	l.Decide(call())
	server := serving(l.Interceptor(), unary(greet, greeter))
	for _, w := range ways {
		ctx, info := connect.NewClientContext(t.Context())
		_, err := ask(ctx, w.open(t, server), greet, "Ann")
		got := parityAnswer(info, err).Fields.Get("Grpc-Retry-Pushback-Ms")
		if ms, err := strconv.Atoi(got); (err == nil && ms > 0) != strings.HasPrefix(w.name, "gRPC") {
			t.Errorf("%s: pushback %q", w.name, got)
		}
	}
}
