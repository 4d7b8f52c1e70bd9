package client_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// A scenario is a job of requests to one simulated server, with a client between them. To add
// one, add a row to scenarios; to add a server, write a model.
type scenario struct {
	name     string
	server   func() model
	latency  time.Duration // each way, and as much again at random
	requests int           // of all clients together
	workers  int           // of each client
	clients  int           // processes that share the limit; 0: one
	// Of each client alone, in place of requests; 0: they take them from requests.
	each    int
	stagger time.Duration // clients start one after the other, within twenty of these
	options client.Options
	wrap    func(base http.RoundTripper, i int) http.RoundTripper // client i; nil: that of options
	method  string                                                // "": GET
	path    func(i int) string                                    // of request i; nil: "/"
	// Of a client that knows all, over a network without latency.
	ideal time.Duration
	most  figures
}

// figures are what a scenario comes to.
type figures struct {
	over    float64 // time over ideal
	denials int     // answers by which the server denied a request
	errors  int     // that the program saw: it sends such a request again a quarter of a second later
}

func (f figures) String() string {
	return fmt.Sprintf("%.2f · %d · %d", f.over, f.denials, f.errors)
}

// A model is a server. It is asked about one request at a time, and says what it answers and
// how much later; it may refuse the connection.
type model interface {
	answer(r *http.Request, now time.Time) (a *http.Response, later time.Duration, err error)
}

