package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/tokens"
)

// account is a key of a rule.
type account struct{ rule, key string }

// ledger is a Memory that compares each step with the exact sum of what is reserved and settled.
// Its calendar limits last longer than the test.
type ledger struct {
	*memory.Memory
	t    *testing.T
	mu   sync.Mutex
	used map[account]int64 // reserved and settled
	peak map[account]int64
}

func (l *ledger) InProcess() backends.Backend { return l }

func (l *ledger) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.Memory.Take(ctx, charges, out)
	taken := !slices.ContainsFunc(out, func(d limits.Decision) bool { return !d.Allowed })
	for i, c := range charges {
		if c.Limit.Algorithm() != limits.AlgorithmCalendar {
			continue
		}
		a, limit := account{c.Scope, c.Key}, c.Limit.Burst()
		if fits := l.used[a]+c.Cost <= limit; fits != out[i].Allowed {
			l.t.Errorf("%v: %d of %d are in use, and a cost of %d is allowed: %v", a, l.used[a], limit, c.Cost, !fits)
		}
		if taken {
			l.used[a] += c.Cost
			l.peak[a] = max(l.peak[a], l.used[a])
		}
		if left := limit - l.used[a]; left < 0 || left != out[i].Remaining {
			l.t.Errorf("%v: %d of %d are in use, and %d remain", a, l.used[a], limit, out[i].Remaining)
		}
	}
	return err
}

func (l *ledger) Settle(ctx context.Context, endings []backends.Ending, out []limits.Settlement) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range endings {
		if e.Final > e.Taken {
			l.t.Errorf("%s: %d units were estimated and %d used", e.Scope, e.Taken, e.Final)
		}
		l.used[account{e.Scope, e.Key}] += e.Final - e.Taken
	}
	return l.Memory.Settle(ctx, endings, out)
}

// plan is a request, and what becomes of it.
type plan struct {
	id             int
	api            tokens.API
	user, model    string
	max, in, out   int64         // in and out are what the model uses
	start, each    time.Duration // before the request and before each piece of the answer
	leaves         time.Duration // when the client leaves; 0: it does not
	breaks         int           // after how many bytes the stream breaks off; −1: it does not
	status         int           // of the answer; 0: there is no connection
	withoutUsage   bool
	body, answer   string
	estimate       int64
	allowed, asked bool   // by the limiter, and so the upstream
	read           []byte // what was read of the answer
	left           bool   // before the answer
}

const perToken = 25 // price of a token of any kind

func drawn(random *rand.Rand, id int) *plan {
	p := &plan{
		id: id, user: strconv.Itoa(random.IntN(20)), model: []string{"small", "large"}[random.IntN(2)],
		api: tokens.API(1 + random.IntN(3)),
		max: 1 + random.Int64N(2000), start: time.Duration(random.Int64N(int64(2 * time.Second))),
		each:   time.Duration(random.Int64N(int64(500 * time.Millisecond))),
		breaks: -1, status: http.StatusOK, withoutUsage: random.IntN(8) == 0,
	}
	member := map[tokens.API]string{tokens.ChatCompletions: "max_tokens", tokens.Responses: "max_output_tokens",
		tokens.Messages: "max_tokens"}[p.api]
	p.body = fmt.Sprintf(`{"model":%q,%q:%d,"messages":"%s"}`, p.model, member, p.max,
		strings.Repeat("x", random.IntN(1000)))
	p.in = 1 + random.Int64N(int64(len(p.body)+3)/4)
	p.estimate = int64(len(p.body)+3)/4 + p.max
	p.out = random.Int64N(p.max + 1)
	p.write()
	switch random.IntN(10) {
	case 0, 1, 2:
		p.leaves = time.Duration(random.Int64N(int64(3 * time.Second)))
	case 3, 4:
		p.breaks = random.IntN(len(p.answer))
	case 5:
		p.status = []int{0, 400, 429, 500, 529}[random.IntN(5)]
	}
	return p
}

