package tokens_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/tokens"
)

func everyone(*http.Request) (string, error) { return "everyone", nil }

var quiet = log.New(io.Discard, "", 0)

// gateway is a server in front of an upstream, with one rule of tokens.
type gateway struct {
	url     string
	limiter *nethttp.Limiter
	settled chan limits.Settlement
}

// newGateway serves upstream behind a ReverseProxy with a limit of 10,000 tokens.
func newGateway(t *testing.T, config tokens.Config, upstream http.Handler,
	rewrites ...func(*httputil.ProxyRequest)) *gateway {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return gatewayOf(t, config, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			for _, rewrite := range rewrites {
				rewrite(r)
			}
			r.SetURL(target)
		},
		ErrorLog: quiet,
	})
}

func gatewayOf(t *testing.T, config tokens.Config, next http.Handler) *gateway {
	t.Helper()
	g := &gateway{settled: make(chan limits.Settlement, 100)}
	g.limiter = nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{tokens.ByCount(nethttp.Rule{
			Name: "tokens", Key: everyone, Limit: limits.FixedWindow(limits.Per(10_000, 24*time.Hour)),
		})},
		Observer: core.ObserverFuncs[*http.Request]{OnEnd: func(s limits.Settlement) { g.settled <- s }},
	})
	handler := tokens.MustNew(config).Handler(tokens.ChatCompletions, g.limiter.Handler, next)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = quiet
	server.Start()
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// post sends a body. The answer is closed when the test ends.
func (g *gateway) post(t *testing.T, ctx context.Context, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", g.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err == nil {
		t.Cleanup(func() { response.Body.Close() })
	}
	return response, err
}

// costs requires that the next request to end was estimated at 1000 tokens and has used want.
func (g *gateway) costs(t *testing.T, want int64) {
	t.Helper()
	if s := <-g.settled; s.Taken != 1000 || s.Final != want {
		t.Errorf("took %d and charged %d in the end, want 1000 and %d", s.Taken, s.Final, want)
	}
}

func answering(media, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", media)
		io.WriteString(w, text)
	}
}

func TestEachEventPassesAtOnceAndUnchanged(t *testing.T) {
	next := make(chan string)
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent, _ := io.ReadAll(r.Body); string(sent) != string(body) {
			t.Errorf("upstream got the body %q", sent)
		}
		w.Header().Set("Content-Type", stream)
		for event := range next {
			io.WriteString(w, event)
			w.(http.Flusher).Flush()
		}
	}))
	go func() { next <- "data: 1\n\n" }()
	response, err := g.post(t, t.Context(), string(body))
	if err != nil {
		t.Fatal(err)
	}
	answer := bufio.NewReader(response.Body)
	for i, event := range []string{"data: 1\n\n", "data: {\n", "data: \"usage\":{\"prompt_tokens\":7,\n",
		"data: \"completion_tokens\":5}}\n", "\n", "data: [DONE]"} {
		if i > 0 {
			next <- event // upstream sends nothing before the last one has arrived
		}
		got := make([]byte, len(event))
		if _, err := io.ReadFull(answer, got); err != nil || string(got) != event {
			t.Fatalf("got %q (%v), want %q", got, err, event)
		}
	}
	close(next)
	if rest, err := io.ReadAll(answer); len(rest) > 0 || err != nil {
		t.Errorf("then %q (%v)", rest, err)
	}
	g.costs(t, 12)
}

func TestAnAnswerCostsWhatItSays(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			g := newGateway(t, tokens.Config{CountText: a.byText}, answering(a.media, a.text))
			response, err := g.post(t, t.Context(), string(body))
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(response.Body); string(text) != a.text || err != nil {
				t.Errorf("the answer is %q (%v)", text, err)
			}
			want := min(a.want.Input, 1<<62) + min(a.want.Output, 1<<62-1)
			if s := <-g.settled; s.Final != want && want < 1<<62 {
				t.Errorf("charged %d, want %d", s.Final, want)
			}
		})
	}
}