var scenarios = []scenario{
	{
		name:    "nginx, 20 a second, burst of 20, nodelay",
		server:  nginx{rate: 20, burst: 20, nodelay: true}.new,
		latency: 20 * time.Millisecond, requests: 600, workers: 32,
		ideal: 579 * time.Second / 20,
		most:  figures{1.15, 40, 0},
	},
	{
		name:    "nginx, the same, 64 workers",
		server:  nginx{rate: 20, burst: 20, nodelay: true}.new,
		latency: 20 * time.Millisecond, requests: 600, workers: 64,
		ideal: 579 * time.Second / 20,
		most:  figures{1.15, 40, 0},
	},
	{
		name:    "nginx, 50 a second, burst of 10, nodelay",
		server:  nginx{rate: 50, burst: 10, nodelay: true}.new,
		latency: 20 * time.Millisecond, requests: 1500, workers: 32,
		ideal: 1489 * time.Second / 50,
		most:  figures{1.2, 40, 0},
	},
	{
		name:    "nginx, 10 a second, delay queue of 20",
		server:  nginx{rate: 10, burst: 20}.new,
		latency: 20 * time.Millisecond, requests: 300, workers: 32,
		ideal: 299 * time.Second / 10,
		most:  figures{1.15, 40, 0},
	},
	{
		name:    "nginx, 20 a second, delay queue of 20, 64 workers",
		server:  nginx{rate: 20, burst: 20}.new,
		latency: 20 * time.Millisecond, requests: 600, workers: 64,
		ideal: 599 * time.Second / 20,
		most:  figures{1.15, 40, 0},
	},
	{
		name:    "nginx, 503, 20 a second, burst of 20, nodelay",
		server:  nginx{rate: 20, burst: 20, nodelay: true, status: 503}.new,
		latency: 20 * time.Millisecond, requests: 600, workers: 32,
		options: client.Options{Denials: []int{503}},
		ideal:   579 * time.Second / 20,
		most:    figures{1.15, 40, 0},
	},
	{
		name:    "fixed window, 100 in 10 s, RateLimit",
		server:  fixed{limit: 100, period: 10 * time.Second, fields: draft8}.new,
		latency: 20 * time.Millisecond, requests: 450, workers: 32,
		ideal: 40 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "fixed window, 100 in 10 s, X-RateLimit-Reset",
		server:  fixed{limit: 100, period: 10 * time.Second, fields: epoch}.new,
		latency: 20 * time.Millisecond, requests: 450, workers: 32,
		ideal: 40 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "fixed window, 100 in 10 s, the last one full",
		server:  fixed{limit: 100, period: 10 * time.Second, fields: draft8}.new,
		latency: 20 * time.Millisecond, requests: 500, workers: 32,
		ideal: 40 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "fixed window, 200 in 5 s, the last one full",
		server:  fixed{limit: 200, period: 5 * time.Second, fields: draft8}.new,
		latency: 20 * time.Millisecond, requests: 1200, workers: 32,
		ideal: 25 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "express-rate-limit, 50 in 5 s, draft-6",
		server:  fixed{limit: 50, period: 5 * time.Second, fields: draft6, byKey: true}.new,
		latency: 20 * time.Millisecond, requests: 275, workers: 32,
		ideal: 25 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "express-rate-limit, 50 in 5 s, draft-7",
		server:  fixed{limit: 50, period: 5 * time.Second, fields: draft7, byKey: true}.new,
		latency: 20 * time.Millisecond, requests: 275, workers: 32,
		ideal: 25 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "express-rate-limit, 50 in 5 s, draft-8",
		server:  fixed{limit: 50, period: 5 * time.Second, fields: draft8, byKey: true}.new,
		latency: 20 * time.Millisecond, requests: 275, workers: 32,
		ideal: 25 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "GitLab, 60 a minute, which tells Unix time",
		server:  fixed{limit: 60, period: time.Minute, fields: gitLab}.new,
		latency: 20 * time.Millisecond, requests: 270, workers: 8,
		options: client.Options{MaxWait: 2 * time.Minute},
		ideal:   4 * time.Minute,
		most:    figures{1.1, 0, 0},
	},
	{
		name:    "Reddit, 100 in 10 s, in decimals",
		server:  fixed{limit: 100, period: 10 * time.Second, fields: reddit}.new,
		latency: 20 * time.Millisecond, requests: 450, workers: 32,
		ideal: 40 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "Brave Search, 20 in a second and 15,000 in a month",
		server:  fixed{limit: 20, period: time.Second, fields: brave}.new,
		latency: 20 * time.Millisecond, requests: 300, workers: 32,
		ideal: 14 * time.Second,
		most:  figures{1.4, 0, 0}, // a second is told in whole seconds
	},
	{
		name:    "Shopify, 2 a second, bucket of 40",
		server:  func() model { return &leaking{size: 40} },
		latency: 20 * time.Millisecond, requests: 200, workers: 16,
		ideal: 80 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "Shopify Plus, 20 a second, bucket of 400",
		server:  func() model { return &leaking{size: 400} },
		latency: 20 * time.Millisecond, requests: 1600, workers: 64,
		ideal: 60 * time.Second,
		most:  figures{1.1, 0, 0},
	},
	{
		name:    "fixed window, 100 in 10 s, two processes",
		server:  fixed{limit: 100, period: 10 * time.Second, fields: draft8}.new,
		latency: 20 * time.Millisecond, requests: 450, workers: 16, clients: 2,
		ideal: 40 * time.Second,
		most:  figures{1.25, 40, 0},
	},
	{
		name:    "5,000 an hour are told, and another limit denies: 20 a second, burst of 20",
		server:  behind{told: fixed{limit: 5000, period: time.Hour, fields: draft8}}.new,
		latency: 20 * time.Millisecond, requests: 600, workers: 32,
		ideal: 579 * time.Second / 20,
		most:  figures{1.5, 60, 0},
	},
	onDiscord(100, 2000, 200, 20*time.Millisecond, 39*time.Second, figures{1.1, 5, 0}),
	{
		name: "a server that is away from 12 s to 15 s",
		server: func() model {
			return &restarting{
				begin: func() model {
					return fixed{limit: 50, period: 10 * time.Second, fields: draft8, byKey: true}.new()
				},
				down: 12 * time.Second, up: 15 * time.Second,
			}
		},
		latency: 20 * time.Millisecond, requests: 300, workers: 32,
		ideal: 45 * time.Second, // 100 before, and 50 each from 15 s on
		most:  figures{1.2, 0, 0},
	},
}

// onDiscord is a job that asks each channel in turn. The account may send 50 requests a second.
func onDiscord(channels, requests, workers int, latency, ideal time.Duration, most figures) scenario {
	return scenario{
		name: fmt.Sprintf("Discord, %d channels", channels), server: newChannels,
		latency: latency, requests: requests, workers: workers,
		options: client.Options{Dialect: client.Discord},
		path:    func(i int) string { return fmt.Sprintf("/api/v10/channels/%d/messages", i%channels) },
		ideal:   ideal, most: most,
	}
}

