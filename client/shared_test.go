package client_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// hardScenarios are jobs whose servers say little, say it coarsely, or serve several processes.
var hardScenarios = []scenario{
	{
		name:    "httprate, 100 in 10 s",
		server:  httprate{limit: 100, period: 10 * time.Second}.new,
		latency: 20 * time.Millisecond, requests: 500, workers: 32,
		options: client.Options{MaxWait: time.Minute},
		ideal:   50 * time.Second, // a period is renewed while the next one lasts
		most:    figures{1.2, 0, 0},
	},
	{
		name:    "httprate, 20 in 1 s",
		server:  httprate{limit: 20, period: time.Second}.new,
		latency: 20 * time.Millisecond, requests: 600, workers: 32,
		options: client.Options{MaxWait: time.Minute},
		ideal:   30 * time.Second,
		most:    figures{1.3, 10, 0},
	},
	{
		name:    "httprate, 60 in a minute",
		server:  httprate{limit: 60, period: time.Minute}.new,
		latency: 20 * time.Millisecond, requests: 240, workers: 8,
		options: client.Options{MaxWait: 2 * time.Minute},
		ideal:   4 * time.Minute,
		most:    figures{1.2, 0, 0},
	},
	{
		name:    "a server that denies all for 5 s and says nothing",
		server:  func() model { return denying{5 * time.Second, 10 * time.Second} },
		latency: 20 * time.Millisecond, requests: 1000, workers: 4,
		ideal: 20 * time.Second, // 15 of which it takes without denials
		most:  figures{1.5, 12, 4},
	},
	{
		name:    "GitHub, 300 writes, 80 a minute and 500 an hour",
		server:  func() model { return &writes{} },
		latency: 20 * time.Millisecond, requests: 300, workers: 16,
		options: client.Options{Dialect: client.GitHub, MaxWait: 10 * time.Minute},
		method:  "POST",
		path:    func(int) string { return "/repos/o/r/issues" },
		ideal:   3 * time.Minute,
		most:    figures{1.1, 0, 0},
	},
	onDiscord(10, 500, 40, 20*time.Millisecond, 45*time.Second, figures{1.1, 0, 0}),
	{
		name:    "draft-6, 100 in 10 s, four processes",
		server:  fixed{limit: 100, period: 10 * time.Second, fields: draft6, byKey: true}.new,
		latency: 20 * time.Millisecond, requests: 1000, workers: 16, clients: 4,
		ideal: 90 * time.Second,
		most:  figures{1.25, 150, 200},
	},
	{
		name:    "draft-7, 100 in 10 s, four processes",
		server:  fixed{limit: 100, period: 10 * time.Second, fields: draft7, byKey: true}.new,
		latency: 20 * time.Millisecond, requests: 1000, workers: 16, clients: 4,
		ideal: 90 * time.Second,
		most:  figures{1.25, 150, 200},
	},
}

// hundred are 100 processes that share a quota and know nothing of each other, as in arXiv
// 2510.04516: they start within ten seconds, and each has ten requests to send.
func hundred(told bool) scenario {
	s := scenario{
		name: "100 processes, untold", server: dripping{perMinute: 80, burst: 20}.new,
		latency: 20 * time.Millisecond, workers: 1, clients: 100, each: 10,
		stagger: 500 * time.Millisecond,
		options: client.Options{MaxWait: 10 * time.Minute, Attempts: 1000},
		ideal:   980 * time.Minute / 80,
		most:    figures{1.8, 560, 20},
	}
	if told {
		s.name, s.server = "100 processes, told", fixed{limit: 80, period: time.Minute, fields: draft8}.new
		s.ideal, s.most = 12*time.Minute, figures{1.2, 550, 10}
	}
	return s
}

// denying allows all but what comes in a span of time.
type denying struct{ from, until time.Duration }

func (d denying) answer(_ *http.Request, now time.Time) (*http.Response, time.Duration, error) {
	if since := now.Sub(began); since >= d.from && since < d.until {
		return answer(429), 0, nil
	}
	return answer(200), 0, nil
}

// dripping is a token bucket that says nothing.
type dripping struct {
	perMinute, burst float64

	tokens float64
	last   time.Time
}

func (d dripping) new() model { d.tokens = d.burst; return &d }

func (d *dripping) answer(_ *http.Request, now time.Time) (*http.Response, time.Duration, error) {
	if !d.last.IsZero() {
		d.tokens = min(d.burst, d.tokens+now.Sub(d.last).Minutes()*d.perMinute)
	}
	if d.last = now; d.tokens < 1 {
		return answer(429), 0, nil
	}
	d.tokens--
	return answer(200), 0, nil
}

