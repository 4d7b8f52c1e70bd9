package policy_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/policy"
)

const fileOfAgents = `version: 1
client: {peer: true}
agents:
  authorities: [wiki.example, "*.wiki.example"]
  directories:
    - https://crawler.example
    - https://bot.example:8443/keys.json
    - url: https://search.example
      name: search
      keys: 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo # of RFC 8037, appendix A.2
  max-lifetime: 1h
  unlisted: 10
rules:
  - name: agents
    key: agent
    absent: skip
    limit: 60/minute
    overrides:
      - {for: {agent: search}, limit: 600/minute}
      - {for: {agent: "unlisted:bad.example"}, limit: 1/day}
  - name: others
    key: {first: [agent, address]}
    limit: 10/minute
  - name: strangers
    except: [agent, GET /free]
    key: address
    limit: 5/minute
`

// signed supplies the key agent by a field, and keeps the section of the last file.
func signed(section *policy.Agents) policy.Names[request] {
	return policy.Names[request]{Agents: func(a policy.Agents) (func(request) (string, error), error) {
		*section = a
		return header("Agent"), nil
	}}
}

func TestAFileSaysWhoseSignaturesCount(t *testing.T) {
	var section policy.Agents
	p, err := policy.Parse("weir.yaml", []byte(fileOfAgents), signed(&section))
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, d := range section.Directories {
		urls = append(urls, fmt.Sprint(d.URL, " ", d.Name, " ", len(d.Keys)))
	}
	want := "[https://crawler.example  0 https://bot.example:8443/keys.json  0 https://search.example search 1]"
	if fmt.Sprint(urls) != want || fmt.Sprint(section.Authorities) != "[wiki.example *.wiki.example]" ||
		section.MaxLifetime != time.Hour || section.Unlisted != 10 ||
		len(section.Directories[2].Keys[0]) != ed25519.PublicKeySize {
		t.Errorf("the section is %+v", section)
	}
	if again, ok := p.Agents(); !ok || fmt.Sprint(again) != fmt.Sprint(section) {
		t.Errorf("the policy has %+v, %v", again, ok)
	}
	limiter := core.MustNew(core.Config[request]{Rules: p.Rules()})
	for agent, want := range map[string]string{
		"crawler.example":      `"agents" 60 crawler.example, "others" 10 agent:crawler.example`,
		"search":               `"agents" 600 search, "others" 10 agent:search`,
		"unlisted:bad.example": `"agents" 1 unlisted:bad.example, "others" 10 agent:unlisted:bad.example`,
		"":                     `"others" 10 address:192.0.2.1, "strangers" 5 192.0.2.1`,
	} {
		r := &http.Request{Method: "GET", URL: &url.URL{Path: "/"}, Header: http.Header{"Agent": {agent}},
			RemoteAddr: "192.0.2.1:4711"}
		if why := p.WhyNot("strangers", r); (why == "is excepted by agent") != (agent != "") {
			t.Errorf("%q: the rule strangers %s", agent, why)
		}
		o := limiter.Decide(t.Context(), r)
		var got []string
		for i := range o.Len() {
			d := o.At(i)
			got = append(got, fmt.Sprintf("%q %d %s", d.Rule(), d.Limit().Rate().Units, d.Key))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %s, want %s", agent, strings.Join(got, ", "), want)
		}
	}
}

func TestAProgramSaysWhyItRefusesAgents(t *testing.T) {
	refuse := policy.Names[request]{Agents: func(policy.Agents) (func(request) (string, error), error) {
		return nil, errors.New("a proxy is in the way\nand no time is left")
	}}
	for want, names := range map[string]policy.Names[request]{
		"weir.yaml:4:3: agents: a proxy is in the way; and no time is left":                           refuse,
		"weir.yaml:4:3: agents: the program verifies no signatures: it has no Agents in policy.Names": {},
	} {
		_, err := policy.Parse("weir.yaml", []byte(fileOfAgents), names)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAChangeOfAgentsNamesNoAgent(t *testing.T) {
	var section policy.Agents
	parse := func(from, to string) *policy.Policy[request] {
		p, err := policy.Parse("weir.yaml", []byte(strings.ReplaceAll(fileOfAgents, from, to)), signed(&section))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const as = "3 directories, 1 keys, authorities wiki.example *.wiki.example, max-lifetime 1h0m0s, unlisted 10"
	before := parse("", "")
	for want, now := range map[string]*policy.Policy[request]{
		"[]": parse("", ""),
		"[agents: " + as + " of before → " + as + "]": parse("crawler.example", "robot.example"),
		"[agents: " + as + " → " + strings.TrimSuffix(as, ", unlisted 10") + ", unlisted 20]": parse("unlisted: 10",
			"unlisted: 20"),
	} {
		if got := fmt.Sprint(now.Changes(before)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A program verifies signatures by package keyfuncs/agents. A field stands for that here.
func ExampleAgents() {
	file := `
version: 1
agents:
  authorities: shop.example
  directories:
    - https://bot.example
    - {url: https://search.example, name: search, keys: 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo}
rules:
  - {name: agents, key: agent, absent: skip, limit: 60/minute}
`
	verify := func(a policy.Agents) (func(*http.Request) (string, error), error) {
		for _, d := range a.Directories {
			fmt.Println(d.URL, d.Name, len(d.Keys))
		}
		return header("Agent"), nil
	}
	p, err := policy.Parse("weir.yaml", []byte(file), policy.Names[*http.Request]{Agents: verify})
	fmt.Println(err)
	section, ok := p.Agents()
	fmt.Println(section.Authorities, ok)
	// Output:
	// https://bot.example  0
	// https://search.example search 1
	// <nil>
	// [shop.example] true
}
