package main

import (
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// A request of the command line has no signature: people name the agent.
func TestPeopleNameTheAgentOfARequest(t *testing.T) {
	const text = `version: 1
client: {peer: true}
agents: {authorities: shop.example, directories: ["https://bot.example"]}
rules:
  - {name: agents, key: agent, absent: skip, limit: 60/minute}
  - {name: strangers, except: agent, key: address, limit: 20/minute}
`
	tried, err := newTrial("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := tried.checkValue("agent", "bot.example"); err != nil {
		t.Error(err)
	}
	m, err := parseRequest("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		given             map[string]string
		key, without, why string
	}{
		{map[string]string{"agent": "bot.example"}, "bot.example", "strangers", "is excepted by agent"},
		{nil, anyAddress, "agents", "has no agent"},
	} {
		answers, err := tried.ask(m, c.given)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			switch {
			case a.err != nil:
				t.Errorf("%v: rule %s: %v", c.given, a.rule.Name, a.err)
			case a.rule.Name == c.without && (a.RuleDecision != nil || a.why != c.why):
				t.Errorf("%v: rule %s: %+v, %q", c.given, a.rule.Name, a.RuleDecision, a.why)
			case a.rule.Name != c.without && (a.RuleDecision == nil || a.Key != c.key):
				t.Errorf("%v: rule %s: %+v, want the key %s", c.given, a.rule.Name, a.RuleDecision, c.key)
			}
		}
	}
	if _, err := simulate.OneLimit("60/minute", "agent", "", nil); err != nil {
		t.Error(err)
	}
	if _, err := simulate.ParsePolicy("weir.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
}
