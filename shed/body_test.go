package shed_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shed"
)

// What is left of content is no request. net/http closes the connection after an answer that comes
// before the content, if it still sees its own body.
func TestWhatIsLeftOfContentIsNoRequest(t *testing.T) {
	refuse := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		w.Write(make([]byte, 4096))
	}
	readAndClose := func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		io.ReadAll(r.Body)
		r.Body.Close()
		w.WriteHeader(http.StatusBadRequest)
		w.Write(make([]byte, 4096))
	}
	readSome := func(w http.ResponseWriter, r *http.Request) {
		r.Body.Read(make([]byte, 10))
		r.Body.Close()
		w.WriteHeader(http.StatusBadRequest)
	}
	const next = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct {
		name, first, later string
		handle             http.HandlerFunc
	}{
		{"a bad trailer", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nbad trailer\r\n\r\n", next, readAndClose},
		{"a bad chunk", "Transfer-Encoding: chunked\r\n\r\nzz\r\n", next, readAndClose},
		{"content that is late", "Content-Length: 1000\r\n\r\na", next, readAndClose},
		{"an expectation", "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n", "", refuse},
		{"too much content", "Content-Length: 10000000\r\n\r\na", "", refuse},
		{"content that nobody reads", "Content-Length: 1000000\r\n\r\n" + strings.Repeat("a", 64<<10), next, readSome},
	} {
		for _, around := range []struct {
			name string
			put  func(http.Handler) http.Handler
		}{
			{"", func(next http.Handler) http.Handler { return next }},
			{", read early", early},
		} {
			t.Run(c.name+around.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var handled []string
					s := shed.MustNew(shed.Options[request]{})
					handler := around.put(shed.Handler(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						handled = append(handled, r.URL.Path)
						c.handle(w, r)
					})))
					listener := newPipes()
					server := &http.Server{Handler: handler, ReadTimeout: 3 * time.Second}
					go server.Serve(listener)
					conn, err := listener.dial(t.Context(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					var sending sync.WaitGroup
					sending.Go(func() {
						io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+c.first)
						time.Sleep(200 * time.Millisecond)
						io.WriteString(conn, c.later)
					})
					conn.SetReadDeadline(time.Now().Add(10 * time.Second))
					got, _ := io.ReadAll(conn)
					if n := bytes.Count(got, []byte("HTTP/1.1 4")); n != 1 || !bytes.Contains(got, []byte("Connection: close")) || len(handled) > 1 {
						t.Errorf("%d answers, handled %q: %.80q", n, handled, got)
					}
					conn.Close()
					sending.Wait()
					server.Close()
					listener.Close()
					synctest.Wait()
					if n := s.State().InFlight; n != 0 {
						t.Errorf("%d are in flight", n)
					}
				})
			})
		}
	}
}
