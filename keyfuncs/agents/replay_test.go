package agents_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/redisbackend"
)

// limited returns a handler of a site behind a limiter: 200 requests a minute for each agent, two for
// a stranger.
func limited(t testing.TB, v *agents.Verifier, backend backends.Backend) http.Handler {
	t.Helper()
	limiter, err := nethttp.New(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "agents", Limit: limits.FixedWindow(limits.PerMinute(200)), Key: core.When(v.Signed, v.Key)},
			{Name: "replay", Limit: v.Once(), Key: v.Nonce, OnFailure: core.FailClosed, Hidden: true},
			{Name: "strangers", Limit: limits.FixedWindow(limits.PerMinute(2)),
				Key: core.Unless(v.Signed, keyfuncs.Address(keyfuncs.Peer))},
		},
		Backend: backend,
		Denied:  v.Challenge(nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	return limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// onEachBackend runs a test in memory and on Redis, in virtual time.
func onEachBackend(t *testing.T, test func(*testing.T, backends.Backend)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, memory.MustNew(memory.Options{})) })
	})
	t.Run("Redis", func(t *testing.T) {
		testrun.NeedsMiniredis(t)
		synctest.Test(t, func(t *testing.T) {
			backend, _ := startRedis(t)
			test(t, backend)
		})
	})
}

// startRedis starts a Redis in the bubble.
func startRedis(t *testing.T) (backends.Backend, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.NewMiniRedis()
	client := redis.NewClient(&redis.Options{
		Addr: "198.51.100.1:6379", MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			client, served := net.Pipe()
			server.Server().ServeConn(served)
			return client, nil
		},
	})
	first, err := server.Dial() // after which it serves others
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	backend := redisbackend.MustNew(client, redisbackend.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		backend.Close()
		client.Close()
		server.Close()
	})
	return backend, server
}

func TestANonceCountsOnceAsLongAsItsSignatureIsGood(t *testing.T) {
	onEachBackend(t, func(t *testing.T, backend backends.Backend) {
		s := newSite(t, func(c *agents.Config) { c.MaxLifetime, c.MaxSkew = 10*time.Minute, time.Minute })
		h := limited(t, s.Verifier, backend)
		g := usual() // by a clock that is as far ahead, and for as long, as may be
		g.created, g.expires = time.Minute, 11*time.Minute
		r := g.sign(s.bot.Key)
		if w := serve(h, r); w.Code != 200 {
			t.Fatalf("the first request got %d", w.Code)
		}
		start := time.Now()
		for _, after := range []time.Duration{0, time.Second, time.Minute, 5 * time.Minute, 11*time.Minute - 1} {
			time.Sleep(after - time.Since(start))
			w := serve(h, r)
			if w.Code == 200 {
				t.Fatalf("allowed once more after %v", time.Since(start))
			}
			if w.Code != 429 || w.Header().Get("Retry-After") != "" || w.Header().Get("Accept-Signature") == "" ||
				!strings.Contains(w.Body.String(), "used before") {
				t.Fatalf("got %d, %v, %s", w.Code, w.Header(), w.Body)
			}
		}
		if time.Sleep(time.Nanosecond); s.Signed(r) {
			t.Error("the signature is still good")
		}
		for range 100 { // the next request needs another nonce, and no wait
			if w := serve(h, signed(s.bot)); w.Code != 200 {
				t.Fatalf("got %d", w.Code)
			}
		}
	})
}

func TestTheNonceOfAnotherKeyIsAnotherNonce(t *testing.T) {
	s := newSite(t)
	h := limited(t, s.Verifier, memory.MustNew(memory.Options{}))
	g := usual()
	if w := serve(h, g.sign(s.bot.Key)); w.Code != 200 {
		t.Errorf("got %d", w.Code)
	}
	g.agent, g.base = `sig1="https://other.example"`, strings.Replace(g.base, "bot", "other", 1)
	if w := serve(h, g.sign(s.other.Key)); w.Code != 200 {
		t.Errorf("the same nonce by another agent got %d", w.Code)
	}
}

