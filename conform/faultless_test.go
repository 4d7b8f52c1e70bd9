package conform

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// stated are checks that state a bound if all is well.
var stated = []string{"interval", "retry-after", "reset", "options", "key-ipv6", "restart", "store", "memory"}

// allHold fails the test unless every check of a report holds or states a bound that it may state.
// applies is how many checks must apply.
func allHold(t *testing.T, r *Report, applies int) {
	t.Helper()
	for _, one := range r.Results {
		if one.Verdict == Fails || one.Verdict == Bound && !slices.Contains(stated, one.Check) {
			t.Errorf("%s: %s: %s\n%q", one.Check, one.Verdict, one.Found, one.Evidence)
		}
	}
	if n := len(r.Results) - r.Count(Skips); n < applies {
		for _, one := range r.Results {
			t.Logf("%s: %s: %s", one.Check, one.Verdict, one.Found)
		}
		t.Errorf("%d checks apply, want %d", n, applies)
	}
}

func TestAFaultlessFakeKeepsAll(t *testing.T) {
	allHold(t, runFake(t, fakeProfile(t, "store: redis"), none), 21)
	allHold(t, runFake(t, fakeProfile(t, "key: address"), none), 17)
	allHold(t, runFake(t, fakeProfile(t, "key: address in X-Forwarded-For"), none), 20)
	allHold(t, runFake(t, fakeProfile(t, "key: none"), none), 12)
}

// The server does not say by which algorithm it counts.
func TestAServerThatNamesNoAlgorithmKeepsAll(t *testing.T) {
	p := fakeProfile(t)
	p.Named = false
	named := fakeProfile(t)
	allHold(t, runServer(t, p, none, func(s *store, _ bool) http.Handler {
		return &fake{profile: named, store: s}
	}), 18)
}

// Nothing is denied, so nothing is known of denials.
func TestOfAServerWithoutALimitNothingIsSaidOfDenials(t *testing.T) {
	open := func(*store, bool) http.Handler { return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) }
	for i, one := range runServer(t, fakeProfile(t), none, open, "burst", "denied", "status").Results {
		if want := []Verdict{Fails, Skips, Fails}[i]; one.Verdict != want {
			t.Errorf("%s: %s: %s", one.Check, one.Verdict, one.Found)
		}
	}
}

// weirs are servers of weir by algorithm.
var weirs = []limits.Limit{
	limits.FixedWindow(limits.Per(10, 2e9)),
	limits.AnchoredWindow(limits.Per(10, 2e9)),
	limits.SlidingWindow(limits.Per(10, 2e9)),
	limits.SlidingLog(limits.Per(10, 2e9)),
	limits.TokenBucket(limits.Per(10, 2e9), 10),
	limits.TokenBucket(limits.Per(10, 2e9), 25),
	limits.LeakyBucket(limits.Per(10, 2e9), 5),
}

func TestWeirKeepsAll(t *testing.T) {
	formats := []headers.Format{headers.IETF, headers.Draft7, headers.Draft6, headers.DeltaSeconds}
	for i, limit := range weirs {
		some := formats
		if !testrun.Full() {
			some = formats[i%len(formats):][:1]
		}
		for _, format := range some {
			t.Run(limit.Algorithm().String()+" "+format.String(), func(t *testing.T) {
				field := map[headers.Format]string{headers.IETF: "draft-11", headers.Draft7: "draft-7",
					headers.Draft6: "draft-6", headers.DeltaSeconds: "x-ratelimit"}[format]
				p := fakeProfile(t, "fields: [retry-after, "+field+"]")
				p.Limit = limit
				limiter := func(*store, bool) http.Handler { return ofWeir(limit, format) }
				var only []string
				for _, c := range Checks() {
					if c.timing != last {
						only = append(only, c.Name)
					}
				}
				allHold(t, runServer(t, p, none, limiter, only...), 15)
			})
		}
	}
}

// Between sending, decision and answer passes up to half a second. A check may see nothing then, and says
// nothing wrong.
func TestASlowMachineMakesChecksBlindNotWrong(t *testing.T) {
	seed := testrun.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range testrun.Sized(12, 60) {
		limit := weirs[random.IntN(len(weirs))]
		late := time.Millisecond << random.IntN(10)
		p := fakeProfile(t)
		p.Limit = limit
		if p.Named = limit.Burst() != 10 || random.IntN(3) > 0; !p.Named {
			p.Limit = limits.SlidingWindow(limits.Per(10, 2*time.Second)) // as Parse has it
		}
		h := &fakeHost{
			late: late, random: random,
			open: func(*store, bool) http.Handler { return ofWeir(limit, headers.IETF) },
		}
		p.Fields = []string{"retry-after", "draft-11"}
		var only []string
		for _, c := range Checks() {
			if c.Name != "memory" && c.Name != "quota" {
				only = append(only, c.Name)
			}
		}
		for _, r := range runHost(t, p, h, Options{Seed: random.Uint64(), Only: only}).Results {
			if r.Verdict == Fails {
				t.Errorf("%v, named: %v, late: %v: %s: %s\n%q", limit, p.Named, late, r.Check, r.Found, r.Evidence)
			}
		}
	}
}

// ofWeir returns a handler with a limit of weir.
func ofWeir(limit limits.Limit, format headers.Format) http.Handler {
	return nethttp.MustNew(nethttp.Config{
		Headers: headers.Options{Formats: []headers.Format{format}},
		Rules:   []nethttp.Rule{{Name: "per-key", Limit: limit, Key: keyfuncs.Header("X-API-Key")}},
	}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}