func TestAnErrorOfTheModelCostsNothing(t *testing.T) {
	for _, status := range []int{400, 401, 404, 429, 500, 502, 503, 504, 529} {
		g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", plain)
			w.WriteHeader(status)
			io.WriteString(w, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
		}))
		if response, err := g.post(t, t.Context(), string(body)); err != nil || response.StatusCode != status {
			t.Errorf("%d: %v (%v)", status, response, err)
		}
		g.costs(t, 0)
	}
}

func TestAnUpstreamThatIsNotThereCostsNothing(t *testing.T) {
	g := gatewayOf(t, tokens.Config{}, &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "127.0.0.1:0"}) },
		ErrorLog: quiet,
	})
	if response, err := g.post(t, t.Context(), string(body)); err != nil || response.StatusCode != 502 {
		t.Errorf("%v (%v)", response, err)
	}
	g.costs(t, 0)
}

// The model has worked, or still does.
func TestARequestWithoutAnAnswerCostsItsEstimate(t *testing.T) {
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints) // no answer
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}))
	if response, err := g.post(t, t.Context(), string(body)); err != nil || response.StatusCode != 502 {
		t.Errorf("%v (%v)", response, err)
	}
	g.costs(t, 1000)
}

// An ErrorHandler may say more than a ReverseProxy does by itself. A hint is no answer either.
func TestAHintWithoutAnAnswerCostsTheEstimate(t *testing.T) {
	server := httptest.NewServer(raw("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"))
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	g := gatewayOf(t, tokens.Config{}, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "no answer", http.StatusGatewayTimeout)
		},
	})
	if response, err := g.post(t, t.Context(), string(body)); err != nil || response.StatusCode != 504 {
		t.Errorf("%v (%v)", response, err)
	}
	g.costs(t, 1000)
}

// raw answers each connection with bytes, which need not be HTTP, and closes it.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		buffered.WriteString(answer)
		buffered.Flush()
		conn.Close()
	}
}

// The model has got the request, and may have worked.
func TestAnAnswerThatIsNoneCostsTheEstimate(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for _, c := range []struct {
		answer string
		status int // 0: the connection of the client breaks off
		want   int64
	}{
		{"garbage\r\n\r\n", 502, 1000},
		{"H", 502, 1000},
		{"HTTP/1.1 abc OK\r\n\r\n", 502, 1000},
		{"HTTP/1.1 200 OK\r\nContent", 502, 1000},
		{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 502, 1000},
		{"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\ngarbage\r\n\r\n", 502, 1000},
		{ok + "Content-Length: 9\r\n\r\ngarbage", 0, 1000},
		{ok + "Transfer-Encoding: chunked\r\n\r\ngarbage\r\n", 0, 1000},
		{ok + "Content-Length: 7\r\n\r\ngarbage", 200, 1000},
		{ok + "Content-Length: 0\r\n\r\n", 200, 1000},
		{"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", 502, 0},
		{"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\nbad", 502, 0},
		{"HTTP/1.1 500 Internal Server Error\r\nDate: x\r\nConnection: close\r\n\r\n", 500, 0},
	} {
		g := newGateway(t, tokens.Config{}, raw(c.answer))
		response, err := g.post(t, t.Context(), string(body))
		status := 0
		if err == nil {
			if _, err := io.ReadAll(response.Body); err == nil {
				status = response.StatusCode
			}
		}
		if status != c.status {
			t.Errorf("%q: %d (%v), want %d", c.answer, status, err, c.status)
		}
		if s := <-g.settled; s.Final != c.want {
			t.Errorf("%q: charged %d, want %d", c.answer, s.Final, c.want)
		}
	}
}

// ReverseProxy answers 502, which the client does not see.
func TestAClientThatLeavesBeforeTheAnswerPays(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		leave()
		<-r.Context().Done()
	}))
	if _, err := g.post(t, ctx, string(body)); err == nil {
		t.Error("there was an answer")
	}
	g.costs(t, 1000)
}

