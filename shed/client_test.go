package shed_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/shed"
)

// kept is an algorithm with a limit of 100 that keeps a copy of what it last saw, and all latencies.
type kept struct {
	mu        sync.Mutex
	last      shedlimit.Sample
	latencies []time.Duration
}

func (k *kept) Update(s shedlimit.Sample) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range s.Routes {
		k.latencies = append(k.latencies, r.Latencies...)
	}
	k.last = s
	k.last.Ages = slices.Clone(s.Ages)
	return 100
}

// see makes the algorithm see what there is a second from now, and returns that.
func (k *kept) see(t *testing.T, s *shed.Shedder[request]) shedlimit.Sample {
	t.Helper()
	time.Sleep(time.Second)
	p, _ := s.Acquire(t.Context(), nil)
	p.End(shed.Result{Failed: true}) // and no latency
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// slowly is content, and a writer, that take a second each time.
type slowly struct{ *httptest.ResponseRecorder }

func (slowly) Read(p []byte) (int, error) {
	if string(p) == "panic" {
		panic("oops")
	}
	time.Sleep(time.Second)
	return 0, io.EOF
}
func (slowly) Close() error                      { time.Sleep(time.Second); return nil }
func (slowly) Write(p []byte) (int, error)       { time.Sleep(time.Second); return len(p), nil }
func (slowly) WriteString(s string) (int, error) { time.Sleep(time.Second); return len(s), nil }
func (slowly) ReadFrom(src io.Reader) (int64, error) {
	time.Sleep(time.Second)
	return io.Copy(io.Discard, src)
}

// database is a source that takes two seconds of the service.
type database struct{}

func (database) Read([]byte) (int, error) { time.Sleep(2 * time.Second); return 0, io.EOF }

func TestTheTimeOfAClientIsInNoLatency(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(w http.ResponseWriter, r *http.Request)
		want   time.Duration
	}{
		"it reads":                     {func(w http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) }, 0},
		"it closes":                    {func(w http.ResponseWriter, r *http.Request) { r.Body.Close() }, 0},
		"it writes":                    {func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("x")) }, 0},
		"it writes a string":           {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x") }, 0},
		"it writes what it has to get": {func(w http.ResponseWriter, r *http.Request) { io.Copy(w, database{}) }, 2 * time.Second},
		"it reads, works and writes": {func(w http.ResponseWriter, r *http.Request) {
			io.ReadAll(r.Body)
			time.Sleep(30 * time.Millisecond)
			w.Write([]byte("x"))
		}, 30 * time.Millisecond},
		"it reads and writes at once": {func(w http.ResponseWriter, r *http.Request) {
			done := make(chan bool)
			go func() { io.ReadAll(r.Body); close(done) }()
			time.Sleep(time.Second / 2)
			w.Write([]byte("x"))
			<-done
			time.Sleep(time.Second / 4)
		}, time.Second / 4},
		"a read panics, and it works on": {func(w http.ResponseWriter, r *http.Request) {
			func() {
				defer func() { _ = recover() }()
				r.Body.Read([]byte("panic"))
			}()
			time.Sleep(time.Second)
		}, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := new(kept)
			s := using(t, a, shed.Options[request]{})
			r := httptest.NewRequest("POST", "/", nil)
			content := slowly{}
			r.Body = content
			shed.Handler(s, http.HandlerFunc(c.handle)).ServeHTTP(slowly{httptest.NewRecorder()}, r)
			if r.Body != io.ReadCloser(content) {
				t.Errorf("%s: the request is left with other content", name)
			}
			a.see(t, s)
			if got := a.latencies; len(got) != 1 || got[0] != c.want {
				t.Errorf("%s: latencies %v, want %v", name, got, c.want)
			}
		})
	}
}

func TestRequestsAtTheirClientsAreCountedAndHaveNoAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(kept)
		s := using(t, a, shed.Options[request]{})
		content, send := io.Pipe()
		go shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2500 * time.Millisecond)
			io.ReadAll(r.Body)
			time.Sleep(3 * time.Second)
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", content))
		time.Sleep(time.Second)
		got := a.see(t, s) // at 2 s, in which it works
		if got.AtClients != 0 || got.MeanAtClients != 0 || len(got.Ages) != 1 || got.Ages[0] != 2*time.Second {
			t.Errorf("while it works: %+v", got)
		}
		got = a.see(t, s) // at 3 s
		if got.InFlight != 1 || got.AtClients != 1 || got.MeanAtClients != 0.5 || len(got.Ages) != 0 {
			t.Errorf("while it reads: %+v", got)
		}
		time.Sleep(time.Second)
		send.Close() // at 4 s
		time.Sleep(time.Second)
		got = a.see(t, s) // at 6 s
		if got.InFlight != 1 || got.AtClients != 0 || got.MeanAtClients < 0.3 || got.MeanAtClients > 0.4 || len(got.Ages) != 1 || got.Ages[0] != 4500*time.Millisecond {
			t.Errorf("after that: %+v", got)
		}
		time.Sleep(time.Minute)
	})
}

// Handlers look for http.NoBody, and MaxBytesReader and others look at what they wrap.
func TestARequestWithoutContentIsLeftAsItIs(t *testing.T) {
	for _, content := range []io.ReadCloser{nil, http.NoBody} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Body = content
		shed.Handler(shed.MustNew(shed.Options[request]{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body != content {
				t.Errorf("%T, want %T", r.Body, content)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}
