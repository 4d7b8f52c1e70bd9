package agents_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// BenchmarkNonceInRedis measures what a nonce costs in Redis: a decision by the plan of an agent and its
// nonce, in decisions by the plan alone, of the caller and of the server by its own count, and the
// memory of a nonce. Beside Once it has a sliding log of one, which would count the same.
//
//	go test -run - -bench NonceInRedis ./keyfuncs/agents
func BenchmarkNonceInRedis(b *testing.B) {
	s := newSite(b)
	client := startServer(b)
	backend := redisbackend.MustNew(client, redisbackend.Options{Budget: time.Second})
	b.Cleanup(func() { backend.Close() })
	for _, c := range []struct {
		name  string
		limit limits.Limit
	}{
		{"once", s.Once()},
		{"log", limits.SlidingLog(s.Once().Rate())},
	} {
		d := newDecider(b, s, c.limit, backend)
		b.Run(c.name+"/time", func(b *testing.B) { d.measureTime(b, client) })
		b.Run(c.name+"/memory", func(b *testing.B) { d.measureMemory(b, client) })
	}
}

// decider decides requests by the plan of an agent, and by that and a nonce.
type decider struct {
	alone, both *core.Limiter[int]
	decided     int // how many nonces were used
}

// newDecider returns a decider whose nonces are under a limit. Their keys are as long as those of s, but
// come from no signature, since one takes as long as a decision.
func newDecider(b *testing.B, s *site, limit limits.Limit, backend backends.Backend) *decider {
	b.Helper()
	key, err := s.Nonce(signed(s.bot))
	if err != nil {
		b.Fatal(err)
	}
	nonce := func(i int) (string, error) {
		digest := sha256.Sum256([]byte(strconv.Itoa(i)))
		return base64.RawURLEncoding.EncodeToString(digest[:])[:len(key)], nil
	}
	plan := core.Rule[int]{
		Name: "agents", Limit: limits.TokenBucket(limits.PerSecond(1e6), 1e6), Key: keyfuncs.Constant[int]("bot.example"),
	}
	replay := core.Rule[int]{Name: "replay", Limit: limit, Key: nonce, OnFailure: core.FailClosed}
	return &decider{
		alone: core.MustNew(core.Config[int]{Rules: []core.Rule[int]{plan}, Backend: backend}),
		both:  core.MustNew(core.Config[int]{Rules: []core.Rule[int]{plan, replay}, Backend: backend}),
	}
}

// decide decides n requests with a new nonce each, which must be allowed by the server.
func (d *decider) decide(b *testing.B, l *core.Limiter[int], n int) {
	for range n {
		d.decided++
		if o := l.Decide(b.Context(), d.decided); !o.Allowed() || o.At(0).Source != limits.SourcePrimary {
			b.Fatalf("%v by %v, %v", o.Verdict(), o.At(0).Source, o.Err())
		}
	}
}

func (d *decider) measureTime(b *testing.B, client *redis.Client) {
	const batch = 50
	var ofCaller, ofServer []float64
	took := func(l *core.Limiter[int]) (caller, server float64) {
		before, begun := info(b, client, "commandstats", "cmdstat_evalsha:", "usec="), time.Now()
		d.decide(b, l, batch)
		caller = float64(time.Since(begun))
		return caller, info(b, client, "commandstats", "cmdstat_evalsha:", "usec=") - before
	}
	client.FlushAll(b.Context())
	d.decide(b, d.both, 1) // which loads the script
	for b.Loop() {         // by turns, since other programs may run beside it
		caller, server := took(d.both)
		callerAlone, serverAlone := took(d.alone)
		ofCaller = append(ofCaller, caller/callerAlone)
		ofServer = append(ofServer, server/serverAlone)
	}
	slices.Sort(ofCaller)
	slices.Sort(ofServer)
	b.ReportMetric(ofCaller[len(ofCaller)/2], "decisions/op")
	b.ReportMetric(ofServer[len(ofServer)/2], "of-server/op")
	b.ReportMetric(0, "ns/op") // which is that of two batches
}

func (d *decider) measureMemory(b *testing.B, client *redis.Client) {
	const nonces = 10_000
	for b.Loop() {
		client.FlushAll(b.Context())
		d.decide(b, d.both, 1)
		before := info(b, client, "memory", "used_memory:")
		d.decide(b, d.both, nonces)
		b.ReportMetric((info(b, client, "memory", "used_memory:")-before)/nonces, "B/nonce")
	}
	b.ReportMetric(0, "ns/op")
}

// startServer starts a redis-server, which ends with the benchmark.
func startServer(b *testing.B) *redis.Client {
	b.Helper()
	address, err := freeport.Address()
	if err != nil {
		b.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	server := testrun.Command(b, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", b.TempDir())
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Process.Kill(); server.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
	client := redis.NewClient(&redis.Options{
		Addr: address, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	b.Cleanup(func() { client.Close() })
	return client
}

// info returns the number that follows words, in this order, in a section of what a server says of itself.
func info(b *testing.B, client *redis.Client, section string, words ...string) (number float64) {
	b.Helper()
	text, err := client.Info(b.Context(), section).Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, word := range words {
		_, text, _ = strings.Cut(text, word)
	}
	if _, err := fmt.Sscan(text, &number); err != nil {
		b.Fatalf("%s of the server: %v", section, err)
	}
	return number
}