// transport is a function that is a RoundTripper.
type transport func(*http.Request, *httptrace.ClientTrace) error

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, r.Body)
	return nil, f(r, httptrace.ContextClientTrace(r.Context()))
}

// The first bytes of the answer need not be all of its header.
func TestAClientThatLeavesAsTheAnswerBeginsPays(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	g := gatewayOf(t, tokens.Config{}, &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, ErrorLog: quiet,
		Transport: transport(func(r *http.Request, trace *httptrace.ClientTrace) error {
			trace.WroteRequest(httptrace.WroteRequestInfo{})
			trace.GotFirstResponseByte()
			leave()
			<-r.Context().Done()
			return r.Context().Err()
		}),
	})
	if _, err := g.post(t, ctx, string(body)); err == nil {
		t.Error("there was an answer")
	}
	g.costs(t, 1000)
}

// A Transport may read and close a body when its caller has closed it.
func TestABodyIsReadAndClosedByTwo(t *testing.T) {
	g := gatewayOf(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sending sync.WaitGroup
		sending.Go(func() {
			if sent, err := io.ReadAll(r.Body); !strings.HasPrefix(string(body), string(sent)) || err != nil {
				t.Errorf("sent %q (%v)", sent, err)
			}
			r.Body.Close()
		})
		r.Body.Close()
		sending.Wait()
		answering(plain, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`)(w, r)
	}))
	if _, err := g.post(t, t.Context(), string(body)); err != nil {
		t.Error(err)
	}
	g.costs(t, 5)
}

// A handler may ask another server before the model, such as one that moderates.
func TestAnAnswerOfAnotherServerIsNotTheModels(t *testing.T) {
	moderation := httptest.NewServer(answering(plain, "{}"))
	defer moderation.Close()
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		panic(http.ErrAbortHandler) // the connection breaks off
	}), func(r *httputil.ProxyRequest) {
		ask, err := http.NewRequestWithContext(r.In.Context(), "GET", moderation.URL, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if answer, err := http.DefaultClient.Do(ask); err != nil {
			t.Error(err)
		} else {
			answer.Body.Close()
		}
	})
	if response, err := g.post(t, t.Context(), string(body)); err != nil || response.StatusCode != 502 {
		t.Errorf("%v (%v)", response, err)
	}
	g.costs(t, 1000)
}

func TestARefusalAfterAskingAnotherServerCostsNothing(t *testing.T) {
	moderation := httptest.NewServer(answering(plain, "{}"))
	defer moderation.Close()
	g := gatewayOf(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ask, err := http.NewRequestWithContext(r.Context(), "GET", moderation.URL, nil)
		if err != nil {
			t.Error(err)
		}
		if answer, err := http.DefaultClient.Do(ask); err != nil {
			t.Error(err)
		} else {
			answer.Body.Close()
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	if response, err := g.post(t, t.Context(), string(body)); err != nil || response.StatusCode != 403 {
		t.Errorf("%v (%v)", response, err)
	}
	g.costs(t, 0)
}

func TestAClientThatLeavesAStreamPaysWhatIsKnown(t *testing.T) {
	for _, c := range []struct {
		name   string
		events string
		config tokens.Config
		want   int64
	}{
		{"nothing is known", `data: {"choices":[{"delta":{"content":"abcdefgh"}}]}` + "\n\n", tokens.Config{}, 1000},
		{"the input is known", messageStart, tokens.Config{}, 530 + 900},
		{"all is known", messageStart + messageDelta, tokens.Config{}, 530 + 15},
		{"the text counts", `data: {"choices":[{"delta":{"content":"abcdefgh"}}]}` + "\n\n",
			tokens.Config{CountText: true}, 100 + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			g := newGateway(t, c.config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", stream)
				io.WriteString(w, c.events)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}))
			response, err := g.post(t, ctx, string(body))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(response.Body, make([]byte, len(c.events))); err != nil {
				t.Fatal(err)
			}
			leave()
			g.costs(t, c.want)
		})
	}
}

// A ReverseProxy panics when a stream breaks off.
func TestABrokenStreamCostsWhatIsKnown(t *testing.T) {
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", stream)
		io.WriteString(w, messageStart+messageDelta)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	response, err := g.post(t, t.Context(), string(body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("the stream ends without an error: %q", text)
	}
	g.costs(t, 530+15)
}

func TestAHintIsNoAnswer(t *testing.T) {
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		answering(plain, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`)(w, r)
	}))
	if response, err := g.post(t, t.Context(), string(body)); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v (%v)", response, err)
	}
	g.costs(t, 5)
}

