package tokens_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/tokens"
)

// teamAndModel is the key of a budget per team and per model.
var teamAndModel = keyfuncs.Join(keyfuncs.Header("Team"), tokens.Model)

// budgets returns a gateway that has taken 30 tokens of the model "m" for the team "a", and its quota.
func budgets(t *testing.T, backend backends.Backend, options headers.Options) (
	post func(body string, accept ...string) *httptest.ResponseRecorder, quota http.Handler,
) {
	t.Helper()
	limiter := nethttp.MustNew(nethttp.Config{
		Backend: backend, Headers: options,
		Rules: []nethttp.Rule{
			tokens.ByCount(nethttp.Rule{Name: "tokens", Key: everyone, Limit: limits.Calendar(1000, limits.Day)}),
			tokens.ByPrice(nethttp.Rule{Name: "budget", Key: everyone, Limit: limits.Calendar(100_000, limits.Month)}),
			tokens.ByCount(nethttp.Rule{Name: "per model", Key: teamAndModel, Limit: limits.Calendar(500, limits.Day)}),
			{Name: "requests", Key: everyone, Limit: limits.Calendar(50, limits.Day)},
		},
	})
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{"m": {Input: million, Output: 2 * million}}})
	handler := meter.Handler(tokens.Responses, limiter.Handler, answering(plain,
		`{"usage":{"input_tokens":20,"output_tokens":10}}`))
	post = func(body string, accept ...string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/responses", strings.NewReader(body))
		r.Header.Set("Team", "a")
		r.Header["Accept"] = accept
		handler.ServeHTTP(w, r)
		return w
	}
	if w := post(`{"model":"m","max_output_tokens":100}`); w.Code != http.StatusOK {
		t.Fatalf("the answer is %d: %s", w.Code, w.Body)
	}
	return post, limiter.Quota()
}

type left struct {
	Used, Remaining int64
	Unit            string
}

// ask asks for the quota of team a.
func ask(t *testing.T, quota http.Handler, target string) map[string]left {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", target, nil)
	r.Header.Set("Team", "a")
	quota.ServeHTTP(w, r)
	var answer struct{ Resources map[string]left }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d (%v): %s", target, w.Code, err, w.Body)
	}
	return answer.Resources
}

func TestAQuotaTellsTokensAndMoney(t *testing.T) {
	for name, open := range stores {
		inBubble(t, name, func(t *testing.T) {
			_, quota := budgets(t, open(t), headers.Options{})
			time.Sleep(time.Second) // Redis is told the end in the background
			for range 2 {           // asking takes nothing
				got := ask(t, quota, "/rate_limit")
				want := map[string]left{"tokens": {30, 970, "tokens"}, "budget": {40, 99_960, "money"}, "requests": {1, 49, ""}}
				if len(got) != len(want) {
					t.Errorf("the quota is %v", got)
				}
				for rule, want := range want {
					if got[rule] != want {
						t.Errorf("%s: %+v, want %+v", rule, got[rule], want)
					}
				}
			}
			if got := ask(t, quota, "/rate_limit?model=m")["per model"]; got != (left{30, 470, "tokens"}) {
				t.Errorf("of the model: %+v", got)
			}
			if got := ask(t, quota, "/rate_limit?model=other")["per model"]; got != (left{0, 500, "tokens"}) {
				t.Errorf("of another model: %+v", got)
			}
		})
	}
}

func TestARuleThatDeniesIsInTheQuota(t *testing.T) {
	post, quota := budgets(t, memory.MustNew(memory.Options{}), headers.Options{Show: headers.OnDenial})
	if got := ask(t, quota, "/rate_limit"); len(got) != 0 {
		t.Errorf("before: %v", got)
	}
	for range 40 {
		post(`{"model":"m","max_output_tokens":1}`)
	}
	if got := ask(t, quota, "/rate_limit?model=m"); got["per model"].Unit != "tokens" || got["per model"].Remaining != 0 {
		t.Errorf("after: %v", got)
	}
}

func TestAModelWithoutAMeterIsExplainedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		limiter := nethttp.MustNew(nethttp.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Rules:  []nethttp.Rule{{Name: "at once", Key: tokens.Model, Limit: limits.Concurrent(3)}},
		})
		w := httptest.NewRecorder()
		limiter.Handler(answering(plain, "{}")).ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
		synctest.Wait()
		want := "Model is for requests that a Meter's Handler serves"
		if w.Code != 503 || !strings.Contains(log.String(), want) {
			t.Errorf("%d, and the log says %s", w.Code, &log)
		}
	})
}

