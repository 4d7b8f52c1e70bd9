package parity

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

const uploadSize = 3 << 20

// testUpload tests that the body of a denied request is read before the answer, so that clients
// that send all of it first see the denial.
func testUpload[R any](t *testing.T, a Adapter[R]) {
	none := limits.TokenBucket(limits.PerDay(1), 1)
	sorry := everybody[R](none)
	sorry.Sorry = true
	full, err := shed.New(shed.Options[R]{Limit: 1})
	must(t, err)
	release, begun := make(chan struct{}), make(chan struct{})
	holds := func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
	}
	for name, app := range map[string]App[R]{
		"denied":                {Site: everybody[R](none)},
		"denied by the program": {Site: sorry},
		"shed":                  {Shed: full, Extra: map[string]http.Handler{"/extra": http.HandlerFunc(holds)}},
	} {
		for _, major := range []int{1, 2} {
			read := new(atomic.Int64)
			server := uploadServer(a.Serve(t, app), read, major)
			if app.Shed != nil && major == 1 {
				go server.Client().Get(server.URL + "/extra")
				<-begun
			} else if app.Shed == nil {
				get(t, server, "/hello")
			}
			read.Store(0)
			response := get(t, server, "/hello?upload")
			if response.StatusCode < 400 || response.ProtoMajor != major || read.Load() != uploadSize {
				t.Errorf("%s over HTTP/%d: %d, %d bytes read", name, response.ProtoMajor, response.StatusCode,
					read.Load())
			}
			if app.Shed != nil && major == 2 {
				close(release)
			}
			defer server.Close()
		}
	}
}

// uploadServer starts a server for which a query is an upload. Its bytes come at once, however busy
// the machine is.
func uploadServer(app http.Handler, read *atomic.Int64, major int) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			r.Body, r.ContentLength = &upload{read: read}, uploadSize
		}
		app.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = major == 2
	server.StartTLS()
	return server
}

type upload struct{ read *atomic.Int64 }

func (u *upload) Read(p []byte) (int, error) {
	n := min(int64(len(p)), uploadSize-u.read.Load())
	u.read.Add(n)
	if n == 0 {
		return 0, io.EOF
	}
	return int(n), nil
}

func (u *upload) Close() error { return nil }