func TestTheModelIsAskedForReadableAnswers(t *testing.T) {
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, want := range map[string]string{"Accept-Encoding": "identity", "Upgrade": "", "Expect": "",
			"X-Other": "yes"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		answering(plain, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`)(w, r)
	}))
	r, err := http.NewRequestWithContext(t.Context(), "POST", g.url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Accept-Encoding": "gzip, br", "Connection": "Upgrade",
		"Upgrade": "websocket", "Expect": "100-continue", "X-Other": "yes"} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	g.costs(t, 5)
}

func TestACompressedAnswerCostsItsEstimate(t *testing.T) {
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		answering(plain, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`)(w, r)
	}))
	if _, err := g.post(t, t.Context(), string(body)); err != nil {
		t.Fatal(err)
	}
	g.costs(t, 1000)
}

// LiteLLM and others have let parallel requests spend several times their budget.
func TestFiveRequestsAtOnceDoNotSpendMoreThanTheBudget(t *testing.T) {
	arrived, all := make(chan struct{}, 5), make(chan struct{})
	g := newGateway(t, tokens.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-all // all are in flight at once
		answering(plain, `{"usage":{"prompt_tokens":100,"completion_tokens":3000}}`)(w, r)
	}))
	request := fmt.Sprintf(`{"max_tokens":3000,"messages":%q}`, strings.Repeat("x", 360))
	statuses := make(chan int, 5)
	for range 5 {
		go func() {
			response, err := g.post(t, t.Context(), request)
			if err != nil {
				t.Error(err)
				statuses <- 0
				return
			}
			statuses <- response.StatusCode
		}()
	}
	count := make(map[int]int)
	for range 2 {
		count[<-statuses]++ // denied while the others run
	}
	for range 3 {
		<-arrived
	}
	close(all)
	for range 3 {
		count[<-statuses]++
	}
	if count[http.StatusOK] != 3 || count[http.StatusTooManyRequests] != 2 {
		t.Errorf("statuses: %v, want three of 3,100 tokens each of 10,000", count)
	}
}

func TestWhatIsNoRequestToAModelIsRefused(t *testing.T) {
	g := newGateway(t, tokens.Config{MaxBody: 100}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("it was passed on")
	}))
	for _, c := range []struct {
		method, body, encoding string
		want                   int
	}{
		{"GET", "", "", 405}, {"HEAD", "", "", 405}, {"OPTIONS", "", "", 405}, {"PUT", "{}", "", 405},
		{"POST", "", "", 400}, {"POST", "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--", "", 400},
		{"POST", "model=m", "", 400}, {"POST", "[]", "", 400}, {"POST", `{} {}`, "", 400},
		{"POST", `{"messages":"` + strings.Repeat("x", 100) + `"}`, "", 413},
		{"POST", "{}", "gzip", 415},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, g.url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s %q: %s, want %d", c.method, c.body, response.Status, c.want)
		}
	}
}