// drawn returns scenarios around those above, by a seed.
func drawn(random *rand.Rand) (all []scenario) {
	between := func(low, high int) int { return low + random.IntN(high-low+1) }
	latency := func() time.Duration { return time.Duration(between(5, 50)) * time.Millisecond }
	for range 4 {
		for _, nodelay := range []bool{true, false} {
			g := nginx{rate: int64(between(10, 60)), burst: int64(between(10, 40)), nodelay: nodelay}
			n := int(g.rate) * 30
			ideal := time.Duration(n-1) * time.Second / time.Duration(g.rate)
			if nodelay {
				ideal -= time.Duration(g.burst) * time.Second / time.Duration(g.rate)
			}
			all = append(all, scenario{
				name:   fmt.Sprintf("nginx, %d a second, burst of %d, nodelay %v", g.rate, g.burst, nodelay),
				server: g.new, latency: latency(), requests: n, workers: between(8, 80), ideal: ideal,
				most: figures{1.3, 80, 3},
			})
		}
		for _, byKey := range []bool{true, false} {
			formats := []func(int, int, time.Duration, time.Duration, time.Time) []string{draft6, draft7, draft8, epoch}
			f := fixed{limit: between(30, 200), byKey: byKey,
				// Windows begin with the minute.
				period: []time.Duration{5, 6, 10, 12}[random.IntN(4)] * time.Second,
				fields: formats[random.IntN(4)]}
			windows := between(4, 6)
			all = append(all, scenario{
				name:   fmt.Sprintf("window of %d in %v, by key %v", f.limit, f.period, byKey),
				server: f.new, latency: latency(), requests: windows*f.limit + f.limit*between(2, 10)/10,
				workers: between(8, 80),
				options: client.Options{MaxWait: time.Minute},
				ideal:   time.Duration(windows) * f.period,
				most:    figures{1.4, 5, 0},
			})
			if last := &all[len(all)-1]; last.requests == (windows+1)*f.limit { // the last one is full
				last.name += ", to the end"
			}
		}
	}
	for range 2 {
		n := between(60, 120)
		all = append(all, onDiscord(n, 1500, 2*n, latency(), 29*time.Second, figures{1.1, 10, 0}))
	}
	return all
}

// The client was made with scenarios in view, and not with these. What the first two seeds draw has
// been looked at since; the others were run only after the last change to the client.
func TestScenariosThatAreDrawn(t *testing.T) {
	for _, seed := range []uint64{31, 99, 11, 4242} {
		random := rand.New(rand.NewPCG(seed, 0))
		for i, s := range drawn(random) {
			t.Run(fmt.Sprintf("%d/%d %s", seed, i, s.name),
				func(t *testing.T) { s.test(t, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
	}
}

func newRandom(seed1, seed2 uint64) *rand.Rand { return rand.New(rand.NewPCG(seed1, seed2)) }

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			s.test(t, rand.New(rand.NewPCG(1, 2)))
		})
	}
}

func (s scenario) test(t *testing.T, random *rand.Rand) {
	t.Helper()
	var got figures
	synctest.Test(t, func(t *testing.T) { got = s.run(t, random) })
	if *trace {
		fmt.Printf("| %s | %v |\n", s.name, got)
	}
	if got.over > s.most.over || got.denials > s.most.denials || got.errors > s.most.errors {
		t.Errorf("time over ideal, denials, errors: %v, want %v at most", got, s.most)
	}
}

// run does the job of s, in a bubble.
func (s scenario) run(t *testing.T, random *rand.Rand) figures {
	t.Helper()
	time.Sleep(time.Until(began)) // windows begin at multiples of their period
	n := &network{server: s.server(), latency: s.latency, random: random}
	var mu sync.Mutex
	next, failed := 0, 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= s.requests
	}
	path := s.path
	if path == nil {
		path = func(int) string { return "/" }
	}
	var wg sync.WaitGroup
	for i := range max(s.clients, 1) {
		o := s.options
		o.Base = n
		var c http.RoundTripper
		if s.wrap != nil {
			c = s.wrap(n, i)
		} else {
			c = client.MustNew(o)
		}
		take := take
		if s.each > 0 {
			sent := 0
			take = func() (int, bool) {
				mu.Lock()
				defer mu.Unlock()
				sent++
				return sent, sent <= s.each
			}
		}
		for range s.workers {
			wg.Go(func() {
				time.Sleep(time.Duration(i%20) * s.stagger)
				for i, more := take(); more; i, more = take() {
					for {
						response, err := do(c, request(t, s.method, "http://server"+path(i), nil))
						if err == nil && response.StatusCode < 300 {
							break
						}
						mu.Lock()
						failed++
						mu.Unlock()
						time.Sleep(250 * time.Millisecond)
					}
				}
			})
		}
	}
	wg.Wait()
	return figures{float64(time.Since(began)) / float64(s.ideal), n.denied, failed}
}

// network carries requests to a model and answers back.
type network struct {
	latency time.Duration

	mu     sync.Mutex
	server model
	random *rand.Rand
	denied int
}

