package world

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
)

// adapters are the packages whose middleware a site may use.
var adapters = []string{"nethttp", "chimw", "ginmw", "echomw"}

// site serves the requests of a process over HTTP, on connections in memory.
type site struct {
	process *Process
	server  *http.Server
	clients *http.Client
	shedder *shed.Shedder[*http.Request] // nil: none
	arrived chan net.Conn
	closed  chan struct{}
	over    sync.WaitGroup

	mu        sync.Mutex
	last      int
	inFlight  int
	exchanges map[string]*exchange // by the number in the header field Request
}

// exchange is a request over HTTP and its answer.
type exchange struct {
	request  Request
	work     time.Duration
	begun    time.Time // when it reached the process
	underWay *underWay
	outcome  core.Outcome
	decided  bool
}

// serve starts the site of a process.
func (p *Process) serve() *site {
	s := &site{process: p, arrived: make(chan net.Conn), closed: make(chan struct{}),
		exchanges: make(map[string]*exchange)}
	handler := s.handler()
	if p.program.Sheds > 0 {
		s.shedder = shed.MustNew(shed.Options[*http.Request]{Limit: p.program.Sheds})
		handler = shed.Handler(s.shedder, handler)
	}
	s.server = &http.Server{ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.arrive()
			defer p.leave()
			s.of(r).begun = time.Now()
			handler.ServeHTTP(w, r)
		})}
	s.over.Go(func() { s.server.Serve(s) })
	there, back := &route{random: p.world.source(), latency: near}, &route{random: p.world.source(),
		latency: near}
	s.clients = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			trip, _ := there.delay(60)
			if err := sleep(ctx, 2*trip); err != nil {
				return nil, err
			}
			c := newConnection(there, back, "client", p.name)
			select {
			case s.arrived <- c.server:
				return c.client, nil
			case <-s.closed:
				return nil, net.ErrClosed
			}
		},
	}}
	return s
}

// handler returns a handler that works as long as the request says, in the middleware of the
// adapter.
func (s *site) handler() http.Handler {
	limiter, backend, settles := s.process.stats.Limiter("all"), s.process.backend, s.process.settled
	rules := s.process.program.Rules
	switch s.process.program.Adapter {
	case "nethttp", "chimw":
		config := nethttp.Config{
			Rules: lift(rules, s.requestOf), Backend: backend,
			Observer: core.ObserverFuncs[*http.Request]{
				OnDecision: observe(s, func(r *http.Request) *http.Request { return r }), OnEnd: settles,
				Next: limiter,
			},
		}
		if s.process.program.Adapter == "nethttp" {
			return nethttp.MustNew(config).Handler(http.HandlerFunc(s.work))
		}
		router := chi.NewRouter()
		router.Use(chimw.MustNew(config).Handler)
		router.Get("/", s.work)
		return router
	case "ginmw":
		of := func(c *gin.Context) *http.Request { return c.Request }
		gin.SetMode(gin.ReleaseMode)
		router := gin.New()
		router.Use(ginmw.MustNew(ginmw.Config{
			Rules: lift(rules, func(c *gin.Context) Request { return s.requestOf(of(c)) }), Backend: backend,
			Observer: core.ObserverFuncs[*gin.Context]{
				OnDecision: observe(s, of), OnEnd: settles, Next: limiter,
			},
		}).Handler())
		router.GET("/", func(c *gin.Context) { s.work(c.Writer, c.Request) })
		return router
	case "echomw":
		of := echo.Context.Request
		router := echo.New()
		router.Use(echomw.MustNew(echomw.Config{
			Rules: lift(rules, func(c echo.Context) Request { return s.requestOf(of(c)) }), Backend: backend,
			Observer: core.ObserverFuncs[echo.Context]{
				OnDecision: observe(s, of), OnEnd: settles, Next: limiter,
			},
		}).Middleware())
		router.GET("/", func(c echo.Context) error { s.work(c.Response(), c.Request()); return nil })
		return router
	}
	panic("no adapter " + s.process.program.Adapter)
}

