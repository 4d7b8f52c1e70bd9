package serve

import (
	"crypto/ed25519"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authorization "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

// policyFor returns a policy for an agent, which has three requests, and strangers, who have one.
func policyFor(bot *agentstest.Signer) string {
	return `version: 1
client: {peer: true}
agents:
  authorities: [shop.example]
  directories:
    - {url: "` + bot.Directory + `", keys: ` + publicKeyOf(bot) + `}
rules:
  - {name: agents, key: agent, absent: skip, limit: 3/day}
  - {name: strangers, except: agent, key: address, limit: 1/day}
`
}

func publicKeyOf(s *agentstest.Signer) string {
	return base64.RawURLEncoding.EncodeToString(s.Key.Public().(ed25519.PublicKey))
}

// newBot returns an agent that signs all of a request that a proxy could change.
func newBot() *agentstest.Signer {
	bot := agentstest.New("https://bot.example")
	bot.Components = []string{"@method", "@path", "@query"}
	return bot
}

// signedBy returns the header of a request to a host, signed by s; unsigned if s is nil.
func signedBy(t *testing.T, s *agentstest.Signer, host, target string) http.Header {
	t.Helper()
	r, err := http.NewRequest("GET", "https://"+host+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		s.Sign(r)
	}
	return r.Header
}

// The signature is for the original request. What the check looks like is the proxy's affair.
func TestAnAgentIsKnownByItsSignatureOfTheOriginalRequest(t *testing.T) {
	const target = "/items?page=2"
	bot := newBot()
	for name, way := range map[string]func(t *testing.T, r *running, h http.Header) (status int, answer http.Header){
		"a check over HTTP": func(t *testing.T, r *running, h http.Header) (int, http.Header) {
			return ask(t, http.DefaultClient, "http://"+r.check+"/check", func(check http.Header) {
				check.Set("X-Forwarded-Uri", target)
				for name, lines := range h {
					check[name] = lines
				}
			})
		},
		"ext_authz": func(t *testing.T, r *running, h http.Header) (int, http.Header) {
			fields := make(map[string]string)
			for name, lines := range h {
				fields[strings.ToLower(name)] = strings.Join(lines, ",")
			}
			address := &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: "203.0.113.7"}}
			of := &authorization.AttributeContext{
				Source: &authorization.AttributeContext_Peer{Address: &core.Address{Address: address}},
				Request: &authorization.AttributeContext_Request{Http: &authorization.AttributeContext_HttpRequest{
					Method: "GET", Path: target, Host: "shop.example", Scheme: "https", Protocol: "HTTP/1.1", Headers: fields,
				}},
			}
			a, err := authorization.NewAuthorizationClient(dialTo(t, r.grpc)).Check(t.Context(),
				&authorization.CheckRequest{Attributes: of})
			if err != nil {
				t.Fatal(err)
			}
			status, options := http.StatusNoContent, a.GetOkResponse().GetResponseHeadersToAdd()
			if a.GetStatus().GetCode() != 0 {
				status, options = int(a.GetDeniedResponse().GetStatus().GetCode()), a.GetDeniedResponse().GetHeaders()
			}
			answer := make(http.Header)
			for _, o := range options {
				answer.Add(o.GetHeader().GetKey(), o.GetHeader().GetValue())
			}
			return status, answer
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", policyFor(bot))}})
			want := func(what string, h http.Header, status int, asked bool) {
				t.Helper()
				got, answer := way(t, r, h)
				if got != status || (answer.Get("Accept-Signature") != "") != asked {
					t.Errorf("%s: %d, want %d; Accept-Signature is %q", what, got, status, answer.Get("Accept-Signature"))
				}
				if strings.Contains(answer.Get("RateLimit")+answer.Get("RateLimit-Policy"), replays) {
					t.Errorf("%s: clients see the rule by which a signature counts once: %v", what, answer)
				}
			}
			sign := func(s *agentstest.Signer) http.Header { return signedBy(t, s, "shop.example", target) }
			want("a stranger", sign(nil), 204, false)
			want("the same stranger", sign(nil), 429, true)
			want("a signature for another site", signedBy(t, bot, "evil.example", target), 429, true)
			want("one for the address of the check", signedBy(t, bot, r.check, target), 429, true)
			want("one for another path", signedBy(t, bot, "shop.example", "/other?page=2"), 429, true)
			want("one by another key", sign(agentstest.New("https://bot.example")), 429, true)
			want("one by another domain", sign(agentstest.New("https://evil.example")), 429, true)
			first := sign(bot)
			want("an agent", first, 204, false)
			want("a copy", first, 429, true)
			want("an agent", sign(bot), 204, false)
			want("an agent", sign(bot), 204, false)
			want("an agent whose plan is used up", sign(bot), 429, false)
		})
	}
}