// A middleware between limiter and model may answer, too.
// OpenAI's SDK for Python 3.57.0 shows its user nothing of a text: error.message of JSON alone.
func TestARefusalIsADocumentThatSDKsShow(t *testing.T) {
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{"small": {Input: 1}}})
	same := func(next http.Handler) http.Handler { return next }
	handler := meter.Handler(tokens.ChatCompletions, same, answering(plain, "{}"))
	for _, c := range []struct{ method, body, want string }{
		{"GET", "", "the method must be POST"},
		{"POST", `{"model":"large"}`, "the model is not offered here: ask for another one"},
		{"POST", `{"model":"small","n":1,"n":2}`, `\"n\" must be there once`},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(c.method, "/", strings.NewReader(c.body)))
		want := `{"type":"error","error":{"type":"invalid_request_error","message":"` + c.want + `"}}`
		if got := w.Body.String(); got != want {
			t.Errorf("%s %s: got %s, want %s", c.method, c.body, got, want)
		}
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%s %s: Content-Type %q", c.method, c.body, got)
		}
	}
}

func TestARequestThatTheModelNeverSawCostsNothing(t *testing.T) {
	settled := make(chan limits.Settlement, 1)
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{tokens.ByCount(nethttp.Rule{
			Name: "tokens", Key: everyone, Limit: limits.SlidingWindow(limits.PerMinute(10_000)),
		})},
		Observer: core.ObserverFuncs[*http.Request]{OnEnd: func(s limits.Settlement) { settled <- s }},
	})
	forbid := func(http.Handler) http.Handler {
		return limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "not you", http.StatusForbidden)
		}))
	}
	handler := tokens.MustNew(tokens.Config{}).Handler(tokens.Messages, forbid, answering(plain, "{}"))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(string(body))))
	if s := <-settled; s.Taken != 1000 || s.Final != 0 {
		t.Errorf("charged %d of %d, want nothing", s.Final, s.Taken)
	}
}

func TestABodyThatServersDecodeIsRefused(t *testing.T) {
	g := newGateway(t, tokens.Config{}, answering(plain, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`))
	for _, c := range []struct {
		name   string
		values []string
		want   int
	}{
		{"Content-Encoding", []string{"identity", "gzip"}, 415},
		{"Content-Encoding", []string{"identity, gzip"}, 415},
		{"Content-Encoding", []string{"Identity"}, 200},
		{"Content-Type", []string{"application/json; charset=utf-7"}, 415},
		{"Content-Type", []string{"application/json", "application/json; Charset=utf-16le"}, 415},
		{"Content-Type", []string{"application/json; charset=utf-8; charset=utf-7"}, 415},
		{"Content-Type", []string{`application/json; charset="UTF-8"`}, 200},
		{"Content-Type", []string{"text/plain"}, 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", g.url, strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header[c.name] = c.values
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s %q: %s, want %d", c.name, c.values, response.Status, c.want)
		}
	}
}

// A handler that retries may be around the limiter, which decides each try.
func TestARetryIsEstimatedLikeTheFirstTry(t *testing.T) {
	settled := make(chan limits.Settlement, 2)
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{tokens.ByCount(nethttp.Rule{
			Name: "tokens", Key: everyone, Limit: limits.SlidingWindow(limits.PerMinute(10_000)),
		})},
		Observer: core.ObserverFuncs[*http.Request]{OnEnd: func(s limits.Settlement) { settled <- s }},
	})
	twice := func(next http.Handler) http.Handler {
		limited := limiter.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limited.ServeHTTP(httptest.NewRecorder(), r)
			limited.ServeHTTP(w, r)
		})
	}
	tries := 0
	model := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		} // the second answer is empty
	})
	tokens.MustNew(tokens.Config{}).Handler(tokens.Messages, twice, model).ServeHTTP(httptest.NewRecorder(),
		httptest.NewRequest("POST", "/", strings.NewReader(string(body))))
	for _, want := range []int64{0, 1000} {
		if s := <-settled; s.Taken != 1000 || s.Final != want {
			t.Errorf("took %d and charged %d in the end, want 1000 and %d", s.Taken, s.Final, want)
		}
	}
}

// The second try tells nothing, so the usage of the first does not count for it.
func TestARetryForgetsTheAnswerOfTheFirstTry(t *testing.T) {
	var settled []int64
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{tokens.ByCount(nethttp.Rule{
			Name: "tokens", Key: everyone, Limit: limits.SlidingWindow(limits.PerMinute(10_000)),
		})},
		Observer: core.ObserverFuncs[*http.Request]{OnEnd: func(s limits.Settlement) { settled = append(settled, s.Final) }},
	})
	twice := func(next http.Handler) http.Handler {
		limited := limiter.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limited.ServeHTTP(httptest.NewRecorder(), r)
			limited.ServeHTTP(w, r)
		})
	}
	tries := 0
	model := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			answering(plain, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`)(w, r)
		}
	})
	tokens.MustNew(tokens.Config{}).Handler(tokens.Messages, twice, model).ServeHTTP(httptest.NewRecorder(),
		httptest.NewRequest("POST", "/", strings.NewReader(string(body))))
	if !slices.Equal(settled, []int64{5, 1000}) {
		t.Errorf("charged %v, want 5 and 1000", settled)
	}
}