func (n *network) travel(ctx context.Context, more time.Duration) error {
	n.mu.Lock()
	d := more + n.latency
	if n.latency > 0 {
		d += time.Duration(n.random.Int64N(int64(n.latency)))
	}
	n.mu.Unlock()
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	if err := n.travel(r.Context(), 0); err != nil {
		return nil, err
	}
	n.mu.Lock()
	a, later, err := n.server.answer(r, time.Now())
	if a != nil && (a.StatusCode == 403 || a.StatusCode == 429 || a.StatusCode == 503) {
		n.denied++
	}
	n.mu.Unlock()
	if travelled := n.travel(r.Context(), later); travelled != nil {
		return nil, travelled
	}
	if err != nil {
		return nil, err
	}
	a.Request = r
	return a, nil
}

// nginx is limit_req: a bucket that leaks, counted in thousandths of requests and
// milliseconds. What is over the burst is denied, without a field; without nodelay the rest waits.
type nginx struct {
	rate, burst int64
	nodelay     bool
	status      int // of a denial; 0: 429

	excess int64
	last   time.Time
}

func (g nginx) new() model { return &g }

func (g *nginx) answer(_ *http.Request, now time.Time) (*http.Response, time.Duration, error) {
	excess := int64(0)
	if !g.last.IsZero() {
		excess = max(0, g.excess-g.rate*now.Sub(g.last).Milliseconds()+1000)
	}
	if excess > g.burst*1000 {
		return answer(max(g.status, 429)), 0, nil
	}
	g.excess, g.last = excess, now
	if g.nodelay {
		return answer(200), 0, nil
	}
	return answer(200), time.Duration(excess/g.rate) * time.Millisecond, nil
}

// behind is a server whose fields tell a limit, and which denies by another one that they do not
// tell. Its denials have the fields, and no Retry-After.
type behind struct {
	told   fixed
	hidden model
}

func (b behind) new() model {
	b.hidden = nginx{rate: 20, burst: 20, nodelay: true}.new()
	return &b
}

func (b *behind) answer(r *http.Request, now time.Time) (*http.Response, time.Duration, error) {
	if denial, _, _ := b.hidden.answer(r, now); denial.StatusCode == 429 {
		b.told.used--
		a, _, _ := b.told.answer(r, now)
		a.StatusCode = 429
		return a, 0, nil
	}
	return b.told.answer(r, now)
}

// fixed counts requests in windows. They begin at multiples of the period; or, as in
// express-rate-limit, when the first request comes after the last one has ended.
type fixed struct {
	limit  int
	period time.Duration
	fields func(limit, left int, period, reset time.Duration, now time.Time) []string
	byKey  bool

	used int
	ends time.Time
}

func (f fixed) new() model { return &f }

func (f *fixed) answer(_ *http.Request, now time.Time) (*http.Response, time.Duration, error) {
	if !now.Before(f.ends) {
		f.used, f.ends = 0, now.Add(f.period)
		if !f.byKey {
			f.ends = now.Truncate(f.period).Add(f.period)
		}
	}
	f.used++
	status := 200
	if f.used > f.limit {
		status = 429
	}
	fields := f.fields(f.limit, max(f.limit-f.used, 0), f.period, f.ends.Sub(now), now)
	if status == 429 {
		fields = append(fields, "Retry-After", fmt.Sprint(ceil(f.ends.Sub(now))))
	}
	return answer(status, fields...), 0, nil
}

