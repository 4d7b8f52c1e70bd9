package directory

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// How long keys are used, and when their directory is asked again.
const (
	minAge     = time.Minute
	defaultAge = 5 * time.Minute // of an answer that does not say how long it is fresh
	maxAge     = time.Hour

	patience   = 500 * time.Millisecond // how long a request waits for a fetch since it began
	timeout    = 10 * time.Second       // of a fetch
	minBackoff = 5 * time.Second        // after a fetch that failed
	maxBackoff = 5 * time.Minute
)

// ErrUnavailable is the error of [Directory.Keys] if no fetch has succeeded yet.
var ErrUnavailable = errors.New("directory: no fetch has succeeded yet")

// Options are what directories share.
type Options struct {
	Transport http.RoundTripper                     // nil: [NewTransport]
	OnFetch   func(url string, keys int, err error) // called after each fetch; nil: no calls
	Tickets   chan struct{}                         // has room for as many fetches as may run at once; nil: no bound
}

// Directory is a directory of keys elsewhere, and its last known keys. It is safe for concurrent
// use. It has no goroutine except during a fetch.
type Directory struct {
	place   Place
	options Options
	client  *http.Client

	held atomic.Pointer[held] // nil: no fetch has succeeded

	mu       sync.Mutex
	flight   *flight   // nil: none is under way
	failures int       // since the last success
	retry    time.Time // no fetch begins before
}

// held are keys that a fetch has found. It never changes.
type held struct {
	keys    Keys
	refresh time.Time // from here on a request starts a fetch, and does not wait for it
	expires time.Time // from here on it waits
}

// flight is a fetch that is under way.
type flight struct {
	began time.Time
	done  chan struct{}
}

// New returns a directory that has no keys yet. The first call of Keys fetches them.
func New(place Place, options Options) *Directory {
	transport := options.Transport
	if transport == nil {
		transport = NewTransport()
	}
	return &Directory{place: place, options: options, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Keys returns the last known keys. It starts a fetch if they are old, and waits for it, though not
// for long, if they have expired or if there are none. One fetch runs at a time. Keys that have
// expired stay while fetches fail. Keys returns [ErrUnavailable] if there are none.
func (d *Directory) Keys(ctx context.Context) (Keys, error) {
	now := time.Now()
	h := d.held.Load()
	if h != nil && now.Before(h.refresh) {
		return h.keys, nil
	}
	f := d.fetch(now)
	if f != nil && (h == nil || !now.Before(h.expires)) {
		f.wait(ctx, now)
		h = d.held.Load()
	}
	if h == nil {
		return nil, ErrUnavailable
	}
	return h.keys, nil
}

// Idle reports whether the directory has no keys, no fetch is under way, and none has failed of late.
// So a directory that is idle was never asked, for want of a ticket, or will be asked again.
func (d *Directory) Idle(now time.Time) bool {
	if d.held.Load() != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.flight == nil && (d.failures == 0 || now.After(d.retry))
}

// wait waits until the fetch has ended, or has run for so long that requests wait no more.
func (f *flight) wait(ctx context.Context, now time.Time) {
	left := f.began.Add(patience).Sub(now)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-f.done:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// fetch returns the fetch that is under way, after starting one if it is time. It returns nil
// otherwise.
func (d *Directory) fetch(now time.Time) *flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flight != nil || now.Before(d.retry) || !d.take() {
		return d.flight
	}
	d.flight = &flight{now, make(chan struct{})}
	go d.fly(d.flight)
	return d.flight
}

// take takes a ticket, and reports whether there was one.
func (d *Directory) take() bool {
	if d.options.Tickets == nil {
		return true
	}
	select {
	case d.options.Tickets <- struct{}{}:
		return true
	default:
		return false
	}
}

// fly fetches the keys.
func (d *Directory) fly(f *flight) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	answer, err := load(ctx, d.client, d.place)
	now := time.Now()
	if err == nil {
		// Processes that have started together ask apart.
		refresh := answer.age/2 + rand.N(answer.age/4)
		d.held.Store(&held{answer.keys, f.began.Add(refresh), f.began.Add(answer.age)})
	}
	if d.options.Tickets != nil {
		<-d.options.Tickets
	}
	d.mu.Lock()
	d.flight = nil
	if err == nil {
		d.failures = 0
	} else {
		backoff := min(minBackoff<<min(d.failures, 10), maxBackoff)
		d.failures++
		d.retry = now.Add(max(backoff, min(answer.retryAfter, maxAge)))
	}
	d.mu.Unlock()
	close(f.done)
	if d.options.OnFetch != nil {
		d.options.OnFetch(d.place.URL, len(answer.keys), err)
	}
}
