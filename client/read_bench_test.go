package client

import (
	"net/http"
	"testing"
)

// BenchmarkReadingAnAnswer is the part of a request's cost that its answer takes. The look-ups are what
// stands in its way: of an answer that tells a limit 17 names are looked for, and of others 8.
func BenchmarkReadingAnAnswer(b *testing.B) {
	const date = "Sun, 22 Nov 2026 10:00:00 GMT"
	for _, c := range []struct {
		name string
		h    http.Header
	}{
		{"no fields", http.Header{"Date": {date}}},
		{"RateLimit", http.Header{"Date": {date}, "Ratelimit": {`"default";r=1000000000;t=3600`},
			"Ratelimit-Policy": {`"default";q=1000000000;w=3600`}}},
		{"X-RateLimit", http.Header{"Date": {date}, "X-Ratelimit-Limit": {"1000000000"},
			"X-Ratelimit-Remaining": {"1000000000"}, "X-Ratelimit-Reset": {"1795345200"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var a answer
				new(reader).read(&a, http.StatusOK, c.h, 0)
			}
		})
	}
	b.Run("17 look-ups", func(b *testing.B) {
		h := http.Header{"Date": {date}, "Content-Type": {"text/plain"}}
		for b.Loop() {
			for range 17 {
				if len(h["X-Ratelimit-Remaining"]) > 0 {
					b.Fatal(h)
				}
			}
		}
	})
}
