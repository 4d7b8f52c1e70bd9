package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

var threePolicies = []published{
	{Name: "burst", Limit: limits.TokenBucket(limits.PerSecond(10), 100)},
	perMinute,
	perHour,
}

// benchmark measures Write of o on a header that has the fields of before.
func benchmark(b *testing.B, options headers.Options, policies []published, before http.Header, o *core.Outcome) {
	w := writer(b, options, policies...)
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		clear(h)
		for key, values := range before {
			h[key] = values
		}
		w.Write(h, o)
	}
}

func BenchmarkIETF1Rule(b *testing.B) {
	policies := []published{perMinute}
	o := decided(b, policies, allowed(50, 30*time.Second, time.Minute))
	benchmark(b, headers.Options{}, policies, nil, o)
}

func BenchmarkIETF3Rules(b *testing.B) {
	o := decided(b, threePolicies, allowed(99, 10*time.Second, time.Second), allowed(50, 30*time.Second, time.Minute),
		allowed(500, 30*time.Minute, time.Hour))
	benchmark(b, headers.Options{}, threePolicies, nil, o)
}

func BenchmarkIETFDenied(b *testing.B) {
	policies := []published{perMinute}
	o := decided(b, policies, denied(0, 30*time.Second, time.Minute))
	benchmark(b, headers.Options{}, policies, nil, o)
}

func BenchmarkIETFLimitFor(b *testing.B) {
	policies := []published{{Name: "default"}}
	o := decided(b, []published{perMinute}, allowed(50, 30*time.Second, time.Minute))
	benchmark(b, headers.Options{}, policies, nil, o)
}

func BenchmarkIETFStacked(b *testing.B) {
	before := fields(`RateLimit-Policy: "hourly";q=1000;w=3600`, `RateLimit: "hourly";r=500;t=1800`)
	policies := []published{perMinute}
	o := decided(b, policies, allowed(50, 30*time.Second, time.Minute))
	benchmark(b, headers.Options{}, policies, before, o)
}

func BenchmarkGitHub(b *testing.B) {
	policies := []published{perMinute}
	o := decided(b, policies, allowed(50, 30*time.Second, time.Minute))
	benchmark(b, headers.Options{Formats: []headers.Format{headers.GitHub}}, policies, nil, o)
}

func BenchmarkGitHubStacked(b *testing.B) {
	policies := []published{perMinute}
	options := headers.Options{Formats: []headers.Format{headers.GitHub}}
	o := decided(b, policies, allowed(50, 30*time.Second, time.Minute))
	before := written(b, options, policies, decided(b, policies, allowed(60, 30*time.Second, time.Minute)))
	benchmark(b, options, policies, before, o)
}

func BenchmarkDraft7(b *testing.B) {
	policies := []published{perMinute}
	o := decided(b, policies, allowed(50, 30*time.Second, time.Minute))
	benchmark(b, headers.Options{Formats: []headers.Format{headers.Draft7}}, policies, nil, o)
}

func BenchmarkDiscordDenied(b *testing.B) {
	policies := []published{perMinute}
	o := decided(b, policies, denied(0, 30*time.Second, time.Minute))
	benchmark(b, headers.Options{Formats: []headers.Format{headers.Discord}}, policies, nil, o)
}