// A denied request has not used its nonce.
func TestARequestThatIsDeniedKeepsItsNonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		h := limited(t, s.Verifier, memory.MustNew(memory.Options{}))
		for range 200 {
			serve(h, signed(s.bot))
		}
		s.bot.Lifetime = time.Hour
		r := signed(s.bot)
		w := serve(h, r)
		if w.Code != 429 || w.Header().Get("Accept-Signature") != "" || w.Header().Get("Retry-After") == "" {
			t.Errorf("got %d, %v", w.Code, w.Header())
		}
		time.Sleep(time.Minute)
		if w := serve(h, r); w.Code != 200 {
			t.Errorf("got %d", w.Code)
		}
		if w := serve(h, r); w.Code != 429 {
			t.Errorf("a copy got %d", w.Code)
		}
	})
}

// A store that is full denies nonces that it does not know, and lets none pass twice.
func TestAFullStoreForgetsNoNonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := testrun.Random(t)
		s := newSite(t, func(c *agents.Config) { c.MaxLifetime = 10 * time.Minute })
		limiter := core.MustNew(core.Config[*http.Request]{
			Rules:   []core.Rule[*http.Request]{{Name: "replay", Limit: s.Once(), Key: s.Nonce}},
			Backend: memory.MustNew(memory.Options{MaxKeys: 100, MaxLogEntries: 100}),
		})
		s.bot.Lifetime = 10 * time.Minute
		var used []*http.Request
		allowed, denied := 0, 0
		for range 1000 {
			if r := signed(s.bot); limiter.Decide(t.Context(), r).Allowed() {
				used = append(used, r)
				allowed++
			} else {
				denied++
			}
			if len(used) > 0 {
				copied := used[rng.IntN(len(used))]
				if s.Signed(copied) && limiter.Decide(t.Context(), copied).Allowed() {
					t.Fatal("a nonce counts twice")
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if allowed < 100 || denied == 0 {
			t.Errorf("%d allowed, %d denied: the store was not full, or holds little", allowed, denied)
		}
		time.Sleep(11 * time.Minute)
		if !limiter.Decide(t.Context(), signed(s.bot)).Allowed() {
			t.Error("a new nonce is denied after all others have ended")
		}
	})
}

// Strangers cannot fill the store of nonces, and a full one is no matter of theirs.
func TestAFullStoreOfNoncesDeniesNoStranger(t *testing.T) {
	s := newSite(t)
	h := limited(t, s.Verifier, memory.MustNew(memory.Options{MaxKeys: 50, MaxLogEntries: 50}))
	for range 150 {
		serve(h, signed(s.bot))
	}
	if w := serve(h, get()); w.Code != 200 {
		t.Errorf("a stranger got %d", w.Code)
	}
	forger := agentstest.New(s.bot.Directory)
	if _, err := s.Nonce(signed(forger)); err == nil {
		t.Error("a forged signature has a nonce")
	}
}

// A Redis that is full refuses what a script writes. By a fallback that does not know them, nonces
// would count once more.
func TestARedisThatIsFullDeniesAgentsAndNoStranger(t *testing.T) {
	testrun.NeedsMiniredis(t)
	synctest.Test(t, func(t *testing.T) {
		backend, server := startRedis(t)
		s := newSite(t)
		h := limited(t, s.Verifier, backend)
		r := signed(s.bot)
		if w := serve(h, r); w.Code != 200 {
			t.Fatalf("got %d", w.Code)
		}
		server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
		for _, r := range []*http.Request{r, signed(s.bot)} {
			if w := serve(h, r); w.Code != 503 || w.Header().Get("Accept-Signature") != "" {
				t.Errorf("an agent got %d, %v", w.Code, w.Header())
			}
		}
		for i, want := range []int{200, 200, 429} {
			if w := serve(h, get()); w.Code != want {
				t.Errorf("request %d of a stranger got %d, want %d", i, w.Code, want)
			}
		}
		server.SetError("")
		time.Sleep(5 * time.Second)
		if w := serve(h, r); w.Code != 429 {
			t.Errorf("a copy got %d", w.Code)
		}
		if w := serve(h, signed(s.bot)); w.Code != 200 {
			t.Errorf("a new signature got %d", w.Code)
		}
	})
}

func TestOnceLastsAsLongAsASignature(t *testing.T) {
	s := newSite(t)
	if got, want := s.Once(), limits.TokenBucket(limits.Per(1, 24*time.Hour+31*time.Second), 1); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
