package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
)

// limited starts a server that allows n requests an hour.
func limited(n int64) *httptest.Server {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: limits.AnchoredWindow(limits.PerHour(n)),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
		Headers: headers.Options{Formats: []headers.Format{headers.IETF}},
	})
	hello := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }
	return httptest.NewServer(limiter.Handler(http.HandlerFunc(hello)))
}

func Example() {
	server := limited(100)
	defer server.Close()

	httpClient := &http.Client{Transport: client.MustNew(client.Options{})}
	for range 3 {
		response, err := httpClient.Get(server.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Println(response.StatusCode, string(body), response.Header.Get("RateLimit"))
	}
	// Output:
	// 200 hello "per-client";r=99;t=3600
	// 200 hello "per-client";r=98;t=3600
	// 200 hello "per-client";r=97;t=3600
}

// The limit of one request an hour is used up. The wait for the next is longer than MaxWait, so
// the second request is not sent.
func ExampleNew() {
	server := limited(1)
	defer server.Close()

	httpClient := &http.Client{Transport: client.MustNew(client.Options{MaxWait: time.Minute})}
	if response, err := httpClient.Get(server.URL); err == nil {
		response.Body.Close()
		fmt.Println(response.Status)
	}
	_, err := httpClient.Get(server.URL)
	var wait *client.WaitError
	if errors.As(err, &wait) {
		fmt.Println("held back for about", wait.Wait.Round(time.Minute), "by", wait.Source)
	}
	// Output:
	// 200 OK
	// held back for about 1h0m0s by RateLimit
}

// A WaitError says how long the caller has to wait itself.
func ExampleWaitError() {
	server := limited(1)
	defer server.Close()

	httpClient := &http.Client{Transport: client.MustNew(client.Options{})}
	for range 2 {
		response, err := httpClient.Get(server.URL)
		var wait *client.WaitError
		switch {
		case errors.As(err, &wait):
			fmt.Println("try again later:", wait.Wait > 59*time.Minute)
		case err != nil:
			fmt.Println(err)
		default:
			response.Body.Close()
		}
	}
	e := &client.WaitError{Bucket: "https://api.example.com", Wait: time.Hour, Source: "Retry-After",
		Bound: "MaxWait"}
	fmt.Println(e.Error())
	// Output:
	// try again later: true
	// client: held back: the wait of 1h0m0s (Retry-After) is longer than what is left of MaxWait
}

// canned is a server that needs no network.
type canned func(*http.Request) *http.Response

func (f canned) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func denial(*http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusTooManyRequests,
		Header:     http.Header{"Retry-After": {"86400"}},
		Body:       io.NopCloser(strings.NewReader("Come back tomorrow.")),
	}
}

