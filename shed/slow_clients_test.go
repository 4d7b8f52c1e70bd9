package shed_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shed"
)

const slo = 300 * time.Millisecond

// slowed is a service of which each path has its own way to be slow. Only /slow and /sometimes?slow are slow themselves.
func slowed(takes time.Duration) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, takes time.Duration) {
		time.Sleep(takes)
		io.WriteString(w, "ok")
	}
	mux.HandleFunc("GET /fast", func(w http.ResponseWriter, r *http.Request) { answer(w, 5*time.Millisecond) })
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) { answer(w, takes) })
	mux.HandleFunc("GET /sometimes", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "slow" {
			answer(w, takes)
			return
		}
		answer(w, 5*time.Millisecond)
	})
	mux.HandleFunc("POST /content", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		answer(w, 5*time.Millisecond)
	})
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
		w.Write(make([]byte, 1<<16))
	})
	return mux
}

// attacks are what a client may do to take time. Each is one request on a connection of its own.
var attacks = map[string]func(conn net.Conn, takes time.Duration){
	"a client that sends slowly": func(conn net.Conn, takes time.Duration) {
		fmt.Fprint(conn, "POST /content HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\na")
		go func() { // the answer may come before
			time.Sleep(takes)
			io.WriteString(conn, "b")
		}()
	},
	"a client that reads slowly": func(conn net.Conn, takes time.Duration) {
		fmt.Fprint(conn, "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		time.Sleep(takes)
	},
	"a slow route": func(conn net.Conn, takes time.Duration) {
		fmt.Fprint(conn, "GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	},
	"slow requests of a fast route": func(conn net.Conn, takes time.Duration) {
		fmt.Fprint(conn, "GET /sometimes?slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	},
}

// besieged serves 50 requests a second of honest clients, of 5 ms each, on both fast routes. After some calm seconds so many
// connections attack, again and again, for some seconds. It returns how many honest requests were refused in them, by second.
func besieged(t *testing.T, handler http.Handler, readTimeout time.Duration, attack func(net.Conn, time.Duration), takes time.Duration, connections, calm, seconds int) (refused []int) {
	t.Helper()
	listener := newPipes()
	server := &http.Server{Handler: handler, ReadTimeout: readTimeout}
	go server.Serve(listener)
	transport := &http.Transport{DialContext: listener.dial, MaxIdleConnsPerHost: 100}
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	strike := func() {
		for ctx.Err() == nil {
			conn, err := listener.dial(ctx, "", "")
			if err != nil {
				return
			}
			attack(conn, takes)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil {
				io.Copy(io.Discard, response.Body)
			}
			if err != nil || response.StatusCode != http.StatusOK {
				time.Sleep(50 * time.Millisecond)
			}
			conn.Close()
		}
	}
	refused = make([]int, seconds)
	var mu sync.Mutex
	for i := range 50 * (calm + seconds) {
		at := i/50 - calm
		if i == 50*calm {
			for range connections {
				all.Go(strike)
			}
		}
		all.Go(func() {
			response, err := client.Get("http://x" + []string{"/fast", "/sometimes"}[i%2])
			if err != nil {
				t.Error(err)
				return
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.StatusCode == http.StatusServiceUnavailable && at >= 0 {
				mu.Lock()
				refused[at]++
				mu.Unlock()
			}
		})
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	all.Wait()
	time.Sleep(takes) // for those that still send
	transport.CloseIdleConnections()
	server.Close()
	listener.Close()
	return refused
}

func sum(of []int) (n int) {
	for _, x := range of {
		n += x
	}
	return n
}

// With an SLO, three connections of a client that sent two bytes over 400 ms once had 96% of all others refused. 30 slow
// requests of a fast route once had 64% refused, if they came after the limit had fallen to that of a calm service.
func TestSlowClientsAndSlowRoutesCostOthersNothing(t *testing.T) {
	const takes = 400 * time.Millisecond
	for name, attack := range attacks {
		for _, slo := range []time.Duration{0, slo} {
			for _, connections := range []int{1, 3, 10, 30} {
				for _, calm := range []int{2, 20} {
					synctest.Test(t, func(t *testing.T) {
						s := shed.MustNew(shed.Options[request]{SLO: slo})
						refused := besieged(t, shed.Handler(s, slowed(takes)), 0, attack, takes, connections, calm, 10)
						if n := sum(refused); n > 5 {
							t.Errorf("%s after %d s, %d connections, SLO %v: %d of 500 honest requests refused, want at most 5: %v", name, calm, connections, slo, n, refused)
						}
					})
				}
			}
		}
	}
}

// The limit grows by those who wait for their clients, within seconds, and so does the part of each class.
func TestManySlowClientsGetPlacesOfTheirOwn(t *testing.T) {
	classes := []shed.Class{{Name: "critical"}, {Name: "writes"}, {Name: "reads"}}
	classify := func(r *http.Request) int {
		if r.Method == http.MethodPost {
			return 1
		}
		return 2
	}
	for name, options := range map[string]shed.Options[request]{
		"one class": {}, "classes": {Classes: classes, Classify: classify}, "slow ones of the same class": {Classes: classes},
	} {
		for _, kind := range []string{"a client that sends slowly", "a client that reads slowly"} {
			for _, connections := range []int{10, 50, 150} {
				synctest.Test(t, func(t *testing.T) {
					s := shed.MustNew(options)
					refused := besieged(t, shed.Handler(s, slowed(0)), 0, attacks[kind], 4*time.Second, connections, 2, 20)
					if n := sum(refused[5:]); n > 30 {
						t.Errorf("%s, %s, %d connections: after 5 s %d of 750 honest requests refused, want at most 30: %v", name, kind, connections, n, refused)
					}
				})
			}
		}
	}
}

// early is that of the guide.
func early(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			content, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
			if err != nil {
				w.WriteHeader(http.StatusRequestTimeout)
				return
			}
			outer := r
			r = r.WithContext(r.Context()) // net/http looks at the body of its own request
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(content), outer.Body), outer.Body}
			defer func() { outer.Pattern, outer.MultipartForm = r.Pattern, r.MultipartForm }()
		}
		next.ServeHTTP(w, r)
	})
}

func TestContentThatIsReadEarlyTakesNoPlace(t *testing.T) {
	for _, reads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			handler := shed.Handler(shed.MustNew(shed.Options[request]{Limit: 100}), slowed(0))
			if reads {
				handler = early(handler)
			}
			n := sum(besieged(t, handler, 5*time.Second, attacks["a client that sends slowly"], 4*time.Second, 150, 2, 10))
			if reads && n > 5 || !reads && n < 400 {
				t.Errorf("content read early %v, ReadTimeout 5 s: %d of 500 honest requests refused by 150 connections of 4 s", reads, n)
			}
		})
	}
}