// addAccepting adds the lines of the guide by which two proxies send Accept-Signature on.
func addAccepting(t *testing.T, files map[string]string) {
	t.Helper()
	guide, err := os.ReadFile("../../../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, after, line string }{
		{"nginx.conf", "auth_request_set $weir_retry $upstream_http_retry_after;",
			"auth_request_set $weir_accept $upstream_http_accept_signature;"},
		{"nginx.conf", "add_header Retry-After $weir_retry always;",
			"add_header Accept-Signature $weir_accept always;"},
		{"haproxy.cfg", "default_backend app", "http-after-response set-header Accept-Signature " +
			"%[var(txn.weir_accept_signature)] if { var(txn.weir_accept_signature) -m found }"},
	} {
		text := strings.Replace(files[c.file], c.after, c.after+"\n  "+c.line, 1)
		if text == files[c.file] || !strings.Contains(string(guide), "\n"+c.line) {
			t.Errorf("%s has no %s, or the guide no %s", c.file, c.after, c.line)
		}
		files[c.file] = text
	}
	const before = `local fields = { "ratelimit", "ratelimit-policy", "retry-after" }`
	after := strings.TrimSuffix(before, " }") + `, "accept-signature" }`
	text := strings.Replace(files["weir.lua"], before, after, 1)
	if text == files["weir.lua"] || !strings.Contains(string(guide), "\n"+after) {
		t.Errorf("weir.lua has no %s, or the guide no %s", before, after)
	}
	files["weir.lua"] = text
}

// A real proxy passes the fields of the signature on, and says what the original request was.
func TestASignatureIsVerifiedThroughEachProxy(t *testing.T) {
	for _, proxy := range proxies {
		t.Run(proxy.program, func(t *testing.T) {
			path := testrun.Program(t, proxy.program)
			bot, files := newBot(), blocks(t)
			files["weir.yaml"] = policyFor(bot)
			addAccepting(t, files)
			s := setUpBy(t, files, proxy.denied, "weir.yaml")
			proxy.run(s, path)
			s.until(http.StatusTooManyRequests) // strangers have one request
			ask := func(signer *agentstest.Signer, target string) (status int, asked bool) {
				t.Helper()
				r, err := http.NewRequest("GET", s.url+target, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = "shop.example"
				if signer != nil {
					signer.Sign(r)
				}
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				return response.StatusCode, response.Header.Get("Accept-Signature") != ""
			}
			for i, want := range []int{200, 200, 200, 429} {
				if got, asked := ask(bot, "/items?page=2&q=a%20b"); got != want || asked {
					t.Errorf("signed request %d: %d, want %d; it is asked to sign: %v", i+1, got, want, asked)
				}
			}
			if got, asked := ask(nil, "/items"); got != 429 || !asked {
				t.Errorf("an unsigned request: %d, and it is asked to sign: %v", got, asked)
			}
		})
	}
}

func TestAgentsStayAgentsWhenAFileIsReadAgain(t *testing.T) {
	bot, other := newBot(), agentstest.New("https://other.example")
	path := fileOf(t, "weir.yaml", policyFor(bot))
	r := start(t, Config{Paths: []string{path}})
	check := func(s *agentstest.Signer) int {
		t.Helper()
		status, _ := ask(t, http.DefaultClient, "http://"+r.check+"/check", func(h http.Header) {
			for name, lines := range signedBy(t, s, "shop.example", "/") {
				h[name] = lines
			}
		})
		return status
	}
	reload := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 { // the second is handed on once the first is done, and the third received after that
			r.reload <- struct{}{}
		}
	}
	if got := check(bot); got != 204 {
		t.Errorf("an agent: %d", got)
	}
	check(nil)
	if got := check(other); got != 429 {
		t.Errorf("an agent that the file does not know: %d", got)
	}
	reload(strings.Replace(policyFor(bot), "  directories:\n",
		"  directories:\n    - {url: https://other.example, keys: "+publicKeyOf(other)+"}\n", 1))
	if got := check(other); got != 204 {
		t.Errorf("an agent that the file knows by now: %d", got)
	}
	reload(rules)
	if got := check(bot); got != 204 {
		t.Errorf("an agent, after a file without agents: %d", got)
	}
	if err := r.end(); err != nil || !strings.Contains(r.log.String(), "start weir serve again") {
		t.Errorf("%v\n%s", err, r.log)
	}
}

// A copy stays one when a file is read again, also one that lets signatures last longer or shorter.
func TestASignatureCountsOnceAcrossAReload(t *testing.T) {
	bot := newBot()
	path := fileOf(t, "weir.yaml", policyFor(bot))
	r := start(t, Config{Paths: []string{path}})
	copied := signedBy(t, bot, "shop.example", "/")
	check := func() int {
		t.Helper()
		status, _ := ask(t, http.DefaultClient, "http://"+r.check+"/check", func(h http.Header) {
			for name, lines := range copied {
				h[name] = lines
			}
		})
		return status
	}
	if got := check(); got != 204 {
		t.Fatalf("the first request: %d", got)
	}
	for _, lasts := range []string{"1h", "2m", "20h"} {
		text := strings.Replace(policyFor(bot), "  directories:\n", "  max-lifetime: "+lasts+"\n  directories:\n", 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 { // the second is handed on once the first is done, and the third received after that
			r.reload <- struct{}{}
		}
		if got := check(); got != 429 {
			t.Errorf("a copy, after max-lifetime has become %s: %d", lasts, got)
		}
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}