func TestHardScenarios(t *testing.T) {
	for _, s := range append(hardScenarios, hundred(false), hundred(true)) {
		t.Run(s.name, func(t *testing.T) { s.test(t, newRandom(1, 2)) })
	}
}

// AATB knows the quota and what all other clients do, and ours does not. Yet it is denied about as
// seldom, and done about as soon; sooner where answers tell what is left. Of 50 runs that tell
// nothing, the mean is 1.16 with 484 denials, and that of AATB 1.15 with 481.
func TestAHundredProcessesAreDeniedLessThanPublishedOnes(t *testing.T) {
	for _, told := range []bool{false, true} {
		run := func(name string, wrap func(http.RoundTripper, int) http.RoundTripper) (got figures) {
			s := hundred(told)
			s.wrap = wrap
			synctest.Test(t, func(t *testing.T) { got = s.run(t, newRandom(1, 2)) })
			if *trace {
				fmt.Printf("| %s, %s | %v |\n", s.name, name, got)
			}
			return got
		}
		ours, aatb, backoff := run("weir", nil), run("AATB", newTelemetry(80).client), run("backoff", newBackoff)
		if most := aatb.denials * 5 / 4; ours.denials > most || 4*ours.denials > backoff.denials {
			t.Errorf("told %v: %d denials, want %d at most, and a quarter of %d", told, ours.denials, most,
				backoff.denials)
		}
		slower := 0.4 // of single runs
		if told {
			slower = 0.05
		}
		if ours.over > aatb.over+slower {
			t.Errorf("told %v: a time of %.2f, want %.2f at most", told, ours.over, aatb.over+slower)
		}
	}
}

// httprate is what that library answers: an approximate sliding window, the end of the window in
// whole seconds, and a Retry-After of the whole window.
type httprate struct {
	limit  int
	period time.Duration

	current, previous int
	begins            time.Time
}

func (h httprate) new() model { return &h }

func (h *httprate) answer(_ *http.Request, now time.Time) (*http.Response, time.Duration, error) {
	if h.begins.IsZero() {
		h.begins = now
	}
	for ; now.Sub(h.begins) >= h.period; h.begins = h.begins.Add(h.period) {
		h.previous, h.current = h.current, 0
	}
	rest := 1 - float64(now.Sub(h.begins))/float64(h.period)
	used := int(math.Round(float64(h.previous)*rest + float64(h.current)))
	fields := []string{"Date", now.UTC().Format(http.TimeFormat), "X-RateLimit-Limit",
		fmt.Sprint(h.limit),
		"X-RateLimit-Reset", fmt.Sprint(h.begins.Add(h.period).Unix())}
	if used+1 > h.limit {
		fields = append(fields, "X-RateLimit-Remaining", fmt.Sprint(h.limit-used))
		return answer(429, append(fields, "Retry-After", fmt.Sprint(int(h.period.Seconds())))...), 0, nil
	}
	h.current++
	return answer(200, append(fields, "X-RateLimit-Remaining", fmt.Sprint(h.limit-used-1))...), 0, nil
}

// writes is GitHub's secondary limit of requests that create content, which its answers do not
// tell.
type writes struct{ minute, hour window }

func (g *writes) answer(*http.Request, time.Time) (*http.Response, time.Duration, error) {
	fields := append(xRateLimit(5000, 4000, fmt.Sprint(began.Add(time.Hour).Unix())), "X-RateLimit-Resource", "core")
	if !g.minute.take(80, time.Minute) {
		return answer(403, append(fields, "Retry-After", fmt.Sprint(ceil(time.Until(g.minute.ends))))...), 0, nil
	}
	if !g.hour.take(500, time.Hour) {
		return answer(403, append(fields, "Retry-After", fmt.Sprint(ceil(time.Until(g.hour.ends))))...), 0, nil
	}
	return answer(201, fields...), 0, nil
}

