package connectmw_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

func everybody(limit limits.Limit) []connectmw.Rule {
	return []connectmw.Rule{{Name: "everybody", Limit: limit, Key: keyfuncs.Constant[*connectmw.Call]("everybody")}}
}

// The answers of the Connect protocol are those of HTTP.
func TestADenialIsAnHTTPAnswer(t *testing.T) {
	full := everybody(limits.TokenBucket(limits.PerDay(1), 1))
	full[0].DenyAs503 = true
	for status, rules := range map[int][]connectmw.Rule{
		429: everybody(limits.TokenBucket(limits.PerDay(1), 1)), 503: full,
	} {
		l := newLimiter(t, connectmw.Config{Rules: rules})
		c, server := start(t, connect.NewUnaryHandler(greet, greeter, connect.WithInterceptors(l.Interceptor())), false)
		for _, want := range []int{200, status} {
			response, err := c.Post(server+greet, "application/json", strings.NewReader(`"Ann"`))
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

// What a handler sets for its answer stays.
func TestFieldsOfHandlersStay(t *testing.T) {
	l := newLimiter(t, connectmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(9)))})
	shared := connect.NewError(connect.CodeNotFound, errors.New("no such thing")) // of all calls
	shared.Meta().Set("X-Own", "kept")
	c, server := start(t,
		connect.NewUnaryHandler(greet,
			func(_ context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
				if r.Msg.GetValue() == "" {
					return nil, shared
				}
				response := connect.NewResponse(wrapperspb.String("hello"))
				response.Header().Set("X-Own", "kept")
				return response, nil
			}, connect.WithInterceptors(l.Interceptor())), false)
	client := connect.NewClient[message, message](c, server+greet)
	response, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("x")))
	if err != nil || response.Header().Get("X-Own") != "kept" || response.Header().Get("RateLimit") == "" {
		t.Errorf("%v, %v", response, err)
	}
	for range 2 {
		_, err = client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("")))
		var e *connect.Error
		if !errors.As(err, &e) || e.Meta().Get("X-Own") != "kept" || len(e.Meta().Values("RateLimit")) != 1 {
			t.Errorf("%v", err)
		}
	}
	if len(shared.Meta()) != 1 {
		t.Errorf("an error of the program has been changed: %v", shared.Meta())
	}
}

func TestKeys(t *testing.T) {
	proxies := connectmw.Lift(keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8")))
	from := func(addr string, fields ...string) *connectmw.Call {
		c := call(fields...)
		c.Peer.Addr = addr
		return c
	}
	for _, c := range []struct {
		name string
		key  func(*connectmw.Call) (string, error)
		call *connectmw.Call
		want string
		err  error
	}{
		{"a peer", keyfuncs.Address(connectmw.Peer), from("192.0.2.1:1"), "192.0.2.1", nil},
		{"no peer", keyfuncs.Address(connectmw.Peer), from(""), "", keyfuncs.ErrUnidentified},
		{"an address that was written over the peer's", keyfuncs.Address(connectmw.Peer), from("192.0.2.1"), "",
			keyfuncs.ErrUnidentified},
		{"a client that forges a hop", proxies, from("192.0.2.1:1", "X-Forwarded-For", "203.0.113.7"), "192.0.2.1",
			nil},
		{"a client behind a proxy", proxies, from("10.0.0.1:1", "X-Forwarded-For", "203.0.113.7"), "203.0.113.7", nil},
		{"a host", connectmw.Lift(keyfuncs.Host), from("", "Host", "API.example:80"), "api.example", nil},
		{"a certificate that nobody has kept", connectmw.Lift(keyfuncs.SPIFFEID), from("192.0.2.1:1"), "",
			keyfuncs.ErrUnidentified},
		{"no service", connectmw.Service, new(connectmw.Call), "", nil},
	} {
		if got, err := c.key(c.call); got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	if connectmw.Lift[string](nil) != nil {
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
		read := func(call *connectmw.Call) (string, error) {
			key, err := connectmw.Lift(keyfuncs.SPIFFEID)(call)
			if key != c.key || !errors.Is(err, c.err) {
				t.Errorf("%s: %q, %v, want %q, %v", c.name, key, err, c.key, c.err)
			}
			return key, err
		}
		l := newLimiter(t, connectmw.Config{
			Rules: []connectmw.Rule{{Name: "a", Limit: limits.FixedWindow(limits.PerDay(9)), Key: read}},
		})
		handler := connectmw.WithTLS(connect.NewUnaryHandler(greet, greeter, connect.WithInterceptors(l.Interceptor())))
		r := httptest.NewRequest("POST", greet, strings.NewReader(`"Ann"`))
		r.Header.Set("Content-Type", "application/json")
		r.TLS = c.state
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("%s: status %d, want 200", c.name, w.Code)
		}
	}
}

// In a client an interceptor of a server has nothing to do.
func TestACallOfAClientPasses(t *testing.T) {
	l := newLimiter(t, connectmw.Config{Rules: everybody(limits.TokenBucket(limits.PerDay(1), 1))})
	c, server := start(t, connect.NewUnaryHandler(greet, greeter), false)
	client := connect.NewClient[message, message](c, server+greet, connect.WithInterceptors(l.Interceptor()))
	for range 3 {
		if _, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("Ann"))); err != nil {
			t.Error(err)
		}
	}
}

func TestQueuesWaitWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, connectmw.Config{Rules: everybody(limits.LeakyQueue(limits.PerMinute(1), 3))})
		next := l.Interceptor().WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
			return connect.NewResponse(wrapperspb.String("hello")), nil
		})
		ask := func(within time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			began := time.Now()
			_, err := next(ctx, connect.NewRequest(wrapperspb.String("")))
			return time.Since(began), err
		}
		ask(time.Hour)
		if took, err := ask(time.Hour); err != nil || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		if took, err := ask(time.Second); connect.CodeOf(err) != connect.CodeDeadlineExceeded || took != time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestMistakesAreReportedTogether(t *testing.T) {
	_, err := connectmw.New(connectmw.Config{
		Rules: []connectmw.Rule{{Name: "a"}}, MaxWaiting: -1, Headers: headers.Options{Jitter: -1},
	})
	for _, want := range []string{"key: is nil", "limit:", "max waiting", "jitter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: nothing of %q", err, want)
		}
	}
	var panics []string
	for _, use := range []func(){
		func() { (*connectmw.Limiter)(nil).Interceptor() },
		func() { new(connectmw.Limiter).Interceptor() },
		func() { connectmw.WithTLS(nil) },
	} {
		func() {
			defer func() { panics = append(panics, recover().(string)) }()
			use()
		}()
	}
	nilLimiter := "connectmw: Limiter.Interceptor: the limiter is nil or zero: make one with New"
	if !slices.Equal(panics, []string{nilLimiter, nilLimiter, "connectmw: WithTLS: next is nil"}) {
		t.Errorf("%q", panics)
	}
}

func TestHealthChecksPassUnlessProbesCount(t *testing.T) {
	for _, counted := range []bool{false, true} {
		l := newLimiter(t, connectmw.Config{
			Rules: everybody(limits.FixedWindow(limits.PerDay(1))), CountProbes: counted,
		})
		with := connect.WithInterceptors(l.Interceptor())
		mux := http.NewServeMux()
		const service = "/grpc.health.v1.Health/"
		mux.Handle(service+"Check", connect.NewUnaryHandler(service+"Check", greeter, with))
		mux.Handle(service+"List", connect.NewUnaryHandler(service+"List", greeter, with))
		mux.Handle(service+"Watch", connect.NewServerStreamHandler(service+"Watch",
			func(context.Context, *connect.Request[message], *connect.ServerStream[message]) error { return nil }, with))
		c, server := start(t, mux, false)
		passed := func(method string) bool {
			client := connect.NewClient[message, message](c, server+service+method)
			if method == "Watch" {
				stream, err := client.CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("")))
				if err != nil {
					t.Fatal(err)
				}
				defer stream.Close()
				stream.Receive()
				return stream.Err() == nil
			}
			_, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("")))
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

// gRPC's own retries wait for the field, and read no other.
func TestADenialOverGRPCHasAPushback(t *testing.T) {
	l := newLimiter(t, connectmw.Config{Rules: everybody(limits.FixedWindow(limits.PerDay(1)))})
	l.Decide(call())
	handler := connect.NewUnaryHandler(greet, greeter, connect.WithInterceptors(l.Interceptor()))
	for _, p := range protocols {
		c, server := start(t, handler, p.http2)
		_, err := connect.NewClient[message, message](c, server+greet, p.options...).CallUnary(t.Context(),
			connect.NewRequest(wrapperspb.String("Ann")))
		got := parityAnswer(err).Fields.Get("Grpc-Retry-Pushback-Ms")
		if ms, err := strconv.Atoi(got); (err == nil && ms > 0) != strings.HasPrefix(p.name, "gRPC") {
			t.Errorf("%s: pushback %q", p.name, got)
		}
	}
}
