package shed_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/shed"
)

// sink is a ResponseWriter with the optional interfaces of HTTP/1 that allocates nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header               { return s.header }
func (s *sink) Write(p []byte) (int, error)       { return len(p), nil }
func (s *sink) WriteString(p string) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)                   {}
func (s *sink) Flush()                            {}

func nothing(http.ResponseWriter, *http.Request) {}

// serve returns a function that serves a request, by a shedder with three classes that has
// room for one request, or none.
func serve(room bool) func() {
	s := shed.MustNew(shed.Options[request]{
		Classes: []shed.Class{{Name: "critical"}, {Name: "writes"}, {Name: "reads"}},
		Classify: func(r *http.Request) int {
			if r.Method == http.MethodPost {
				return 1
			}
			return 2
		},
		Limit: 2, // of which reads have one
	})
	r := httptest.NewRequest("GET", "/", nil)
	if !room {
		s.Acquire(r.Context(), r)
	}
	handler := shed.Handler(s, http.HandlerFunc(nothing))
	w := &sink{make(http.Header)}
	return func() {
		clear(w.header) // a server's is fresh
		handler.ServeHTTP(w, r)
	}
}

func TestSheddingCostsSixAllocationsAndAdmittingTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no window ends meanwhile
		for room, most := range map[bool]float64{true: 2, false: 6} {
			if got := testing.AllocsPerRun(1000, serve(room)); got > most {
				t.Errorf("room %v: %v allocations, want at most %v", room, got, most)
			}
		}
	})
}

func BenchmarkShed(b *testing.B)     { benchmark(b, false) }
func BenchmarkAdmitted(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, room bool) {
	f := serve(room)
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// BenchmarkAcquire is an admitted request without HTTP.
func BenchmarkAcquire(b *testing.B) {
	s := shed.MustNew(shed.Options[int]{Limit: 1})
	b.ReportAllocs()
	for b.Loop() {
		p, _ := s.Acquire(b.Context(), 0)
		p.End(shed.Result{})
	}
}

func BenchmarkAcquireParallel(b *testing.B) {
	s := shed.MustNew(shed.Options[int]{Limit: 1000})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, _ := s.Acquire(b.Context(), 0)
			p.End(shed.Result{})
		}
	})
}

// BenchmarkAdmittedPost is an admitted request with content, which the handler reads to its end before it writes an answer.
func BenchmarkAdmittedPost(b *testing.B) {
	s := shed.MustNew(shed.Options[request]{Limit: 1})
	content := []byte("content")
	handler := shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body.Read(content)
		r.Body.Read(content)
		w.Write(content)
	}))
	r := httptest.NewRequest("POST", "/", strings.NewReader("content"))
	w := &sink{make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(w, r)
	}
}
