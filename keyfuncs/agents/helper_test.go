package agents_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

// site is a site that knows some agents.
type site struct {
	*agents.Verifier
	bot, other *agentstest.Signer
}

// newSite returns a site that knows two agents by their keys. configure may change its Config.
func newSite(t testing.TB, configure ...func(*agents.Config)) *site {
	t.Helper()
	s := &site{bot: agentstest.New("https://bot.example"), other: agentstest.New("https://other.example")}
	config := agents.Config{
		Authorities: []string{"shop.example"},
		Directories: []agents.Directory{
			{URL: s.bot.Directory, Keys: s.bot.KeySet()}, {URL: s.other.Directory, Keys: s.other.KeySet()},
		},
	}
	for _, f := range configure {
		f(&config)
	}
	v, err := agents.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s.Verifier = v
	return s
}

// get returns a request for the site.
func get() *http.Request { return httptest.NewRequest("GET", "https://shop.example/items?page=2", nil) }

// signed returns a request that s has signed.
func signed(s *agentstest.Signer) *http.Request {
	r := get()
	s.Sign(r)
	return r
}

// signing is a signature that a test writes by hand.
type signing struct {
	agent      string // the field Signature-Agent; "": none
	components string // the items of the list
	params     string // with %d for created and expires, and %s for keyid
	created    time.Duration
	expires    time.Duration
	base       string // all lines but the last, if they are not the usual ones
}

// usual is a signature as draft -01 has it.
func usual() signing {
	return signing{
		agent:      `sig1="https://bot.example"`,
		components: `"@authority" "signature-agent";key="sig1"`,
		params:     `;created=%d;expires=%d;keyid="%s";nonce="n1";tag="web-bot-auth"`,
		expires:    time.Minute,
		base:       "\"@authority\": shop.example\n\"signature-agent\";key=\"sig1\": \"https://bot.example\"\n",
	}
}

// sign returns a request with the signature, which is right for its base, under the label sig1.
func (s signing) sign(key ed25519.PrivateKey) *http.Request {
	now := time.Now()
	params := s.params
	if n := strings.Count(params, "%"); n == 3 {
		params = fmt.Sprintf(params, now.Add(s.created).Unix(), now.Add(s.expires).Unix(),
			agents.Thumbprint(key.Public().(ed25519.PublicKey)))
	}
	params = "(" + s.components + ")" + params
	r := get()
	if s.agent != "" {
		r.Header.Set("Signature-Agent", s.agent)
	}
	r.Header.Set("Signature-Input", "sig1="+params)
	value := ed25519.Sign(key, []byte(s.base+`"@signature-params": `+params))
	r.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(value)+":")
	return r
}

func wantAgent(t *testing.T, v *agents.Verifier, r *http.Request, want string) {
	t.Helper()
	agent, err := v.Verify(r)
	if err != nil || agent.Name != want {
		t.Errorf("got %q, %v; want %q", agent.Name, err, want)
	}
	if key, err := v.Key(r); err != nil || key != want {
		t.Errorf("got the key %q, %v; want %q", key, err, want)
	}
	if !v.Signed(r) || v.Invalid(r) {
		t.Error("the request is not signed, or its signature is not valid")
	}
}

// wantRefused fails unless r has no agent, for a reason of a kind whose text contains why.
func wantRefused(t *testing.T, v *agents.Verifier, r *http.Request, kind error, why string) {
	t.Helper()
	agent, err := v.Verify(r)
	if agent != (agents.Agent{}) || !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), why) {
		t.Errorf("got %v, %v; want %v: %s", agent, err, kind, why)
	}
	if key, err := v.Key(r); key != "" || !errors.Is(err, core.ErrAbsent) {
		t.Errorf("got the key %q, %v; want core.ErrAbsent", key, err)
	}
	if nonce, err := v.Nonce(r); nonce != "" || !errors.Is(err, core.ErrDoesNotApply) {
		t.Errorf("got the nonce %q, %v; want core.ErrDoesNotApply", nonce, err)
	}
	if v.Signed(r) || v.Invalid(r) != errors.Is(kind, agents.ErrInvalid) {
		t.Errorf("signed %v, invalid %v", v.Signed(r), v.Invalid(r))
	}
}

func publicOf(s *agentstest.Signer) ed25519.PublicKey { return s.Key.Public().(ed25519.PublicKey) }