// lift returns the rules for requests of a framework.
func lift[R any](rules []core.Rule[Request], of func(R) Request) (lifted []core.Rule[R]) {
	for _, r := range rules {
		l := core.Rule[R]{Name: r.Name, Limit: r.Limit, FinalCost: r.FinalCost,
			Key: func(q R) (string, error) { return r.Key(of(q)) }}
		if r.Value != nil {
			l.Value = func(q R) (string, error) { return r.Value(of(q)) }
		}
		if r.Cost != nil {
			l.Cost = func(q R) int64 { return r.Cost(of(q)) }
		}
		lifted = append(lifted, l)
	}
	return lifted
}

// observe returns an OnDecision that records a decision in the laws.
func observe[R any](s *site, of func(R) *http.Request) func(context.Context, R, core.Outcome) {
	return func(_ context.Context, q R, o core.Outcome) {
		e := s.of(of(q))
		e.outcome, e.decided = o, true
		e.underWay = s.process.world.laws.decided(s.process, e.request, e.begun, o)
	}
}

func (s *site) of(r *http.Request) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exchanges[r.Header.Get("Request")]
}

func (s *site) requestOf(r *http.Request) Request { return s.of(r).request }

// work is the handler. Its answer has as many bytes as the request costs in the end.
func (s *site) work(w http.ResponseWriter, r *http.Request) {
	e := s.of(r)
	s.count(1)
	time.Sleep(e.work)
	s.count(-1)
	s.process.world.laws.ended(s.process, e.request, e.underWay)
	w.Write(make([]byte, e.request.Final))
}

// count counts requests in flight.
func (s *site) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight += n
	if most := s.process.program.Sheds; most > 0 && s.inFlight > most {
		s.process.world.laws.breaks("%s: %d requests are in flight, of %d", s.process.name,
			s.inFlight, most)
	}
}

// ask sends a request, and returns the outcome of the process.
func (s *site) ask(ctx context.Context, r Request, work time.Duration) (core.Outcome, bool) {
	e := &exchange{request: r, work: work}
	s.mu.Lock()
	s.last++
	number := fmt.Sprint(s.last)
	s.exchanges[number] = e
	s.mu.Unlock()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+s.Addr().String()+"/", nil)
	if err != nil {
		s.process.world.t.Fatal(err)
	}
	request.Header.Set("Request", number)
	answer, err := s.clients.Do(request)
	if err != nil {
		return core.Outcome{}, false
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return core.Outcome{}, false
	}
	s.mu.Lock()
	delete(s.exchanges, number)
	s.mu.Unlock()
	if !e.decided {
		if s.shedder == nil || answer.StatusCode != http.StatusServiceUnavailable {
			s.process.world.laws.breaks("%s: answered %d without a decision", s.process.name,
				answer.StatusCode)
		}
		return core.Outcome{}, false
	}
	s.process.world.laws.answered(s.process, e, answer, len(body))
	return e.outcome, true
}

// close ends the site. All requests have ended.
func (s *site) close() {
	s.clients.CloseIdleConnections()
	s.server.Close()
	s.over.Wait()
	if s.shedder != nil {
		if n := s.shedder.State().InFlight; n != 0 {
			s.process.world.laws.breaks("%s: the shedder counts %d in flight, and all have ended",
				s.process.name, n)
		}
	}
}

// answered checks that an answer agrees with the decision.
func (l *laws) answered(p *Process, e *exchange, answer *http.Response, bytes int) {
	want := e.outcome.Status()
	if answer.StatusCode != want {
		l.breaks("%s: answered %d, want %d", p.name, answer.StatusCode, want)
	}
	wait := ""
	if seconds := (e.outcome.RetryAfter() + time.Second - 1) / time.Second; !e.outcome.Allowed() &&
		seconds > 0 {
		wait = strconv.Itoa(int(seconds))
	}
	if got := answer.Header.Get("Retry-After"); want == http.StatusTooManyRequests && got != wait {
		l.breaks("%s: Retry-After is %q, of %v", p.name, got, e.outcome.RetryAfter())
	}
	if want == http.StatusOK && bytes != int(e.request.Final) {
		l.breaks("%s: %d bytes, want %d", p.name, bytes, e.request.Final)
	}
}

// Accept, Close and Addr make the site a listener.
func (s *site) Accept() (net.Conn, error) {
	select {
	case c := <-s.arrived:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *site) Close() error { close(s.closed); return nil }

func (s *site) Addr() net.Addr { return addr("10.1.0.1:80") }