// write writes the answer.
func (p *plan) write() {
	var b strings.Builder
	event := func(format string, args ...any) { fmt.Fprintf(&b, "data: "+format+"\n\n", args...) }
	text := strings.Repeat("to be or not ", int(p.out%5)+1)
	switch p.api {
	case tokens.ChatCompletions:
		event(`{"choices":[{"delta":{"content":%q}}],"usage":null}`, text)
		if !p.withoutUsage {
			event(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, p.in, p.out)
		}
		b.WriteString("data: [DONE]\n\n")
	case tokens.Responses:
		event(`{"type":"response.output_text.delta","delta":%q}`, text)
		if !p.withoutUsage {
			event(`{"type":"response.completed","response":{"usage":{"input_tokens":%d,"output_tokens":%d}}}`, p.in, p.out)
		}
	default:
		event(`{"type":"message_start","message":{"usage":{"input_tokens":%d,"output_tokens":1}}}`, p.in)
		event(`{"type":"content_block_delta","delta":{"type":"text_delta","text":%q}}`, text)
		if !p.withoutUsage {
			event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}}`, p.out)
		}
	}
	p.answer = b.String()
}

var (
	readInput  = regexp.MustCompile(`"(?:prompt|input)_tokens":([0-9]+)[,}]`)
	readOutput = regexp.MustCompile(`(?:"prompt_tokens":[0-9]+,|"input_tokens":[0-9]+,|"end_turn"\},"usage":\{)` +
		`"(?:completion|output)_tokens":([0-9]+)\}`)
	begun = regexp.MustCompile(`"message":\{"usage":\{"input_tokens":[0-9]+,"output_tokens":1\}`)
)

// cost returns the tokens that the request must have been charged at its end.
func (p *plan) cost() int64 {
	switch {
	case !p.allowed:
		return 0
	case p.left:
		return p.estimate
	case p.status != http.StatusOK:
		return 0
	}
	in, out := p.estimate-p.max, p.max
	if m := readInput.FindSubmatch(p.read); m != nil {
		in, _ = strconv.ParseInt(string(m[1]), 10, 64)
	}
	if m := readOutput.FindSubmatch(begun.ReplaceAll(p.read, nil)); m != nil {
		out, _ = strconv.ParseInt(string(m[1]), 10, 64)
	}
	return in + out
}

// models answers requests by their plans, and breaks off.
type models []*plan

func (m models) RoundTrip(r *http.Request) (*http.Response, error) {
	id, err := strconv.Atoi(r.Header.Get("Plan"))
	if err != nil {
		return nil, err
	}
	p := m[id]
	p.asked = true
	if sent, err := io.ReadAll(r.Body); err != nil || string(sent) != p.body {
		return nil, fmt.Errorf("the model got %q (%v)", sent, err)
	}
	select {
	case <-time.After(p.each):
	case <-r.Context().Done():
		p.left = true
		return nil, r.Context().Err()
	}
	if p.status == 0 {
		return nil, errors.New("no connection")
	}
	return &http.Response{
		StatusCode: p.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: r,
		Header: http.Header{"Content-Type": {stream}}, Body: &written{p, r.Context(), rand.New(rand.NewPCG(uint64(id), 0))},
	}, nil
}

// written is an answer that arrives piece by piece.
type written struct {
	plan   *plan
	ctx    context.Context
	random *rand.Rand
}

func (w *written) Close() error { return nil }

func (w *written) Read(b []byte) (int, error) {
	p := w.plan
	select {
	case <-time.After(p.each):
	case <-w.ctx.Done():
		return 0, w.ctx.Err()
	}
	end := len(p.answer)
	if p.breaks >= 0 {
		end = p.breaks
	}
	n := copy(b, p.answer[len(p.read):min(end, len(p.read)+1+w.random.IntN(150))])
	p.read = append(p.read, b[:n]...)
	switch {
	case n > 0:
		return n, nil
	case p.breaks >= 0:
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

// send sends a request, and leaves when the plan says so.
func (p *plan) send(handler http.Handler) {
	time.Sleep(p.start)
	ctx := context.WithValue(context.Background(), http.ServerContextKey, &http.Server{}) // ReverseProxy panics
	if p.leaves > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.leaves)
		defer cancel()
	}
	r := httptest.NewRequestWithContext(ctx, "POST", "/", strings.NewReader(p.body))
	r.Header.Set("Plan", strconv.Itoa(p.id))
	r.Header.Set("User", p.user)
	w := httptest.NewRecorder()
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panic(v)
		}
		p.allowed = p.asked
	}()
	handler.ServeHTTP(w, r)
}

func byUser(r *http.Request) (string, error) { return r.Header.Get("User"), nil }

// byTeam makes groups of ten users.
func byTeam(r *http.Request) (string, error) {
	user := r.Header.Get("User")
	return user[:len(user)-1], nil
}

// Hundreds of streams run at once and end in every way. At no instant is more reserved and settled
// than a limit allows, and no request is denied that fits.
func TestHundredsOfStreamsSpendNoMoreThanTheirBudgets(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { spend(t, rand.New(rand.NewPCG(seed, 5))) })
		})
	}
}

func spend(t *testing.T, random *rand.Rand) {
	book := &ledger{Memory: memory.MustNew(memory.Options{}), t: t, used: map[account]int64{}, peak: map[account]int64{}}
	limiter := nethttp.MustNew(nethttp.Config{Backend: book, Rules: []nethttp.Rule{
		tokens.ByCount(nethttp.Rule{Name: "minute", Key: byUser, Limit: limits.SlidingWindow(limits.PerMinute(40_000))}),
		tokens.ByCount(nethttp.Rule{Name: "day", Key: byTeam, Limit: limits.Calendar(400_000, limits.Day)}),
		tokens.ByPrice(nethttp.Rule{Name: "month", Key: everyone, Limit: limits.Calendar(600_000*perToken, limits.Month)}),
		{Name: "at once", Key: tokens.Model, Limit: limits.Concurrent(300)},
	}})
	price := tokens.Price{Input: perToken * million, Output: perToken * million}
	meter := tokens.MustNew(tokens.Config{Prices: map[string]tokens.Price{"small": price, "large": price}})
	plans := make(models, 800)
	for i := range plans {
		plans[i] = drawn(random, i)
	}
	handlers := make(map[tokens.API]http.Handler)
	for _, api := range []tokens.API{tokens.ChatCompletions, tokens.Responses, tokens.Messages} {
		handlers[api] = meter.Handler(api, limiter.Handler, &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "models"}) },
			Transport: plans, ErrorLog: quiet,
		})
	}
	var all sync.WaitGroup
	for _, p := range plans {
		all.Go(func() { p.send(handlers[p.api]) })
	}
	most := 0
	for range 200 {
		time.Sleep(25 * time.Millisecond)
		most = max(most, limiter.State().Held)
	}
	all.Wait()
	total, want := 0, make(map[account]int64)
	for _, p := range plans {
		if p.allowed {
			total++
		}
		cost := p.cost()
		want[account{"day", p.user[:len(p.user)-1]}] += cost
		want[account{"month", "everyone"}] += cost * perToken
	}
	for a, want := range want {
		if book.used[a] != want {
			t.Errorf("%v: %d units are used in the end, want %d", a, book.used[a], want)
		}
	}
	if held := limiter.State().Held; held != 0 {
		t.Errorf("%d requests have not ended", held)
	}
	peak := book.peak[account{"month", "everyone"}] / perToken
	t.Logf("%d of %d requests were allowed, %d at once; at most %d of 600,000 tokens were in use", total, len(plans),
		most, peak)
	if most < 200 || total == len(plans) || peak < 590_000 {
		t.Errorf("the limits were not reached")
	}
}
