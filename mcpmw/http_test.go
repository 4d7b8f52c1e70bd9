package mcpmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
	"github.com/weir-go/weir/nethttp"
)

// flooded returns a limiter of HTTP that allows n requests a day besides those that end sessions.
func flooded(n int64, change ...func(*nethttp.Config)) *nethttp.Limiter {
	limit := limits.SlidingLog(limits.PerDay(n))
	everybody := keyfuncs.Constant[*http.Request]("everybody")
	ends := nethttp.Rule{Name: "ends", Limit: limit, Key: core.When(mcpmw.EndsSession, everybody)}
	config := nethttp.Config{
		Rules: []nethttp.Rule{ends, {
			Name: "requests", Limit: limit, Key: core.Otherwise([]nethttp.Rule{ends}, everybody),
		}},
		Denied: mcpmw.HTTPDenied,
	}
	for _, c := range change {
		c(&config)
	}
	return nethttp.MustNew(config)
}

// deny returns the answer to a POST that is denied.
func deny(t *testing.T, body string, change ...func(*nethttp.Config)) *httptest.ResponseRecorder {
	t.Helper()
	h := flooded(1, change...).Handler(http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(body)))
	return w
}

func TestARequestThatHTTPDeniesGetsAnErrorForItsID(t *testing.T) {
	many := strings.Repeat(`{"id":1,"method":"a"},`, 101)
	longest, longer := strings.Repeat("a", 254), strings.Repeat("a", 255)
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":"x","name":"a"}}`: "200 7",
		` {"method":"initialize","params":{},"jsonrpc":"2.0","id":"a\"b"} `:             `200 "a\"b"`,
		`{"id":-1,"method":"ping"}`:                                      "200 -1",
		`[{"id":1,"method":"a"},{"method":"b"},{"id":"2","method":"c"}]`: `200 [1 "2"]`,
		`{"id":0,"method":"a"}`:                                          "200 0",
		`{"id":"` + longest + `","method":"a"}`:                          `200 "` + longest + `"`,
		`[{"id":1,"method":"a"}]`:                                        "200 [1]",
		`[` + many[:22*100-1] + `]`:                                      "200 [1" + strings.Repeat(" 1", 99) + "]",
		`[` + many[:22*101-1] + `]`:                                      "429 <nil>",
		`[{"id":1,"method":"a"},{"id":"` + longer + `","method":"a"}]`:   "429 <nil>",
		`[{"id":1,"method":"a"},{"id":{},"method":"a"}]`:                 "429 <nil>",
		`[{"id":1,"method":"a"},{"id":null,"method":"a"}]`:               "200 [1]",
		`[{"id":1,"method":"a"},{"id":2,"result":{}}]`:                   "200 [1]",
		`[{"method":"b"}]`:                                               "429 <nil>",
		`[]`:                                                             "429 <nil>",
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`:           "429 <nil>",
		`{"jsonrpc":"2.0","id":3,"result":{}}`:                           "429 <nil>", // a response of the client
		`{"id":null,"method":"a"}`:                                       "429 <nil>",
		`{"id":{},"method":"a"}`:                                         "429 <nil>",
		`{"id":true,"method":"a"}`:                                       "429 <nil>",
		`{"id":"` + longer + `","method":"a"}`:                           "429 <nil>",
		`garbage`:                                                        "429 <nil>",
		`{"id":1,"method":"a"}{`:                                         "429 <nil>",
		``:                                                               "429 <nil>",
		`"text"`:                                                         "429 <nil>",
		`{"id":1,"method":"a","params":"` + strings.Repeat("a", 1<<20) + `"}`: "429 <nil>",
	} {
		w := deny(t, body)
		if got := fmt.Sprint(w.Code, " ", idsOf(t, w)); got != want {
			t.Errorf("%.60s: %s, want %s", body, got, want)
		}
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%.60s: %s", body, got)
		}
	}
}

// idsOf checks the errors of an answer, and returns its id or ids.
func idsOf(t *testing.T, w *httptest.ResponseRecorder) any {
	t.Helper()
	type response struct {
		JSONRPC string
		ID      json.RawMessage
		Error   struct {
			Code    int64
			Message string
			Data    struct {
				RetryAfter int64
				RateLimit  string
				Policy     string `json:"ratelimit-policy"`
			}
		}
	}
	var all []response
	var err error
	batch := strings.HasPrefix(w.Body.String(), "[")
	if batch {
		err = json.Unmarshal(w.Body.Bytes(), &all)
	} else {
		all = make([]response, 1)
		err = json.Unmarshal(w.Body.Bytes(), &all[0])
	}
	if err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	var ids []string
	for _, r := range all {
		if r.JSONRPC != "2.0" || r.Error.Code != mcpmw.CodeDenied || r.Error.Data.RetryAfter != 86400 ||
			r.Error.Message != "Too many requests: retry in 24 hours." ||
			!strings.HasPrefix(r.Error.Data.RateLimit, `"requests";r=0;t=86400`) ||
			r.Error.Data.Policy != `"requests";q=1;w=86400` {
			t.Errorf("%+v", r)
		}
		ids = append(ids, string(r.ID))
	}
	switch {
	case batch:
		return ids
	case ids[0] == "null":
		return nil
	}
	return ids[0]
}

func TestHTTPDeniedAnswersNothingElse(t *testing.T) {
	h := flooded(1).Handler(http.NotFoundHandler())
	message := `{"id":1,"method":"a"}`
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PUT", "/", strings.NewReader(message)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("PUT", "/", strings.NewReader(message)))
	if got := fmt.Sprint(w.Code, " ", idsOf(t, w)); got != "429 <nil>" {
		t.Errorf("another method: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 { // allowed, and after the client has left
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(message))
		r = r.WithContext(ctx)
		mcpmw.HTTPDenied(w, r, flooded(1).Decide(r))
		if w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
		cancel()
	}
}

func TestWhatHTTPCannotDecideIsUnavailable(t *testing.T) {
	broken := func(c *nethttp.Config) {
		c.Rules = []nethttp.Rule{{
			Name: "requests", Limit: limits.SlidingLog(limits.PerDay(1)),
			Key: func(*http.Request) (string, error) { return "", errors.New("secret") },
		}}
	}
	for body, want := range map[string]string{
		`{"id":1,"method":"a"}`: `200 {"jsonrpc":"2.0","id":1,"error":{"code":503,"message":` +
			`"The service cannot decide on this request right now: retry in 1 second.","data":{"retryAfter":1}}}`,
		`{"method":"a"}`: `503 {"jsonrpc":"2.0","id":null,"error":{"code":503,"message":` +
			`"The service cannot decide on this request right now: retry in 1 second.","data":{"retryAfter":1}}}`,
	} {
		if w := deny(t, body, broken); fmt.Sprint(w.Code, " ", w.Body) != want {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
}

func TestAWaitAboveTheBoundIsInTheDataOfAnError(t *testing.T) {
	w := deny(t, `{"id":1,"method":"a"}`, func(c *nethttp.Config) {
		c.Headers = headers.Options{MaxRetryAfter: 60e9}
	})
	if idsOf(t, w); w.Header().Get("Retry-After") != "" {
		t.Errorf("%v", w.Header())
	}
}

func TestABodyThatBreaksOffHasNoID(t *testing.T) {
	h := flooded(1).Handler(http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
	w := httptest.NewRecorder()
	body := io.MultiReader(strings.NewReader(`{"id":1,"method":"a"}`), iotest.ErrReader(io.ErrUnexpectedEOF))
	h.ServeHTTP(w, httptest.NewRequest("POST", "/", body))
	if w.Code != 429 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The session goes on, and ends, although the limiter denies.
func TestAClientGoesOnAfterADenialOfHTTP(t *testing.T) {
	server := echoServer()
	ended := make(chan bool, 1)
	flood := flooded(4) // initialize, its notification, the stream of events, a call
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(flood.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		if mcpmw.EndsSession(r) {
			ended <- true
		}
	})))
	defer web.Close()
	s := connectHTTP(t, web.URL)
	denied := 0
	for range 6 {
		_, err := callTool(t, s, "search")
		if err == nil && denied == 0 {
			continue
		}
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != mcpmw.CodeDenied {
			t.Fatal(err)
		}
		denied++
	}
	if denied < 4 {
		t.Errorf("%d denied", denied)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !<-ended {
		t.Error("the session has not ended")
	}
}

func TestALargeRequestThatHTTPDeniesGetsAnErrorForItsID(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		web := httptest.NewUnstartedServer(flooded(1).Handler(http.NotFoundHandler()))
		web.EnableHTTP2 = http2
		web.StartTLS()
		defer web.Close()
		for i, body := range []string{"", `{"id":1,"method":"a","params":"` + strings.Repeat("a", 900_000) + `"}`} {
			// A reader whose length is not known.
			response, err := web.Client().Post(web.URL, "application/json", io.MultiReader(strings.NewReader(body)))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if want := []int{404, 200}[i]; response.StatusCode != want {
				t.Errorf("HTTP/2 %t: %s, want %d", http2, response.Status, want)
			}
		}
	}
}

func TestTheFirstQuestionOfAClientPasses(t *testing.T) {
	for _, counted := range []bool{false, true} {
		n := 0
		l := newLimiter(t, mcpmw.Config{Rules: []mcpmw.Rule{{
			Name: "all", Limit: limits.FixedWindow(limits.PerDay(1)),
			Key: func(*mcpmw.Call) (string, error) { n++; return "", nil },
		}}, CountProbes: counted})
		server := newServer()
		s := connect(t, server)
		var request mcp.Request
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
				request = r
				return next(ctx, method, r)
			}
		})
		_, err := s.ListTools(t.Context(), nil)
		wantAllowed(t, err)
		passed := 0
		ask := l.Middleware()(func(context.Context, string, mcp.Request) (mcp.Result, error) {
			passed++
			return nil, nil
		})
		for range 3 {
			_, _ = ask(t.Context(), "server/discover", request)
		}
		if want := map[bool]int{false: 3, true: 1}[counted]; passed != want || counted == (n == 0) {
			t.Errorf("counted %t: %d passed, %d counted", counted, passed, n)
		}
	}
}

// Before 1.7 the SDK read it all into memory, before any rule of this package.
func TestTheSDKRefusesAnEndlessBody(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	handler := mcpmw.WithRequest(
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	body := io.LimitReader(endless{}, 1<<30)
	r := httptest.NewRequest("POST", "/", io.NopCloser(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if left := body.(*io.LimitedReader).N; w.Code != http.StatusRequestEntityTooLarge || left < 1<<29 {
		t.Errorf("status %d, and %d bytes are left, want 413 and most", w.Code, left)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}
