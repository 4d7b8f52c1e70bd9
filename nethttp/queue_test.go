package nethttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// pipes is a listener whose connections are pipes, so that a whole server fits into a
// synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l *pipes) Close() error {
	close(l.closed)
	return nil
}

func (l *pipes) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// queue is a server, in a bubble, that starts one request a second. The first
// has been served.
type queue struct {
	*pipes
	served atomic.Int32
	body   error // of reading the body of the request served last
}

// openQueue starts server, with outside around the limiter.
func openQueue(t *testing.T, server *http.Server, outside func(http.Handler) http.Handler) *queue {
	t.Helper()
	q := &queue{pipes: &pipes{make(chan net.Conn), make(chan struct{})}}
	limit := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "queue", Limit: limits.LeakyQueue(limits.PerSecond(1), 9),
		Key: keyfuncs.Constant[*http.Request]("everybody"),
	}}})
	server.Handler = outside(limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, q.body = io.Copy(io.Discard, r.Body)
		q.served.Add(1)
		io.WriteString(w, "served")
	})))
	go server.Serve(q)
	t.Cleanup(func() {
		server.Close()
		time.Sleep(time.Second) // from Go 1.27 on, a connection whose body was left unread lingers for half of it
	})
	r, _ := http.NewRequest("GET", "http://x/", nil)
	limit.Decide(r)
	return q
}

func alone(next http.Handler) http.Handler { return next }

// reading reads a body before its request waits for its turn, as docs/rules.md says.
func reading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	})
}

// As documented, net/http watches a connection, and over HTTP/1.1 only after the body
// has been read to its end.
func TestAClientThatLeavesTheQueueIsNoticedOnceItsBodyHasBeenRead(t *testing.T) {
	const get, post = "GET / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nHost: x\r\n"
	for _, c := range []struct {
		name, request string
		outside       func(http.Handler) http.Handler
		served        int32
	}{
		{"no body", get + "\r\n", alone, 0},
		{"an empty body", post + "Content-Length: 0\r\n\r\n", alone, 0},
		{"a body that is read outside", post + "Content-Length: 2\r\n\r\nab", reading, 0},
		{"chunks that are read outside", post + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", reading, 0},

		{"a body that is not read", post + "Content-Length: 2\r\n\r\nab", alone, 1},
		{"chunks that are not read", post + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", alone, 1},
		{"no chunk, which is not known before it is read", post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", alone,
			1},
		{"a body that is still to be asked for", post + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", alone, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := openQueue(t, &http.Server{ReadTimeout: time.Hour}, c.outside)
				conn := q.dial()
				io.WriteString(conn, c.request)
				synctest.Wait() // it is in the queue
				conn.Close()
				time.Sleep(time.Minute)
				if got := q.served.Load(); got != c.served {
					t.Errorf("%d requests of a client that left were served, want %d", got, c.served)
				}
			})
		})
	}
}

func TestBytesBehindARequestEndTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := openQueue(t, &http.Server{}, alone)
		conn := q.dial()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		synctest.Wait()
		io.WriteString(conn, "G") // of the next request
		synctest.Wait()
		conn.Close()
		time.Sleep(time.Minute)
		if got := q.served.Load(); got != 1 {
			t.Errorf("%d served, want 1: as documented", got)
		}
	})
}

func TestAClientOfHTTP2ThatLeavesTheQueueIsNoticed(t *testing.T) {
	for name, leave := range map[string]func(cancel context.CancelFunc, conn net.Conn){
		"the stream":     func(cancel context.CancelFunc, _ net.Conn) { cancel() },
		"the connection": func(_ context.CancelFunc, conn net.Conn) { conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &http.Server{Protocols: new(http.Protocols)}
				server.Protocols.SetUnencryptedHTTP2(true)
				q := openQueue(t, server, alone)
				conns := make(chan net.Conn, 1)
				transport := &http.Transport{Protocols: server.Protocols,
					DialContext: func(context.Context, string, string) (net.Conn, error) {
						conn := q.dial()
						conns <- conn
						return conn, nil
					}}
				defer transport.CloseIdleConnections()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r, _ := http.NewRequestWithContext(ctx, "POST", "http://x/", strings.NewReader("not read"))
				go func() {
					time.Sleep(500 * time.Millisecond) // it is in the queue
					leave(cancel, <-conns)
				}()
				if response, err := transport.RoundTrip(r); err == nil {
					t.Fatalf("answered %s", response.Status)
				}
				time.Sleep(time.Minute)
				if got := q.served.Load(); got != 0 {
					t.Errorf("%d requests of a client that left were served, want none", got)
				}
			})
		})
	}
}

// ReadTimeout does not notice that a client left, and runs on in the queue.
func TestReadTimeoutRunsInTheQueue(t *testing.T) {
	large := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("a", 100_000)
	for _, c := range []struct {
		name    string
		server  *http.Server
		outside func(http.Handler) http.Handler
		request string
		body    error
	}{
		{"no body", &http.Server{ReadTimeout: time.Millisecond}, alone, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", nil},
		{"a body that the handler reads", &http.Server{ReadTimeout: 100 * time.Millisecond}, alone, large,
			context.DeadlineExceeded},
		{"a body that is read outside", &http.Server{ReadTimeout: 100 * time.Millisecond}, reading, large, nil},
		{"ReadHeaderTimeout", &http.Server{ReadHeaderTimeout: 100 * time.Millisecond}, alone, large, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := openQueue(t, c.server, c.outside)
				conn := q.dial()
				defer conn.Close()
				go io.WriteString(conn, c.request)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || response.StatusCode != http.StatusOK || q.served.Load() != 1 {
					t.Fatalf("%v, %v, %d served", response, err, q.served.Load())
				}
				var timeout net.Error
				if failed := errors.As(q.body, &timeout) && timeout.Timeout(); failed != (c.body != nil) ||
					!failed && q.body != nil {
					t.Errorf("the handler read the body with error %v, want %v", q.body, c.body)
				}
			})
		})
	}
}

