package shed_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/shed"
)

// pipes is a listener whose connections are pipes, so that servers fit into a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (l *pipes) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// crowded answers in the way that the path says, and notes how many requests it works on.
type crowded struct{ working, most atomic.Int64 }

func (c *crowded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := c.working.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	working := true
	rest := func() {
		if working {
			working = false
			c.working.Add(-1)
		}
	}
	defer rest()
	take := func() { // work takes a while, and ends if the client leaves
		select {
		case <-time.After(20 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	controller := http.NewResponseController(w)
	switch r.URL.Path {
	case "/flush": // first, and work later
		rest()
		_ = controller.Flush()
		take()
		io.WriteString(w, "late")
	case "/trailer":
		w.Header().Set("Trailer", "Sum")
		take()
		io.WriteString(w, "content")
		rest()
		_ = controller.Flush()
		w.Header().Set("Sum", "7")
	case "/panic":
		take()
		panic(http.ErrAbortHandler)
	case "/late panic":
		take()
		io.WriteString(w, strings.Repeat("x", 1<<13))
		panic("oops")
	case "/exit":
		rest()
		runtime.Goexit()
	case "/hijack":
		rest()
		conn, _, err := controller.Hijack()
		if err != nil { // HTTP/2
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		defer conn.Close()
		take()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	default:
		take()
		io.WriteString(w, "ok")
	}
}

// A whole server, in virtual time: whatever requests, clients and operators do, the handler never
// works on more than the limit, and in the end nothing is left, not even a goroutine.
func TestNothingIsLeftOfACrowd(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for round := range 3 {
			t.Run(fmt.Sprintf("HTTP2 %v, round %d", http2, round), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crowd(t, http2, testrun.Seed(t)) })
			})
		}
	}
}

func crowd(t *testing.T, http2 bool, seed uint64) {
	const limit = 8
	options := func(random *rand.Rand) shed.Options[request] {
		o := shed.Options[request]{
			Limit: limit, Classes: four[:1+random.IntN(4)],
			Classify: func(r *http.Request) int {
				switch {
				case r.Header.Get("Panic") != "":
					panic("classify")
				case r.Header.Get("Class") == "unknown":
					return -7
				}
				return int(r.Header.Get("Class")[0] - '0')
			},
			Observe: func(_ context.Context, r request, e shed.Event) {
				if e.InFlight > limit || e.Shadow {
					t.Errorf("%+v", e)
				}
			},
		}
		if random.IntN(3) > 0 {
			o.MaxWait = time.Duration(1+random.IntN(40)) * time.Millisecond
			o.MaxWaiting = random.IntN(6)
		}
		return o
	}
	s := shed.MustNew(options(rand.New(rand.NewPCG(seed, 0))))
	handler := new(crowded)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	base, shutDown := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: shed.Handler(s, handler), Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return base },
	}
	listener := newPipes()
	go server.Serve(listener)
	transport := &http.Transport{Protocols: protocols, DialContext: listener.dial}
	client := &http.Client{Transport: transport}

	var answers sync.Map
	count := func(what string) {
		n, _ := answers.LoadOrStore(what, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
	paths := []string{"/", "/flush", "/trailer", "/panic", "/late panic", "/exit", "/hijack"}
	var all sync.WaitGroup
	for g := range 48 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(g)+1))
			for range 40 {
				path := paths[random.IntN(len(paths))]
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(5+random.IntN(120))*time.Millisecond)
				r, err := http.NewRequestWithContext(ctx, "GET", "http://x"+strings.ReplaceAll(path, " ", "%20"), nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Class", fmt.Sprint(random.IntN(5)))
				switch random.IntN(20) {
				case 0:
					r.Header.Set("Panic", "1")
				case 1:
					r.Header.Set("Class", "unknown")
				}
				response, err := client.Do(r)
				switch {
				case err != nil && ctx.Err() != nil:
					count("left")
				case err != nil:
					count("failed")
				default:
					body, err := io.ReadAll(response.Body)
					response.Body.Close()
					if err == nil && path == "/trailer" && response.StatusCode == 200 && (response.Trailer.Get("Sum") != "7" || string(body) != "content") {
						t.Errorf("%s %v", body, response.Trailer)
					}
					count(fmt.Sprint(response.StatusCode))
				}
				leave()
				time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
				if g == 0 {
					if err := s.Replace(options(random)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	time.Sleep(time.Minute)
	if state := s.State(); state.InFlight+state.Streams+state.Exempt+state.Shadowed+state.Waiting != 0 || state.Oldest != 0 {
		t.Errorf("left over: %+v", state)
	}
	if most := handler.most.Load(); most > limit {
		t.Errorf("worked on %d requests at once", most)
	}
	for _, what := range []string{"200", "503", "left", "failed"} {
		if n, ok := answers.Load(what); !ok || n.(*atomic.Int64).Load() == 0 {
			t.Errorf("no request was %s", what)
		}
	}

	// A server that shuts down with requests in the queue answers them.
	if err := s.Replace(shed.Options[request]{Limit: 1, MaxWait: time.Minute}); err != nil {
		t.Fatal(err)
	}
	held, _ := s.Acquire(t.Context(), nil)
	statuses := make(chan int)
	go func() {
		response, err := client.Get("http://x/")
		if err != nil {
			t.Error(err)
			statuses <- 0
			return
		}
		response.Body.Close()
		statuses <- response.StatusCode
	}()
	synctest.Wait()
	if waiting := s.State().Waiting; waiting != 1 {
		t.Errorf("%d wait", waiting)
	}
	shutDown()
	if status := <-statuses; status != http.StatusServiceUnavailable {
		t.Errorf("a server that shuts down answered %d", status)
	}
	held.End(shed.Result{})
	transport.CloseIdleConnections()
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	listener.Close()
}

// 10,000 requests at once: the limit runs, the queue waits, and the others are answered at once.
func TestTenThousandConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, room, n = 50, 20, 10_000
		handler := new(crowded)
		s := shed.MustNew(shed.Options[request]{Limit: limit, MaxWait: time.Second, MaxWaiting: room})
		listener := newPipes()
		server := &http.Server{Handler: shed.Handler(s, handler)}
		go server.Serve(listener)
		var all sync.WaitGroup
		var ok, refused atomic.Int64
		var waited atomic.Int64
		for range n {
			all.Go(func() {
				conn, err := listener.dial(t.Context(), "", "")
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				start := time.Now()
				io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, response.Body)
				switch response.StatusCode {
				case http.StatusOK:
					ok.Add(1)
				case http.StatusServiceUnavailable:
					refused.Add(1)
					if time.Since(start) > 0 {
						waited.Add(1)
					}
				}
			})
		}
		all.Wait()
		if ok.Load() != limit+room || refused.Load() != n-limit-room || waited.Load() != 0 || handler.most.Load() != limit {
			t.Errorf("%d answered, %d refused, %d of them late, %d worked at once", ok.Load(), refused.Load(), waited.Load(), handler.most.Load())
		}
		state := s.State()
		if class := state.Classes[0]; state.InFlight+state.Waiting != 0 || class.Admitted != limit+room || class.Shed != n-limit-room || class.Left != 0 {
			t.Errorf("%+v", state)
		}
		server.Close()
		listener.Close()
	})
}