func TestOperatorsAskWhatATokenWouldMeet(t *testing.T) {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
		tokens.ByCount(nethttp.Rule{Name: "tokens", Key: everyone, Limit: limits.Calendar(1000, limits.Day)}),
		{Name: "at once", Key: tokens.Model, Limit: limits.Concurrent(3)},
	}})
	o := limiter.Explain(httptest.NewRequest("POST", "/v1/responses?model=m", nil))
	if o.Err() != nil || o.Len() != 2 || o.At(0).Remaining != 1000 || o.At(1).Key != "m" {
		t.Errorf("%v (%v), %d rules", o.Verdict(), o.Err(), o.Len())
	}
}

// A client of OpenAI takes x-ratelimit-limit-requests for a number of requests.
func TestFieldsTellTokensAndMoneyFromRequests(t *testing.T) {
	post, _ := budgets(t, memory.MustNew(memory.Options{}), headers.Options{
		Formats: []headers.Format{headers.OpenAI, headers.Anthropic, headers.IETF},
	})
	h := post(`{"model":"m","max_output_tokens":100}`).Header()
	for field, want := range map[string]string{
		"X-Ratelimit-Limit-Requests": "50", "X-Ratelimit-Limit-Tokens": "500",
		"Anthropic-Ratelimit-Requests-Limit": "50", "Anthropic-Ratelimit-Tokens-Limit": "500",
	} {
		if got := h.Get(field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	for _, want := range []string{`"tokens";q=1000;qu="tokens"`, `"budget";q=100000;qu="money"`, `"requests";q=50;w=`} {
		if got := h.Get("RateLimit-Policy"); !strings.Contains(got, want) {
			t.Errorf("RateLimit-Policy is %s, want %s in it", got, want)
		}
	}
}

func TestADenialForEverSaysWhichPartMadeItSo(t *testing.T) {
	picture := `{"image_url":"data:image/png;base64,AAAA"}`
	many := strings.TrimSuffix(strings.Repeat(picture+",", 3), ",")
	for _, c := range []struct{ body, want string }{
		{`{"model":"m","max_output_tokens":100000}`,
			"It may use 100010 tokens: 100000 of output (max_output_tokens) and 10 of text."},
		{`{"model":"m","max_output_tokens":10,"input":[` + picture + `]}`,
			"It may use 5026 tokens: 5000 of a picture, 16 of text and 10 of output (max_output_tokens)."},
		{`{"model":"m","max_output_tokens":10,"input":[` + many + `]}`,
			"It may use 15035 tokens: 15000 of 3 pictures, 25 of text and 10 of output (max_output_tokens)."},
		{`{"model":"m","input":[]}`,
			"It may use 4102 tokens: 4096 of output (the request names no maximum) and 6 of text."},
	} {
		for name, open := range stores {
			inBubble(t, name, func(t *testing.T) {
				post, _ := budgets(t, open(t), headers.Options{})
				for media, begin := range map[string]string{"application/json": "{", "text/plain": "This request"} {
					w := post(c.body, media)
					if got := w.Body.String(); w.Code != 429 || w.Header().Get("Retry-After") != "" ||
						!strings.Contains(got, c.want) || !strings.HasPrefix(got, begin) {
						t.Errorf("%s, %s: %d: %s, want %s in it", media, c.body, w.Code, got, c.want)
					}
				}
			})
		}
	}
}

// inBubble runs f in a bubble, as a test of that name.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// stores open a store in memory, and one on a Redis in the bubble.
var stores = map[string]func(*testing.T) backends.Backend{
	"memory": func(*testing.T) backends.Backend { return memory.MustNew(memory.Options{}) },
	"Redis": func(t *testing.T) backends.Backend {
		testrun.NeedsMiniredis(t)
		server := miniredis.NewMiniRedis()
		client := redis.NewClient(&redis.Options{
			Addr: "198.51.100.1:6379", MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				client, served := net.Pipe()
				server.Server().ServeConn(served)
				return client, nil
			},
		})
		first, err := server.Dial() // after which it serves others
		if err != nil {
			t.Fatal(err)
		}
		first.Close()
		backend := redisbackend.MustNew(client, redisbackend.Options{Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() {
			backend.Close()
			client.Close()
			server.Close()
		})
		return backend
	},
}
