package outgoing

import (
	"net/http"
	"testing"
)

// answering answers 429 once for each request, and then 200.
type answering struct{ n int }

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.n++
	response := &http.Response{
		StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r, ProtoMajor: 1, ProtoMinor: 1,
	}
	if a.n == 1 {
		response.StatusCode = 429
		response.Header.Set("Retry-After", "1")
		response.Header.Set("X-Ratelimit-Remaining", "1")
	}
	return response, nil
}

// Each contestant is at work: but for gofri's, which takes a 429 for GitHub's only if
// it has GitHub's body, a denial is repeated.
func TestContestantsObey(t *testing.T) {
	for _, c := range Contestants() {
		if c.Name == "gofri/go-github-ratelimit" || c.Name == "weir, GitHub's dialect" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			base := &answering{}
			r, _ := http.NewRequest("GET", "http://api.example.com/v1/items", nil)
			response, err := c.Wrap(base).RoundTrip(r)
			if err != nil || response.StatusCode != 200 || base.n != 2 {
				t.Errorf("%v, %v after %d requests, want 200 after 2", response, err, base.n)
			}
		})
	}
}

// BenchmarkAnswer is what a client adds to an answer that is there at once.
func BenchmarkAnswer(b *testing.B) {
	for _, c := range Contestants() {
		for _, fields := range Answers() {
			b.Run(c.Name+"/"+fields.Name, func(b *testing.B) {
				transport := c.Wrap(At(fields.Header))
				r := Request()
				b.ReportAllocs()
				for b.Loop() {
					if _, err := transport.RoundTrip(r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
