package parity

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/limits"
)

// The allocations per request of the net/http adapter: the text of the fields and their values, and
// for a denial the values of its own fields.
const (
	allowedAllocs = 2
	deniedAllocs  = 3
)

// Cost checks that a limiter adds at most more allocations to an application beyond those of the
// net/http adapter. serve builds the application with the limit, or without a limiter if the limit
// is zero. The application answers GET / without content.
func Cost(t *testing.T, more float64, serve func(limits.Limit) http.Handler) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop objects")
	}
	bare := allocs(serve(limits.Limit{}))
	denying := serve(limits.SlidingWindow(limits.PerDay(1)))
	request(denying)()
	for _, c := range []struct {
		name    string
		handler http.Handler
		most    float64
	}{
		{"allowed", serve(ample), allowedAllocs + more},
		{"denied", denying, deniedAllocs + more},
	} {
		got := allocs(c.handler) - bare
		if got > c.most {
			t.Errorf("%s: %v allocations more than without a limiter (%v), want at most %v", c.name, got,
				bare, c.most)
		}
	}
}

// Benchmark measures the application without a limiter, with a limiter that allows, and with one
// that denies.
func Benchmark(b *testing.B, serve func(limits.Limit) http.Handler) {
	denying := serve(limits.SlidingWindow(limits.PerDay(1)))
	request(denying)()
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"bare", serve(limits.Limit{})}, {"allowed", serve(ample)}, {"denied", denying}} {
		b.Run(c.name, func(b *testing.B) {
			ask := request(c.handler)
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}

var ample = limits.SlidingWindow(limits.PerSecond(1_000_000_000))

func allocs(h http.Handler) float64 { return testing.AllocsPerRun(200, request(h)) }

// request returns a function that sends one request.
func request(h http.Handler) func() {
	r, err := http.NewRequest("GET", "/", nil)
	if err != nil {
		panic(err)
	}
	r.RemoteAddr = "198.51.100.7:4711"
	w := &sink{http.Header{}}
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// sink is a ResponseWriter that discards everything.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}