// Observe is told of each denial, and why it was not waited for.
func ExampleOptions() {
	httpClient := &http.Client{Transport: client.MustNew(client.Options{
		Base:     canned(denial),
		Bucket:   func(r *http.Request) string { return r.URL.Host },
		MaxWait:  time.Minute,
		Attempts: 5,
		Observe: func(e client.Event) {
			fmt.Printf("%v: %s, %d, %s, %q\n", e.Kind, e.Bucket, e.Status, e.Source, e.Why)
		},
	})}
	response, err := httpClient.Get("https://api.example.com/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	fmt.Println(string(body))
	// Output:
	// limited: api.example.com, 429, Retry-After, ""
	// gave up: api.example.com, 429, Retry-After, "the wait is longer than what is left of MaxWait"
	// Come back tomorrow.
}

// A cap of one's own holds for servers that say nothing. Processes that share a Backend
// share the cap.
func ExampleOptions_limit() {
	ok := canned(func(*http.Request) *http.Response {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
	})
	shared := memory.MustNew(memory.Options{}) // or a redisbackend
	options := client.Options{Base: ok, Limit: limits.AnchoredWindow(limits.PerHour(3)),
		Backend: shared}
	one, other := client.MustNew(options), client.MustNew(options)
	for i, t := range []*client.Transport{one, other, one, other} {
		r, _ := http.NewRequest("GET", "https://api.example.com/", nil)
		_, err := t.RoundTrip(r)
		var wait *client.WaitError
		fmt.Println(i+1, errors.As(err, &wait))
	}
	// Output:
	// 1 false
	// 2 false
	// 3 false
	// 4 true
}

// A program that counts what happens keeps no key: Bucket may tell credentials apart.
func ExampleEvent() {
	counts := make(map[client.EventKind]int)
	t := client.MustNew(client.Options{Base: canned(denial),
		Observe: func(e client.Event) { counts[e.Kind]++ }})
	r, _ := http.NewRequest("GET", "https://api.example.com/", nil)
	t.RoundTrip(r)
	t.RoundTrip(r)
	fmt.Println(counts[client.Limited], counts[client.GaveUp], counts[client.Held],
		counts[client.Repeated], counts[client.Alone])
	// Output: 1 2 0 0 0
}

// A program shows whether requests to a server wait.
func ExampleEvent_paused() {
	server := limited(1)
	defer server.Close()
	httpClient := &http.Client{Transport: client.MustNew(client.Options{Observe: func(e client.Event) {
		switch e.Kind {
		case client.Limited, client.Paused:
			fmt.Println("paused for", e.Wait.Round(time.Minute))
		case client.Resumed:
			fmt.Println("running again")
		}
	}})}
	if response, err := httpClient.Get(server.URL); err == nil {
		response.Body.Close()
	}
	// Output: paused for 1h0m0s
}

func ExampleEventKind_String() {
	fmt.Println(client.Held, client.Limited, client.Repeated, client.GaveUp, client.Alone,
		client.Paused, client.Resumed)
	// Output: held limited repeated gave up alone paused resumed
}

// Evenly spreads requests from the first on; Off waits only after a denial.
func ExamplePace() {
	for _, pace := range []client.Pace{client.WhenLow, client.Evenly, client.Off} {
		server := limited(100)
		t := client.MustNew(client.Options{Pace: pace, MaxWait: time.Nanosecond})
		sent := 0
		for range 100 {
			r, _ := http.NewRequest("GET", server.URL, nil)
			response, err := t.RoundTrip(r)
			if err != nil {
				break
			}
			response.Body.Close()
			sent++
		}
		server.Close()
		fmt.Println(sent)
	}
	// Output:
	// 90
	// 1
	// 100
}

// A 403 of GitHub may be a limit. What searches have used up leaves other requests alone.
func ExampleDialect() {
	t := client.MustNew(client.Options{Dialect: client.GitHub,
		Base: canned(func(r *http.Request) *http.Response {
			if strings.HasPrefix(r.URL.Path, "/search/") {
				return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Header: http.Header{
					"X-Ratelimit-Resource":  {"search"},
					"X-Ratelimit-Remaining": {"0"},
					"X-Ratelimit-Reset":     {fmt.Sprint(time.Now().Add(time.Hour).Unix())},
				}}
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}
		})})
	for _, path := range []string{"/search/issues", "/search/issues", "/user"} {
		r, _ := http.NewRequest("GET", "https://api.github.com"+path, nil)
		response, err := t.RoundTrip(r)
		var wait *client.WaitError
		if errors.As(err, &wait) {
			fmt.Println(path, "was not sent")
		} else {
			fmt.Println(path, response.StatusCode)
		}
	}
	fmt.Println(client.Standard, client.Discord, client.OpenAI, client.Anthropic)
	// Output:
	// /search/issues 403
	// /search/issues was not sent
	// /user 200
	// 0 2 3 4
}

// A request waits until its tokens are left. The program says how many those are.
func ExampleOptions_tokens() {
	type prompt struct{} // a key of contexts
	t := client.MustNew(client.Options{
		Dialect: client.OpenAI, MaxWait: time.Millisecond,
		Tokens: func(r *http.Request) (input, output int64) {
			text, _ := r.Context().Value(prompt{}).(string)
			return int64(len(text) / 4), 1000 // max_tokens
		},
		Base: canned(func(*http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{
				"X-Ratelimit-Limit-Tokens":     {"90000"},
				"X-Ratelimit-Remaining-Tokens": {"1500"},
				"X-Ratelimit-Reset-Tokens":     {"59s"},
			}}
		})})
	for _, text := range []string{"Hello", "What is a token?", strings.Repeat("long ", 1000)} {
		ctx := context.WithValue(context.Background(), prompt{}, text)
		r, _ := http.NewRequestWithContext(ctx, "POST", "https://api.openai.com/v1/responses", nil)
		_, err := t.RoundTrip(r)
		var wait *client.WaitError
		if errors.As(err, &wait) {
			fmt.Println(len(text), "bytes were not sent:", wait.Source)
		} else {
			fmt.Println(len(text), "bytes were sent")
		}
	}
	// Output:
	// 5 bytes were sent
	// 16 bytes were sent
	// 5000 bytes were not sent: x-ratelimit-reset-tokens
}

// A Transport is used by one request at a time or by many.
func ExampleTransport_RoundTrip() {
	server := limited(100)
	defer server.Close()
	t := client.MustNew(client.Options{})
	defer t.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	response, err := t.RoundTrip(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode)
	// Output: 200
}

func ExampleTransport_CloseIdleConnections() {
	t := client.MustNew(client.Options{Base: &http.Transport{}})
	t.CloseIdleConnections()
	(&http.Client{Transport: t}).CloseIdleConnections() // the same
	// Output:
}
