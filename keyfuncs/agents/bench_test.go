package agents_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/limits"
)

// BenchmarkVerify measures what a request costs, in ns and in decisions: how often a limiter with one
// rule by address decides in that time, in the same run.
//
//	go test -run - -bench Verify ./keyfuncs/agents
func BenchmarkVerify(b *testing.B) {
	s := newSite(b)
	unsigned, good := get(), signed(s.bot)
	good.RemoteAddr = unsigned.RemoteAddr
	stranger := usual()
	stranger.agent = `sig1="https://stranger.example"`
	forged := usual().sign(s.other.Key)
	replaceIn(forged, "Signature-Input", agents.Thumbprint(publicOf(s.other)), agents.Thumbprint(publicOf(s.bot)))
	elsewhere := signed(s.bot)
	elsewhere.Host = "evil.example"
	decision := costOfADecision(b)
	for _, c := range []struct {
		name string
		r    *http.Request
		new  bool // a signature that was not seen before, each time
		good bool
	}{
		{"unsigned", unsigned, false, false},
		{"signed, seen", good, false, true},
		{"signed, new", good, true, true},
		{"forged, seen", forged, false, false},
		{"forged, new", forged, true, false},
		{"another directory", stranger.sign(s.bot.Key), false, false},
		{"another site", elsewhere, false, false},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			if c.new && c.good { // signatures of all requests are made first
				requests := make([]*http.Request, 4096) // more than are remembered
				for i := range requests {
					requests[i] = signed(s.bot)
				}
				measure(b, decision, func(i int) { mustBe(b, s.Signed(requests[i%len(requests)]), true) })
				return
			}
			if c.new {
				input, r := c.r.Header.Get("Signature-Input"), c.r.Clone(b.Context())
				measure(b, decision, func(i int) {
					r.Header["Signature-Input"][0] = fmt.Sprint(input, ";x=", i)
					mustBe(b, s.Signed(r), false)
				})
				return
			}
			measure(b, decision, func(int) { mustBe(b, s.Signed(c.r), c.good) })
		})
	}
}

func mustBe(b *testing.B, got, want bool) {
	if got != want {
		b.Fatalf("signed is %v", got)
	}
}

// measure measures f, and reports how many decisions it costs: in the batch that took least, since
// other programs may run beside it.
func measure(b *testing.B, decision time.Duration, f func(i int)) {
	const batch = 32
	b.ReportAllocs()
	i, begun, least := 0, time.Now(), time.Duration(1<<62)
	for b.Loop() {
		f(i)
		if i++; i%batch == 0 {
			now := time.Now()
			least, begun = min(least, now.Sub(begun)), now
		}
	}
	b.ReportMetric(float64(least)/batch/float64(decision), "decisions/op")
}

// costOfADecision returns the time that a decision in memory takes: the least of some rounds.
func costOfADecision(b *testing.B) time.Duration {
	limiter := core.MustNew(core.Config[*http.Request]{Rules: []core.Rule[*http.Request]{{
		Name: "address", Limit: limits.SlidingWindow(limits.PerSecond(1e9)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	r := get()
	const rounds, decisions = 2000, 500 // short ones, of which some meet no other program
	least := time.Duration(1 << 62)
	for range rounds {
		begun := time.Now()
		for range decisions {
			limiter.Decide(b.Context(), r)
		}
		least = min(least, time.Since(begun)/decisions)
	}
	return least
}