func ceil(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func draft6(limit, left int, period, reset time.Duration, _ time.Time) []string {
	return []string{"RateLimit-Policy", fmt.Sprintf("%d;w=%d", limit, ceil(period)), "RateLimit-Limit",
		fmt.Sprint(limit),
		"RateLimit-Remaining", fmt.Sprint(left), "RateLimit-Reset", fmt.Sprint(ceil(reset))}
}

func draft7(limit, left int, period, reset time.Duration, _ time.Time) []string {
	return []string{"RateLimit-Policy", fmt.Sprintf("%d;w=%d", limit, ceil(period)),
		"RateLimit", fmt.Sprintf("limit=%d, remaining=%d, reset=%d", limit, left, ceil(reset))}
}

func draft8(limit, left int, period, reset time.Duration, _ time.Time) []string {
	name := fmt.Sprintf(`"%d-in-%dsec"`, limit, ceil(period))
	return []string{"RateLimit-Policy", fmt.Sprintf("%s; q=%d; w=%d; pk=:YTk0OWIyOWI0ZTcz:", name, limit, ceil(period)),
		"RateLimit", fmt.Sprintf("%s; r=%d; t=%d", name, left, ceil(reset))}
}

func epoch(limit, left int, _, reset time.Duration, now time.Time) []string {
	return []string{"Date", now.UTC().Format(http.TimeFormat), "X-RateLimit-Limit", fmt.Sprint(limit),
		"X-RateLimit-Remaining", fmt.Sprint(left), "X-RateLimit-Reset",
		fmt.Sprint(ceil(time.Duration(now.Add(reset).UnixNano())))}
}

func gitLab(limit, left int, _, reset time.Duration, now time.Time) []string {
	return []string{"Date", now.UTC().Format(http.TimeFormat), "RateLimit-Limit", fmt.Sprint(limit),
		"RateLimit-Observed", fmt.Sprint(limit - left),
		"RateLimit-Remaining", fmt.Sprint(left), "RateLimit-Reset", fmt.Sprint(now.Add(reset).Unix()),
		"RateLimit-ResetTime", now.Add(reset).UTC().Format(http.TimeFormat)}
}

func reddit(limit, left int, _, reset time.Duration, _ time.Time) []string {
	return []string{"X-Ratelimit-Used", fmt.Sprint(limit - left), "X-Ratelimit-Remaining",
		fmt.Sprintf("%d.0", left), "X-Ratelimit-Reset", fmt.Sprint(ceil(reset))}
}

func brave(limit, left int, _, reset time.Duration, _ time.Time) []string {
	return []string{"X-RateLimit-Limit", fmt.Sprintf("%d, 15000", limit), "X-RateLimit-Remaining",
		fmt.Sprintf("%d, 14000", left),
		"X-RateLimit-Reset", fmt.Sprintf("%d, 1419704", ceil(reset))}
}

// leaking is a bucket of Shopify, from which a twentieth of its size leaks in a second.
type leaking struct {
	size  int
	level float64
	last  time.Time
}

func (l *leaking) answer(_ *http.Request, now time.Time) (*http.Response, time.Duration, error) {
	l.level = max(l.level-now.Sub(l.last).Seconds()*float64(l.size)/20, 0)
	l.last = now
	if l.level+1 > float64(l.size) {
		full := fmt.Sprintf("%d/%[1]d", l.size)
		return answer(429, "X-Shopify-Shop-Api-Call-Limit", full, "Retry-After", "2.0"), 0, nil
	}
	l.level++
	used := int(math.Ceil(l.level))
	return answer(200, "X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/%d", used, l.size)), 0, nil
}

// channels is Discord with one route: five in five seconds for each channel, and 50 a second for
// the account.
type channels struct {
	global window
	each   map[string]*window
}

func newChannels() model { return &channels{} }

func (d *channels) answer(r *http.Request, _ time.Time) (*http.Response, time.Duration, error) {
	if !d.global.take(50, time.Second) {
		wait := fmt.Sprintf("%.3f", time.Until(d.global.ends).Seconds())
		return answer(429, "Retry-After", wait, "X-RateLimit-Global", "true", "X-RateLimit-Scope", "global"), 0, nil
	}
	channel := strings.Split(r.URL.Path, "/")[4]
	if d.each == nil {
		d.each = make(map[string]*window)
	}
	w := d.each[channel]
	if w == nil {
		w = &window{}
		d.each[channel] = w
	}
	status := 200
	if !w.take(5, 5*time.Second) {
		status = 429
	}
	left := fmt.Sprintf("%.3f", time.Until(w.ends).Seconds())
	a := answer(status, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining", fmt.Sprint(5-w.used),
		"X-RateLimit-Reset-After", left, "X-RateLimit-Bucket", "abcd")
	if status == 429 {
		a.Header.Set("Retry-After", left)
		a.Header.Set("X-RateLimit-Scope", "user")
	}
	return a, 0, nil
}

// restarting is a server that refuses connections for a while, and then begins anew.
type restarting struct {
	begin    func() model
	down, up time.Duration
	now      model
	again    bool
}

func (s *restarting) answer(r *http.Request, now time.Time) (*http.Response, time.Duration, error) {
	since := now.Sub(began)
	if since >= s.down && since < s.up {
		return nil, 0, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if s.now == nil || since >= s.up && !s.again {
		s.now, s.again = s.begin(), since >= s.up
	}
	return s.now.answer(r, now)
}

// A program that sends a hundred requests every two minutes. What it did not send meanwhile says
// nothing about the pace that the server takes.
func TestAPauseOfTheProgramIsNoPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		n := &network{
			server: nginx{rate: 20, burst: 20, nodelay: true}.new(), latency: 20 * time.Millisecond,
			random: newRandom(1, 2),
		}
		c := newClient(t, n, client.Options{})
		for i := range 5 {
			start := time.Now()
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					for range 10 {
						get(c, "http://a/")
					}
				})
			}
			wg.Wait()
			if took := time.Since(start); took > 8*time.Second { // 4 at best
				t.Errorf("burst %d took %v", i, took)
			}
			time.Sleep(2*time.Minute - time.Since(start))
		}
	})
}
