package nethttp_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// sink is a ResponseWriter that costs next to nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func serveOne(limit limits.Limit) func() {
	handler := nethttp.MustNew(perClient(limit)).Handler(nothing)
	r, _ := http.NewRequest("GET", "/", nil)
	r.RemoteAddr = "198.51.100.7:4711"
	w := &sink{http.Header{}}
	return func() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	}
}

func TestARequestAllocatesTwiceAndADeniedOneThreeTimes(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop objects")
	}
	denied := serveOne(limits.SlidingWindow(limits.PerDay(1)))
	denied()
	for _, c := range []struct {
		name  string
		serve func()
		most  float64
	}{
		{"allowed", serveOne(limits.SlidingWindow(limits.PerSecond(1_000_000))), 2},
		{"denied", denied, 3},
	} {
		if got := testing.AllocsPerRun(200, c.serve); got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.most)
		}
	}
}

func BenchmarkAllowed(b *testing.B) {
	serve := serveOne(limits.SlidingWindow(limits.PerSecond(1_000_000_000)))
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}

func BenchmarkDenied(b *testing.B) {
	serve := serveOne(limits.SlidingWindow(limits.PerDay(1)))
	serve()
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}

func BenchmarkDeniedAMegabyteOfAccept(b *testing.B) {
	handler := nethttp.MustNew(perClient(limits.SlidingWindow(limits.PerDay(1)))).Handler(nothing)
	for _, c := range []struct {
		name   string
		accept []string
	}{
		{"one-line", []string{strings.Repeat("a/b;q=0.1,", 1<<20/10)}},
		{"long-lines", slices.Repeat([]string{strings.Repeat("a/b;q=0.1,", 51)}, 1<<20/520)},
		{"short-lines", slices.Repeat([]string{"a/b"}, 1<<20/len("Accept: a/b\r\n"))},
		{"empty-lines", make([]string, 1<<20/len("Accept:\r\n"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			r, _ := http.NewRequest("GET", "/", nil)
			r.RemoteAddr, r.Header["Accept"] = "198.51.100.7:4711", c.accept
			w := &sink{http.Header{}}
			for b.Loop() {
				clear(w.header)
				handler.ServeHTTP(w, r)
			}
		})
	}
}