// newBackoff returns a client that sends at once and backs off exponentially with full jitter, up
// to 32 seconds: what the authors of AATB call UB.
func newBackoff(base http.RoundTripper, _ int) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		for attempt := 1; ; attempt++ {
			response, err := base.RoundTrip(r)
			if err != nil || response.StatusCode != 429 {
				return response, err
			}
			io.Copy(io.Discard, response.Body)
			most := min(time.Second<<min(attempt, 5)-time.Second, 32*time.Second)
			time.Sleep(100*time.Millisecond + rand.N(most))
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// telemetry is the aggregator of AATB, the assisted adaptive token bucket of arXiv 2510.04516. It
// knows the quota, and counts what all clients have sent and how often they were denied. So its
// clients know more than those of weir. Parameters are those of the authors' code.
type telemetry struct {
	perMinute float64 // the quota

	mu     sync.Mutex
	sent   map[int][]time.Time
	denied []time.Time
}

func newTelemetry(perMinute float64) *telemetry {
	return &telemetry{perMinute: perMinute, sent: make(map[int][]time.Time)}
}

const (
	reportWindow    = 10 * time.Second // of a client
	telemetryWindow = 30 * time.Second // of requests and denials; clients are active for twice as long
	aatbSize        = 4
	aatbRate        = 0.02 // in a second: one in a minute, as the authors round it
	aatbStepUp      = 1.5
	aatbSmallStepUp = 1.2
)

// counts returns what the telemetry answers.
func (t *telemetry) counts(now time.Time) (active, requests, denials float64) {
	for id, at := range t.sent {
		for len(at) > 0 && now.Sub(at[0]) > 2*telemetryWindow {
			at = at[1:]
		}
		if t.sent[id] = at; len(at) > 0 {
			active++
		}
		requests += since(at, now, telemetryWindow)
	}
	return max(active, 1), requests, since(t.denied, now, telemetryWindow)
}

// since counts instants of the last window.
func since(at []time.Time, now time.Time, window time.Duration) (n float64) {
	for i := len(at) - 1; i >= 0 && now.Sub(at[i]) <= window; i-- {
		n++
	}
	return n
}

// aatb is one client of AATB: a token bucket whose rate follows what the telemetry tells.
type aatb struct {
	*telemetry
	id           int
	base         http.RoundTripper
	rate, tokens float64
	used         time.Time // the latest token
	reported     time.Time
	changed      time.Time // the rate
	after        time.Time // nothing is sent before
}

func (t *telemetry) client(base http.RoundTripper, id int) http.RoundTripper {
	now := time.Now()
	return &aatb{telemetry: t, id: id, base: base, rate: aatbRate, tokens: 1, used: now, reported: now, changed: now}
}

func (c *aatb) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		time.Sleep(c.wait())
		response, err := c.base.RoundTrip(r)
		if err != nil || response.StatusCode != 429 {
			return response, err
		}
		io.Copy(io.Discard, response.Body)
		c.congested()
	}
}

// wait takes a token, and returns how long its request has to wait.
func (c *aatb) wait() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for now.Sub(c.reported) >= reportWindow { // what a job in the background does
		c.reported = c.reported.Add(reportWindow)
		c.report(c.reported)
	}
	c.tokens = min(aatbSize, c.tokens+now.Sub(c.used).Seconds()*c.rate)
	at := now
	if c.tokens < 1 {
		at = now.Add(time.Duration((1 - c.tokens) / c.rate * float64(time.Second)))
	}
	if c.after.After(at) {
		at = c.after
	}
	c.after = time.Time{}
	c.tokens, c.used = max(c.tokens-1, 0), at
	c.sent[c.id] = append(c.sent[c.id], at)
	return at.Sub(now)
}

// report asks the telemetry, as each client does once in a window. If a client was denied, all
// pause.
func (c *aatb) report(now time.Time) {
	active, requests, denials := c.counts(now)
	switch {
	case denials > 0:
		c.after = now.Add(reportWindow + rand.N(4*time.Second) - 2*time.Second)
	case now.Sub(c.changed) >= reportWindow:
		step := aatbSmallStepUp
		if since(c.sent[c.id], now, 2*reportWindow) < 0.75*requests/active || active == 1 {
			step = aatbStepUp
		}
		c.rate, c.changed = max(c.rate*step, c.rate+0.01), now
	}
}

// congested notes a denial: the rate sinks, and the next request waits until all that were denied
// fit.
func (c *aatb) congested() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	active, requests, denials := c.counts(now)
	c.denied = append(c.denied, now)
	by := 3.0
	if since(c.sent[c.id], now, 2*reportWindow) < 0.5*requests/active {
		by = 2
	}
	c.rate, c.tokens, c.changed, c.reported = max(c.rate/by, 0.01), 1.1, now, now
	fit := time.Duration((denials + 1) * 60 / c.perMinute * float64(time.Second))
	c.after = now.Add(fit + rand.N(time.Second))
}
