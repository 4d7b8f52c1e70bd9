package outgoing

import (
	"net/http"
)

// Answer is the answer of a server.
type Answer struct {
	Name   string
	Header http.Header
}

// Answers returns answers with ample limits: a client that follows them never waits.
func Answers() []Answer {
	const ample = "1000000000"
	return []Answer{
		{"no fields",
			http.Header{"Content-Type": {"text/plain"}, "Date": {"Sun, 22 Nov 2026 10:00:00 GMT"}}},
		{"RateLimit",
			http.Header{"Content-Type": {"text/plain"}, "Date": {"Sun, 22 Nov 2026 10:00:00 GMT"},
				"Ratelimit":        {`"default";r=` + ample + `;t=3600`},
				"Ratelimit-Policy": {`"default";q=` + ample + `;w=3600`}}},
		{"X-RateLimit",
			http.Header{"Content-Type": {"text/plain"}, "Date": {"Sun, 22 Nov 2026 10:00:00 GMT"},
				"X-Ratelimit-Limit": {ample}, "X-Ratelimit-Remaining": {ample},
				"X-Ratelimit-Used":  {"1"},
				"X-Ratelimit-Reset": {"1795345200"}, "X-Ratelimit-Resource": {"core"}}},
	}
}

// Request returns the request of every client.
func Request() *http.Request {
	r, err := http.NewRequest(http.MethodGet, "http://api.example.com/v1/items", nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	r.Header.Set("User-Agent", "benchmarks")
	return r
}

// At returns a transport that answers at once without allocating, so that only the client's cost is
// measured. It is for one goroutine.
func At(h http.Header) http.RoundTripper {
	return &at{sent: http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     h, Body: http.NoBody,
	}}
}

type at struct{ sent, answer http.Response }

// RoundTrip resets the answer, since clients may modify it.
func (a *at) RoundTrip(*http.Request) (*http.Response, error) {
	a.answer = a.sent
	return &a.answer, nil
}
