package shed_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/weir-go/weir/shed"
)

// On servers of net/http, HTTP/1 and HTTP/2, each request is out of flight in time, however
// it ends.
func TestRequestsToRealServersAllEnd(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			s := shed.MustNew(shed.Options[request]{Limit: 1})
			left := make(chan bool)
			mux := http.NewServeMux()
			mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
			mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				<-r.Context().Done() // its client leaves
				left <- true
			})
			mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) { // its client leaves before an answer
				left <- true
				<-r.Context().Done()
				left <- true
			})
			mux.HandleFunc("/abort", func(w http.ResponseWriter, _ *http.Request) {
				w.Write(make([]byte, 1<<16))
				panic(http.ErrAbortHandler)
			})
			mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				go func() { // outlives the handler
					fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
					io.Copy(conn, rw) // which may have read of it already
					conn.Close()
				}()
			})
			handler := shed.Handler(s, mux)
			var handlers sync.WaitGroup
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handlers.Add(1)
				defer handlers.Done()
				handler.ServeHTTP(w, r)
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			target, _ := url.Parse(server.URL)
			proxy := httptest.NewServer(&httputil.ReverseProxy{
				Transport: server.Client().Transport,
				Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
				ErrorLog:  log.New(io.Discard, "", 0),
			})
			get := func(ctx context.Context, url string) (*http.Response, error) {
				r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
				if err != nil {
					t.Fatal(err)
				}
				return server.Client().Do(r)
			}
			body := func(path string) {
				t.Helper()
				response, err := get(t.Context(), server.URL+path)
				if err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != 200 || (response.ProtoMajor == 2) != http2 {
					t.Errorf("%s: %s %s", path, response.Proto, response.Status)
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			body("/ok") // one place: a permit that is lost would shed what follows
			ctx, leave := context.WithCancel(t.Context())
			response, err := get(ctx, server.URL+"/stream")
			if err != nil {
				t.Fatal(err)
			}
			if state := s.State(); state.InFlight != 0 || state.Streams != 1 {
				t.Errorf("%+v", state)
			}
			body("/ok") // beside the stream
			leave()
			response.Body.Close()
			<-left
			body("/abort")
			if response, err := http.Get(proxy.URL + "/abort"); err == nil {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			if !http2 {
				conn, err := net.Dial("tcp", proxy.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(conn, "GET /hijack HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				lines := bufio.NewReader(conn)
				until := func(want string) {
					for line := ""; line != want; {
						if line, err = lines.ReadString('\n'); err != nil {
							t.Fatal(err)
						}
					}
				}
				until("\r\n")
				fmt.Fprint(conn, "hello\n")
				until("hello\n")
				conn.Close()
			}
			ctx, leave = context.WithCancel(t.Context())
			gone := make(chan error)
			go func() {
				_, err := get(ctx, server.URL+"/long")
				gone <- err
			}()
			<-left
			if state := s.State(); state.InFlight != 1 {
				t.Errorf("%+v", state)
			}
			leave()
			<-gone
			<-left
			proxy.Close()
			server.Close()
			handlers.Wait() // Close does not wait for those that have hijacked
			if state := s.State(); state.InFlight != 0 || state.Streams != 0 {
				t.Errorf("%+v", state)
			}
		})
	}
}