// leftInTime is a context that ends when the turn comes, before anybody checks it.
type leftInTime struct {
	context.Context
	turn time.Time
}

func (c leftInTime) Err() error {
	if time.Now().Before(c.turn) {
		return nil
	}
	return context.Canceled
}

func TestAContextIsLookedAtWhenItsTurnComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &hello{}
		handler := nethttp.MustNew(perClient(limits.LeakyQueue(limits.PerSecond(1000), 3))).Handler(next)
		get(handler)
		ctx := leftInTime{t.Context(), time.Now().Add(time.Millisecond)}
		get(handler, func(r *http.Request) { *r = *r.WithContext(ctx) })
		if next.called.Load() != 1 {
			t.Error("a request whose context had ended was served")
		}
	})
}

// outcomes counts answers by status.
type outcomes struct {
	mu    sync.Mutex
	count map[int]int
}

func (o *outcomes) add(status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == nil {
		o.count = map[int]int{}
	}
	o.count[status]++
}

func (o *outcomes) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprint(o.count)
}

func TestSoManyRequestsWaitAndNoMore(t *testing.T) {
	for maxWaiting, places := range map[int]int{0: 10_000, 1: 1, 7: 7} {
		t.Run(fmt.Sprint(maxWaiting), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := perClient(limits.LeakyQueue(limits.PerSecond(1), 30_000))
				config.MaxWaiting = maxWaiting
				next := &hello{}
				limit := nethttp.MustNew(config)
				handler := limit.Handler(next)
				wantStatus(t, get(handler), 200) // does not wait
				var answers outcomes
				var wg sync.WaitGroup
				ctx, leave := context.WithCancel(t.Context())
				for range places {
					wg.Go(func() { answers.add(get(handler, func(r *http.Request) { *r = *r.WithContext(ctx) }).Code) })
				}
				synctest.Wait()
				for range 3 {
					w := get(handler)
					wantStatus(t, w, http.StatusServiceUnavailable)
					wantField(t, w, "Retry-After", "1")
					wantField(t, w, "Cache-Control", "no-store")
					wantField(t, w, "Content-Type", "application/problem+json")
					wantField(t, w, "RateLimit", "")
				}
				if next.called.Load() != 1 || answers.String() != "map[]" {
					t.Errorf("%d served, answers %v", next.called.Load(), &answers)
				}
				leave()
				wg.Wait()

				// The clients that left have made room, but the refused requests have spent their slots.
				start := time.Now()
				wantStatus(t, get(handler), 200)
				if waited, want := time.Since(start), time.Duration(places+4)*time.Second; waited != want {
					t.Errorf("the next started after %v, want %v: behind all slots", waited, want)
				}
			})
		})
	}
}

func TestAPlaceInTheQueueIsGivenBackWhateverHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		config := perClient(limits.LeakyQueue(limits.PerSecond(1), 9))
		config.MaxWaiting = 1
		config.Headers.PartitionKey = func(string) []byte {
			if broken {
				panic("a mistake")
			}
			return nil
		}
		limit := nethttp.MustNew(config)
		panicking := limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("another") }))
		ask := func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			get(panicking)
		}
		ask() // goes on at once
		ask() // panics on its way into the queue
		broken = false
		ask() // panics behind it
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		// leaves it
		wantStatus(t, get(panicking, func(r *http.Request) { *r = *r.WithContext(ctx) }), http.StatusServiceUnavailable)
		wantStatus(t, get(limit.Handler(&hello{})), http.StatusOK)
	})
}

func TestARefusalForWantOfRoomIsAnUnavailableOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := perClient(limits.LeakyQueue(limits.PerHour(1), 9))
		config.MaxWaiting, config.OutcomeInContext = 1, true
		var observed []core.Verdict
		config.Observer = core.ObserverFuncs[*http.Request]{
			OnDecision: func(_ context.Context, _ *http.Request, o core.Outcome) {
				observed = append(observed, o.Verdict())
			},
		}
		config.Denied = func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
			inContext, ok := nethttp.OutcomeFrom(r.Context())
			if o.Verdict() != core.Unavailable || !errors.Is(o.Err(), core.ErrQueueFull) || !ok ||
				inContext.Verdict() != core.Unavailable {
				t.Errorf("%v, %v; in the context %v", o.Verdict(), o.Err(), inContext.Verdict())
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		handler := nethttp.MustNew(config).Handler(&hello{})
		get(handler)
		ctx, leave := context.WithCancel(t.Context())
		go get(handler, func(r *http.Request) { *r = *r.WithContext(ctx) })
		synctest.Wait()
		wantStatus(t, get(handler), http.StatusServiceUnavailable)
		leave()
		synctest.Wait()
		if fmt.Sprint(observed) != "[allowed allowed allowed]" {
			t.Errorf("Observe saw %v", observed)
		}
	})
}

func TestANegativeMaxWaitingIsAMistake(t *testing.T) {
	config := nethttp.Config{MaxWaiting: -1}
	_, err := nethttp.New(config)
	if err == nil || !strings.Contains(err.Error(), "core: max waiting: must be positive, or 0 for 10000 (got -1)") ||
		!strings.Contains(err.Error(), "core: ") {
		t.Errorf("got %v, want the mistakes of rules and of max waiting", err)
	}
}
