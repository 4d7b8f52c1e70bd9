// Package promises tests what promised turns bring to clients that wait under one key, in virtual
// time. go test -v prints the figures.
package promises

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
)

// site is a limited server in a bubble, and what its clients saw. All clients have one key.
type site struct {
	handler http.Handler
	options headers.Options
	tries   int // after so many denials a client gives up; 0: never

	mu         sync.Mutex
	random     *rand.Rand
	begun      time.Time
	last       time.Duration // when the last request was served
	served     int
	denials    int
	most       int // denials of one request
	firstKept  int // requests that were served at their first return
	promised   int // turns that were told, below MaxPromise
	kept       int // those whose client was served when it came back
	waitedLong time.Duration
	answer     *httptest.ResponseRecorder // the latest
}

func newSite(limit limits.Limit, options headers.Options, seed uint64) *site {
	return &site{
		handler: siteOf(nethttp.Config{}, limit, options), options: options,
		random: rand.New(rand.NewPCG(seed, 0)), begun: time.Now(),
	}
}

// siteOf returns the handler of a process.
func siteOf(config nethttp.Config, limit limits.Limit, options headers.Options) http.Handler {
	config.Rules = []nethttp.Rule{{Name: "all", Limit: limit, Key: keyfuncs.Constant[*http.Request]("")}}
	config.Headers = options
	return nethttp.MustNew(config).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// between returns a random time, such as that of a round trip.
func (s *site) between(least, most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

// ask sends one request, and returns Retry-After of a denial, or 0.
func (s *site) ask() time.Duration {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	s.mu.Lock()
	s.answer = w
	s.mu.Unlock()
	if w.Code == http.StatusOK {
		return 0
	}
	seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
	return time.Duration(seconds) * time.Second
}

// request asks until it is served, each time when Retry-After says, or gives up.
func (s *site) request() {
	time.Sleep(s.between(5*time.Millisecond, 30*time.Millisecond))
	turn := false
	for denials := 0; ; denials++ {
		wait := s.ask()
		s.mu.Lock()
		if turn && wait == 0 {
			s.kept++
		}
		if wait == 0 {
			if denials == 1 {
				s.firstKept++
			}
			s.served, s.last = s.served+1, time.Since(s.begun)
			s.most = max(s.most, denials)
			s.mu.Unlock()
			return
		}
		s.denials++
		if turn = wait < s.options.MaxPromise; turn {
			s.promised++
		}
		s.waitedLong = max(s.waitedLong, wait)
		s.mu.Unlock()
		if denials+1 == s.tries {
			return
		}
		time.Sleep(wait + s.between(5*time.Millisecond, 50*time.Millisecond))
	}
}

// install sends requests, at most so many at once.
func (s *site) install(requests, atOnce int) {
	var clients sync.WaitGroup
	left := make(chan struct{}, requests)
	for range requests {
		left <- struct{}{}
	}
	close(left)
	for range atOnce {
		clients.Go(func() {
			for range left {
				s.request()
			}
		})
	}
	clients.Wait()
}

var bucket = limits.TokenBucket(limits.PerSecond(10), 10)

// Clients that obey Retry-After in whole seconds come to an empty bucket at once. Of those that are
// promised a turn, nine in ten are served when they come back, and no twentieth unit is wasted.
func TestNineInTenAreServedWhenTheyComeBack(t *testing.T) {
	t.Logf("%7s %11s %13s %13s %13s %8s %7s %6s", "clients", "MaxPromise", "first return", "turns told",
		"turns kept", "denials", "wasted", "end")
	for _, clients := range []int{10, 50, 100, 1000} {
		for _, reach := range []time.Duration{0, 5 * time.Second, time.Minute, 2 * time.Minute} {
			if testing.Short() && clients > 100 {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSite(bucket, headers.Options{MaxPromise: reach}, 1)
				for range bucket.Burst() {
					s.ask()
				}
				s.install(clients, clients)
				ideal := time.Duration(clients) * time.Second / 10
				wasted := max(0, 100-100*float64(ideal)/float64(s.last))
				kept := 100 * float64(s.kept) / max(1, float64(s.promised))
				t.Logf("%7d %11v %8d %3.0f%% %13d %12.0f%% %8d %6.1f%% %5.1fs", clients, reach, s.firstKept,
					100*float64(s.firstKept)/float64(clients), s.promised, kept, s.denials, wasted, s.last.Seconds())
				if reach > 0 && (kept < 90 || s.waitedLong > reach) {
					t.Errorf("%d clients, %v: %.0f%% of %d turns were kept, the longest wait is %v", clients, reach,
						kept, s.promised, s.waitedLong)
				}
				if reach > 0 && clients >= 100 && wasted >= 5 {
					t.Errorf("%d clients, %v: %.1f%% of the units were wasted", clients, reach, wasted)
				}
			})
		}
	}
}

// A hundred clients come at once to each kind of limit, of ten units a second on average.
func TestTurnsOfEachAlgorithmAreKept(t *testing.T) {
	two := limits.Per(20, 2*time.Second)
	for _, limit := range []limits.Limit{
		bucket, limits.LeakyBucket(limits.PerSecond(10), 20), limits.TokenBucket(limits.PerSecond(10), 3),
		limits.LeakyQueue(limits.PerSecond(10), 20),
		limits.FixedWindow(two), limits.SlidingWindow(two), limits.SlidingLog(two), limits.AnchoredWindow(two),
	} {
		for _, reach := range []time.Duration{0, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(limit, headers.Options{MaxPromise: reach}, 1)
				s.install(100, 100)
				kept := 100 * float64(s.kept) / max(1, float64(s.promised))
				t.Logf("%-28v MaxPromise %4v: %4d denials, %3d turns told, %3.0f%% kept, %d at most of one, %.1fs", limit,
					reach, s.denials, s.promised, kept, s.most, s.last.Seconds())
				if reach > 0 && kept < 70 {
					t.Errorf("%v: %.0f%% of the turns were kept", limit, kept)
				}
			})
		}
	}
}

