package conform

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limits"
)

// Each of these was blamed once.
func TestServersThatWereBlamedAreNot(t *testing.T) {
	log, window := limits.SlidingLog(limits.Per(10, 2e9)), limits.FixedWindow(limits.Per(10, 2e9))
	always := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	told := func(fields string) (string, func(http.Header, limits.Limit, limits.Decision)) {
		for _, one := range tellings {
			if one.fields == fields {
				return "fields: " + one.fields, one.tell
			}
		}
		t.Fatal(fields)
		return "", nil
	}
	instants, tellsInstants := told("[retry-after, x-ratelimit]")
	lists, tellsLists := told("[retry-after, draft-11]")
	draft7, tells7 := told("draft-7")
	draft6, tells6 := told("draft-6")
	for name, c := range map[string]struct {
		server  habits
		changes []string
		check   string
		verdict Verdict // "": Holds
	}{
		"units come back while the next request is under way": {
			habits{limit: log, late: always(190 * time.Millisecond)}, nil, "head", Skips},
		"its clock is behind, and tells seconds": {habits{limit: window, ahead: -300 * time.Millisecond, stale: 1,
			tell: tellsInstants}, []string{instants}, "retry-after", ""},
		"its clock is far ahead": {habits{limit: window, ahead: 100 * time.Second, stale: 1, tell: tellsInstants},
			[]string{instants}, "reset", ""},
		"its clock is far behind": {habits{limit: window, ahead: -100 * time.Second, stale: 1, tell: tellsInstants},
			[]string{instants}, "reset", ""},
		"it is elsewhere, and tells instants": {habits{limit: window, ahead: -100 * time.Second, stale: 1,
			tell: tellsInstants}, []string{instants, "url: http://a.example:$PORT/"}, "retry-after", ""},
		"it is elsewhere, and tells nothing of its clock": {habits{limit: window, ahead: -100 * time.Second,
			tell: tellsInstants}, []string{instants, "url: http://a.example:$PORT/"}, "retry-after", Skips},
		"windows follow another clock": {habits{limit: window, ahead: 300 * time.Millisecond, stale: 1}, nil,
			"model", Skips},
		"several policies, draft 11": {habits{limit: window, tell: tellsLists}, []string{lists}, "quota", ""},
		"several policies, draft 7":  {habits{limit: window, tell: tells7}, []string{draft7}, "quota", ""},
		"several policies, draft 6":  {habits{limit: window, tell: tells6}, []string{draft6}, "quota", ""},
		"a period that is no whole number of seconds, rounded down": {
			habits{limit: limits.SlidingLog(limits.Per(10, 1500*time.Millisecond)),
				tell: func(h http.Header, _ limits.Limit, d limits.Decision) {
					h.Set("RateLimit", fmt.Sprintf(`"a";r=%d`, d.Remaining))
					h.Set("RateLimit-Policy", `"a";q=10;w=1`)
				}}, []string{"limit: 10 per 1500ms", "fields: draft-11"}, "quota", ""},
		"the page has no HEAD": {habits{limit: log, noHead: true, freeHead: true}, nil,
			"head", Skips},
		"units of 2 ms, and a clock of milliseconds": {
			habits{limit: limits.TokenBucket(limits.Per(1000, 2e9), 1000), coarse: time.Millisecond,
				late: func() time.Duration { return time.Duration(rand.IntN(100)) * time.Millisecond }},
			[]string{"limit: 1000 per 2s"}, "burst", ""},
		"a limit that nothing uses up": {habits{limit: limits.TokenBucket(limits.Per(1000, 2e9), 1000)},
			[]string{"limit: 1000 per 2s"}, "model", Skips},
		"a request takes as long as a period": {
			habits{limit: limits.FixedWindow(limits.Per(10, 100*time.Millisecond)),
				late: func() time.Duration { return time.Duration(300+rand.IntN(600)) * time.Millisecond }},
			[]string{"limit: 10 per 100ms", "store: redis"}, "store", Skips},
		"a window that ends forgets denied requests": {habits{limit: window}, []string{"counts-denied: true"},
			"denied", Bound},
		"denied requests do not count, against the profile": {habits{limit: log}, []string{"counts-denied: true"},
			"denied", Fails},
		"denied requests do not count, against the profile, as a slow server says": {
			habits{limit: log, late: func() time.Duration { return time.Duration(rand.IntN(800)) * time.Millisecond }},
			[]string{"counts-denied: true"}, "denied", Skips},
		"a server takes 200 ms for each answer": {
			habits{limit: limits.SlidingLog(limits.Per(3, 2e9)), late: always(200 * time.Millisecond)},
			[]string{"limit: 3 per 2s"}, "model", ""},
		"HEAD is free, and a slow bucket gets units back meanwhile": {
			habits{limit: limits.TokenBucket(limits.Per(10, 2e9), 10), late: always(50 * time.Millisecond), freeHead: true},
			nil, "head", Fails},
		"a slow bucket gets units back meanwhile": {
			habits{limit: limits.TokenBucket(limits.Per(10, 2e9), 10), late: always(50 * time.Millisecond)}, nil, "head", ""},
		"an instant at a second, give or take a millisecond": {habits{limit: window,
			tell: func(h http.Header, _ limits.Limit, d limits.Decision) {
				if at := time.UnixMicro(d.At).Add(d.RetryAfter); !d.Allowed {
					at = at.Add(time.Duration(rand.IntN(2)) * time.Millisecond)
					h.Set("Retry-After", at.Add(time.Second-1).Truncate(time.Second).UTC().Format(http.TimeFormat))
				}
			}}, []string{"fields: retry-after"}, "wobble", ""},
	} {
		t.Run(name, func(t *testing.T) {
			seeds := uint64(3)
			if c.check == "model" {
				seeds = 1 // it takes longest
			}
			for seed := range seeds {
				p := fakeProfile(t, c.changes...)
				p.Limit = c.server.limit
				server := &odd{habits: c.server}
				h := &fakeHost{open: server.open, random: rand.New(rand.NewPCG(seed, 2)), late: time.Millisecond}
				r := runHost(t, p, h, Options{Seed: seed + 1, Only: []string{c.check}}).Results[0]
				if r.Verdict != cmp.Or(c.verdict, Holds) {
					t.Errorf("%s: %s: %s\n%q", r.Check, r.Verdict, r.Found, r.Evidence)
				}
			}
		})
	}
}

