package agents_test

import (
	"errors"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

// Whatever a client sends that cannot sign, it has no agent, and a reason.
func FuzzVerify(f *testing.F) {
	s := newSite(f)
	forger := agentstest.New(s.bot.Directory)
	for _, g := range []signing{usual(), {agent: `"https://bot.example"`, components: `"@authority" "signature-agent"`,
		params: `;created=%d;expires=%d;keyid="%s";tag="web-bot-auth"`, expires: 1e9}} {
		r := g.sign(forger.Key)
		f.Add(r.Header.Get("Signature-Agent"), r.Header.Get("Signature-Input"), r.Header.Get("Signature"), "/items")
	}
	f.Fuzz(func(t *testing.T, agent, input, value, target string) {
		r := get()
		r.RequestURI = target
		r.Header["Signature-Agent"] = []string{agent}
		r.Header["Signature-Input"] = []string{input}
		r.Header["Signature"] = []string{value}
		who, err := s.Verify(r)
		if who != (agents.Agent{}) || err == nil {
			t.Errorf("accepted as %q", who.Name)
		}
		if !errors.Is(err, agents.ErrInvalid) && !errors.Is(err, agents.ErrUnverified) && err != core.ErrAbsent {
			t.Errorf("got %v", err)
		}
	})
}