func TestOuterHandlersKeepTheirHeader(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
	r.Header.Set("Accept-Encoding", "gzip")
	limit := func(next http.Handler) http.Handler { return next }
	tokens.MustNew(tokens.Config{}).Handler(tokens.Messages, limit, answering(plain, "{}")).ServeHTTP(
		httptest.NewRecorder(), r)
	if got := r.Header.Get("Accept-Encoding"); got != "gzip" {
		t.Errorf("a handler that compresses sees %q", got)
	}
}

// Without an estimate nothing passes.
func TestARuleOutsideAHandlerFails(t *testing.T) {
	window := limits.SlidingWindow(limits.PerMinute(10_000))
	serve := func(config tokens.Config, bare bool, rules ...nethttp.Rule) int {
		limiter := nethttp.MustNew(nethttp.Config{Rules: rules, Logger: discard})
		next := answering(plain, "{}")
		handler := limiter.Handler(next)
		if !bare {
			handler = tokens.MustNew(config).Handler(tokens.Messages, limiter.Handler, next)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(string(body))))
		return w.Code
	}
	rule := func(name string) nethttp.Rule { return nethttp.Rule{Name: name, Key: everyone, Limit: window} }
	open := rule("open")
	open.OnFailure = core.FailOpen
	byModel := rule("model")
	byModel.Key = tokens.Model
	prices := tokens.Config{Prices: map[string]tokens.Price{"m": {Input: 1, Output: 1}}}
	others := tokens.Config{Prices: map[string]tokens.Price{"n": {}}}
	for name, c := range map[string]struct{ got, want int }{
		"tokens, no handler":  {serve(prices, true, tokens.ByCount(rule("a"))), 503},
		"money, no handler":   {serve(prices, true, tokens.ByPrice(rule("a"))), 503},
		"model, no handler":   {serve(prices, true, byModel), 503},
		"open, no handler":    {serve(prices, true, tokens.ByCount(open)), 200},
		"money, no prices":    {serve(tokens.Config{}, false, tokens.ByPrice(rule("a"))), 503},
		"tokens and a model":  {serve(tokens.Config{}, false, tokens.ByCount(rule("a")), byModel), 200},
		"tokens and money":    {serve(prices, false, tokens.ByCount(rule("a")), tokens.ByPrice(rule("b"))), 200},
		"no price for it":     {serve(others, false, tokens.ByCount(rule("a"))), 400},
		"two rules of tokens": {serve(tokens.Config{}, false, tokens.ByCount(rule("a")), tokens.ByCount(rule("b"))), 200},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
}

