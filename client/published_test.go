package client_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

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
	c.after = now.Add(time.Duration((denials+1)*60/c.perMinute*float64(time.Second)) + rand.N(time.Second))
}
