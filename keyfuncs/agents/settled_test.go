package agents_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
	"github.com/weir-go/weir/limits"
)

// late is a transport that answers after a time.
type late struct {
	http.RoundTripper
	after time.Duration
}

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(l.after)
	return l.RoundTripper.RoundTrip(r)
}

// A directory may answer, and an instant come, while the rules of a request are asked one after the
// other. The request would meet neither the rule of agents nor that of strangers, and have no limit.
func TestARequestIsOneOrTheOtherForAllRules(t *testing.T) {
	for name, c := range map[string]struct {
		answers, created time.Duration
	}{
		"a directory that answers late": {answers: 505 * time.Millisecond},
		"a clock that is ahead":         {created: 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bot := agentstest.New("https://bot.example")
				s := newSite(t, func(c1 *agents.Config) {
					c1.Transport = late{agentstest.Transport(bot), c.answers}
					c1.Directories = []agents.Directory{{URL: bot.Directory}}
				})
				s.Signed(usual().sign(bot.Key))
				if c.answers == 0 {
					time.Sleep(time.Second - time.Millisecond)
				}
				slow := func(*http.Request) (string, error) { // as one that asks a database
					time.Sleep(10 * time.Millisecond)
					return "", core.ErrDoesNotApply
				}
				known := []core.Rule[*http.Request]{
					{Name: "agents", Limit: limits.FixedWindow(limits.PerMinute(1)), Key: core.When(s.Signed, s.Key)},
					{Name: "people", Limit: limits.FixedWindow(limits.PerMinute(1)), Key: slow},
				}
				limiter := core.MustNew(core.Config[*http.Request]{Rules: append(known, core.Rule[*http.Request]{
					Name: "strangers", Limit: limits.FixedWindow(limits.PerMinute(1)),
					Key: core.Unless(s.Signed, keyfuncs.Constant[*http.Request]("all")),
				})})
				g := usual()
				g.created, g.expires = c.created, c.created+time.Minute
				out := limiter.Decide(t.Context(), g.sign(bot.Key))
				if out.Len() != 1 {
					t.Errorf("%d rules have counted the request, want 1", out.Len())
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// What is remembered of requests is bounded, and of another signature in the same request nothing.
func TestARefusalIsRememberedOfOneRequestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := agentstest.New("https://bot.example")
		s := newSite(t, func(c *agents.Config) {
			c.Transport = late{agentstest.Transport(bot), 505 * time.Millisecond}
			c.Directories = []agents.Directory{{URL: bot.Directory}}
		})
		r := signed(bot)
		wantRefused(t, s.Verifier, r, agents.ErrUnverified, "could not be fetched")
		time.Sleep(10 * time.Millisecond)
		wantAgent(t, s.Verifier, signed(bot), "bot.example")
		wantRefused(t, s.Verifier, r, agents.ErrUnverified, "could not be fetched")
		for range 2 * 4096 {
			unknown := get()
			unknown.Header = r.Header.Clone()
			replaceIn(unknown, "Signature-Input", `keyid="`, `keyid="x`)
			if s.Signed(unknown) {
				t.Fatal("accepted")
			}
		}
		wantAgent(t, s.Verifier, r, "bot.example")
		unknown := signed(agentstest.New(bot.Directory))
		wantRefused(t, s.Verifier, unknown, agents.ErrUnverified, "does not have this key")
		bot.Sign(unknown)
		wantAgent(t, s.Verifier, unknown, "bot.example")
		time.Sleep(time.Second)
	})
}

func TestARefusalIsRememberedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		g := usual()
		g.created, g.expires = 31*time.Second, time.Minute
		r := g.sign(s.bot.Key)
		wantRefused(t, s.Verifier, r, agents.ErrInvalid, "future")
		time.Sleep(5*time.Second - 1)
		wantRefused(t, s.Verifier, r, agents.ErrInvalid, "future")
		time.Sleep(time.Nanosecond)
		wantAgent(t, s.Verifier, r, "bot.example")
	})
}