func TestAnswersTellTokensAsTokens(t *testing.T) {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "requests", Key: everyone, Limit: limits.FixedWindow(limits.PerMinute(5))},
			tokens.ByCount(nethttp.Rule{
				Name: "tokens", Key: everyone, Limit: limits.FixedWindow(limits.PerMinute(10_000)),
			}),
			tokens.ByCount(nethttp.Rule{
				Name: "output", Key: everyone, Limit: limits.FixedWindow(limits.PerMinute(20_000)),
				Unit: core.OutputTokens,
			}),
		},
		Headers: headers.Options{Formats: []headers.Format{headers.IETF, headers.OpenAI}},
	})
	handler := tokens.MustNew(tokens.Config{}).Handler(
		tokens.ChatCompletions, limiter.Handler, answering("application/json", `{}`))
	r := httptest.NewRequest("POST", "/", strings.NewReader(string(body)))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	for field, want := range map[string]string{
		"X-RateLimit-Remaining-Requests": "4",
		"X-RateLimit-Remaining-Tokens":   "9000",
		"RateLimit-Policy": `"requests";q=5;w=60, "tokens";q=10000;qu="tokens";w=60, ` +
			`"output";q=20000;qu="output-tokens";w=60`,
	} {
		if got := w.Header().Get(field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
}

func TestAHandlerNeedsItsParts(t *testing.T) {
	meter, next := tokens.MustNew(tokens.Config{}), answering(plain, "{}")
	limit := func(next http.Handler) http.Handler { return next }
	for name, f := range map[string]func(){
		"a nil meter":  func() { (*tokens.Meter)(nil).Handler(tokens.Messages, limit, next) },
		"a zero meter": func() { new(tokens.Meter).Handler(tokens.Messages, limit, next) },
		"no api":       func() { meter.Handler(0, limit, next) },
		"no limit":     func() { meter.Handler(tokens.Messages, nil, next) },
		"no next":      func() { meter.Handler(tokens.Messages, limit, nil) },
	} {
		func() {
			defer func() {
				if v, ok := recover().(string); !ok || !strings.HasPrefix(v, "tokens: Meter.Handler: ") {
					t.Errorf("%s: %q", name, v)
				}
			}()
			f()
		}()
	}
}

// The sum of both would be spent under both.
func TestTwoRulesOfOneNameWithDifferentUnitsFail(t *testing.T) {
	rule := nethttp.Rule{Name: "a", Key: everyone, Limit: limits.SlidingWindow(limits.PerMinute(10_000))}
	outer := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{tokens.ByCount(rule)}, Logger: discard})
	inner := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{tokens.ByPrice(rule)}, Logger: discard})
	limit := func(next http.Handler) http.Handler { return outer.Handler(inner.Handler(next)) }
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{"m": {Input: 1}}})
	w := httptest.NewRecorder()
	meter.Handler(tokens.Messages, limit, answering(plain, "{}")).ServeHTTP(w,
		httptest.NewRequest("POST", "/", strings.NewReader(string(body))))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", w.Code)
	}
}

// Each would be charged by both meters.
func TestTwoMetersWithRulesOfOneNameFail(t *testing.T) {
	for inner, want := range map[string]int{"a": http.StatusServiceUnavailable, "b": http.StatusOK} {
		charged := make(map[string]int64)
		handler := http.Handler(answering(plain, `{"usage":{"prompt_tokens":3,"completion_tokens":2}}`))
		for _, name := range []string{inner, "a"} {
			limiter := nethttp.MustNew(nethttp.Config{Logger: discard, Rules: []nethttp.Rule{
				tokens.ByCount(nethttp.Rule{Name: name, Key: everyone, Limit: limits.SlidingWindow(limits.PerMinute(10_000))}),
			}, Observer: core.ObserverFuncs[*http.Request]{OnEnd: func(s limits.Settlement) { charged[s.Rule] = s.Final }}})
			handler = tokens.MustNew(tokens.Config{}).Handler(tokens.Messages, limiter.Handler, handler)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(string(body))))
		if w.Code != want {
			t.Errorf("rules a and %s: status %d, want %d", inner, w.Code, want)
		}
		if want == http.StatusOK && (charged["a"] != 5 || charged["b"] != 5) {
			t.Errorf("charged %v, want 5 each", charged)
		}
	}
}

var discard = slog.New(slog.DiscardHandler)