// far is a backend that other processes share.
type far struct{ backends.Backend }

// Each of three processes knows of its own denials alone, and promises every third turn.
func TestProcessesShareTheTurns(t *testing.T) {
	for _, instances := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			shared := far{memory.MustNew(memory.Options{})}
			s := newSite(bucket, headers.Options{MaxPromise: time.Minute}, 1)
			var processes []http.Handler
			for range 3 {
				processes = append(processes, siteOf(nethttp.Config{Backend: shared, Instances: instances},
					bucket, s.options))
			}
			next := 0
			s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.mu.Lock()
				process := processes[next%3]
				next++
				s.mu.Unlock()
				process.ServeHTTP(w, r)
			})
			s.install(200, 200)
			kept := 100 * float64(s.kept) / float64(s.promised)
			t.Logf("three processes that know of %d: %d turns told, %.0f%% kept, %d denials, %.1fs", instances,
				s.promised, kept, s.denials, s.last.Seconds())
			if instances == 3 && (kept < 90 || s.last > 22*time.Second) {
				t.Errorf("%.0f%% were kept, the last after %v", kept, s.last)
			}
		})
	}
}

// An installer fetches 61 packages by 122 requests, 50 at once, and gives up at the sixth denial.
func TestAnInstallerThatObeysFetchesAll(t *testing.T) {
	queue := limits.LeakyQueue(limits.PerSecond(10), 50)
	t.Logf("%-14s %6s %8s %18s %5s", "", "served", "seconds", "denials a request", "most")
	for _, way := range []struct {
		name    string
		limit   limits.Limit
		options headers.Options
	}{
		{"least wait", bucket, headers.Options{}},
		{"Jitter 8s", bucket, headers.Options{Jitter: 8 * time.Second}},
		{"MaxPromise 60s", bucket, headers.Options{MaxPromise: time.Minute}},
		{"LeakyQueue", queue, headers.Options{}},
	} {
		for seed := range uint64(3) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(way.limit, way.options, seed)
				s.tries = 6
				s.install(122, 50)
				t.Logf("%-14s %6d %8.1f %18.2f %5d", way.name, s.served, s.last.Seconds(),
					float64(s.denials)/122, s.most)
				if way.options.MaxPromise > 0 && (s.served < 122 || s.denials > 122 || s.last > 16*time.Second) {
					t.Errorf("%d served in %v, %d denials", s.served, s.last, s.denials)
				}
			})
		}
	}
}

// One client that sends one request after another and obeys sees the same answers with promises.
func TestALoneClientCannotTell(t *testing.T) {
	for _, limit := range []limits.Limit{bucket, limits.SlidingWindow(limits.PerMinute(10)),
		limits.FixedWindow(limits.PerMinute(7)), limits.SlidingLog(limits.Per(5, 10*time.Second))} {
		var answers [2]string
		for i, reach := range []time.Duration{0, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(limit, headers.Options{MaxPromise: reach}, 1)
				for range 500 {
					wait := s.ask()
					answers[i] += fmt.Sprintln(s.answer.Code, s.answer.Header(), s.answer.Body)
					time.Sleep(wait + s.between(0, 200*time.Millisecond))
				}
			})
		}
		if answers[0] != answers[1] {
			t.Errorf("%v: without promises %s\nwith promises %s", limit, answers[0], answers[1])
		}
	}
}

// A client that asks again at once, and obeys only the last denial, makes its own wait longer.
func TestAnImpatientClientCanTell(t *testing.T) {
	for _, again := range []int{0, 10, 50, 1000} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(bucket, headers.Options{MaxPromise: time.Minute}, 1)
			var wait time.Duration
			for range int(bucket.Burst()) + 1 + again {
				wait = s.ask()
			}
			want := min(time.Minute, time.Second+time.Duration(again/10)*time.Second)
			if t.Logf("%4d more requests: %v", again, wait); wait != want {
				t.Errorf("%d more requests: told %v, want %v", again, wait, want)
			}
		})
	}
}