// Windows of a server elsewhere turn at any time, once in a while within 64 requests at once.
func TestAWindowThatTurnsElsewhereIsNoMistake(t *testing.T) {
	limit := limits.FixedWindow(limits.Per(10, 2e9))
	for i := range 20 {
		// One in three bursts meets a turn.
		server := &odd{habits: habits{limit: limit, ahead: time.Duration(i) * 100 * time.Millisecond,
			late: func() time.Duration { return time.Duration(rand.IntN(80)) * time.Millisecond }}}
		p := fakeProfile(t, "url: http://limiter.example:$PORT/", "store: redis")
		p.Limit = limit
		h := &fakeHost{open: server.open, random: rand.New(rand.NewPCG(1, 2)), late: time.Millisecond}
		for _, r := range runHost(t, p, h, Options{Seed: uint64(i + 1), Only: []string{"burst", "head"}}).Results {
			if r.Verdict == Fails {
				t.Errorf("%v: %s: %s", server.ahead, r.Check, r.Found)
			}
		}
	}
}

// Some requests wait in a queue that is full, and have no answer.
func TestRequestsWithoutAnAnswerInTimeAreNoProof(t *testing.T) {
	p := fakeProfile(t)
	var requests atomic.Int64
	open := func(s *store, _ bool) http.Handler {
		server := &fake{profile: p, store: s}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1)%37 == 0 {
				<-r.Context().Done()
				return
			}
			server.ServeHTTP(w, r)
		})
	}
	for _, r := range runServer(t, p, none, open, "burst", "interval", "denied", "syntax", "head").Results {
		// One of 64 is among those. Others may be lucky.
		if r.Verdict == Fails || r.Check == "burst" && !strings.Contains(r.Found, "have no answer within 20s") {
			t.Errorf("%s: %s: %s", r.Check, r.Verdict, r.Found)
		}
	}
}

func TestAServerThatAnswersNoMoreIsAnError(t *testing.T) {
	p := fakeProfile(t)
	var requests atomic.Int64
	open := func(s *store, _ bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) > 20 {
				<-r.Context().Done()
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{open: open, random: rand.New(rand.NewPCG(1, 2)), late: time.Millisecond}
		_, err := run(t.Context(), p, h, Options{Only: []string{"burst", "head"}})
		if err == nil || !strings.HasPrefix(err.Error(), "the server does not answer any more") {
			t.Errorf("got %v", err)
		}
	})
}

// A server that runs already remembers what it was sent before.
func TestARunMayBeRepeatedAtOnce(t *testing.T) {
	for _, key := range []string{"key: header X-API-Key", "key: address", "key: address in X-Forwarded-For"} {
		p := fakeProfile(t, "start:", "url: http://127.0.0.1:1/", "limit: 10 per 10s", key)
		server := &fake{profile: p, store: newStore()}
		h := &fakeHost{open: func(*store, bool) http.Handler { return server }, late: time.Millisecond,
			random: rand.New(rand.NewPCG(1, 2))}
		synctest.Test(t, func(t *testing.T) {
			for range 3 {
				r, err := run(t.Context(), p, h, Options{Seed: 7, Only: []string{"burst"}})
				if err != nil || r.Results[0].Verdict != Holds {
					t.Errorf("%s: got %v, %+v", key, err, r)
				}
			}
		})
	}
}

// penal denies a key for a period after each request that it denies, and says so in each denial.
type penal struct {
	mu    sync.Mutex
	until map[string]time.Time
	used  map[string][]time.Time
}

func (s *penal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const period = 2 * time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := r.Header.Get("X-API-Key"), time.Now()
	used := s.used[key]
	for len(used) > 0 && now.Sub(used[0]) >= period {
		used = used[1:]
	}
	if len(used) >= 10 || now.Before(s.until[key]) {
		s.until[key] = now.Add(period)
		w.Header().Set("Retry-After", strconv.FormatInt(up(period), 10))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	s.used[key] = append(used, now)
}

func TestAPenaltyOfWhichTheProfileIsSilentDoesNotWobble(t *testing.T) {
	for counts, want := range map[string]Verdict{"counts-denied:": Skips, "counts-denied: false": Fails} {
		p := fakeProfile(t, "algorithm:", "fields: retry-after", counts)
		r := runServer(t, p, none, func(*store, bool) http.Handler {
			return &penal{until: make(map[string]time.Time), used: make(map[string][]time.Time)}
		}, "wobble").Results[0]
		if r.Verdict != want {
			t.Errorf("%s: %s: %s", counts, r.Verdict, r.Found)
		}
	}
}
