package agents_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

// peerProgram signs by the package web-bot-auth, and verifies what this package has signed. It
// writes what it has signed, with its key, to standard output.
const peerProgram = `
import { generateNonce, recommendedComponents, signatureHeaders, verify } from 'web-bot-auth';
import { Ed25519Signer, verifierFromJWK } from 'web-bot-auth/crypto';
import { readFileSync } from 'node:fs';

const ours = JSON.parse(readFileSync(0, 'utf8')); // a key and requests that it has signed
const verifier = await verifierFromJWK(ours.key);
const verified = [];
for (const { url, method, headers } of ours.requests) {
  try {
    await verify(new Request(url, { method, headers }), verifier);
    verified.push('');
  } catch (error) {
    verified.push(String(error));
  }
}

const pair = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify']);
const jwk = await crypto.subtle.exportKey('jwk', pair.privateKey);
const { kty, crv, x } = jwk;
const signer = await Ed25519Signer.fromJWK(jwk);
const created = new Date(), expires = new Date(created.getTime() + 300_000);
const url = 'https://shop.example/items?page=2';
const signed = [];
for (const [agent, components] of [
  ['"https://bot.example"', undefined],
  ['sig1="https://bot.example"', undefined],
  ['sig1="https://bot.example"', recommendedComponents('sig1')],
  ['agent="https://bot.example"', [...recommendedComponents('agent'), '@method', '@path', '@query', '@target-uri']],
]) {
  const request = new Request(url, { headers: { 'Signature-Agent': agent } });
  const fields = await signatureHeaders(request, signer, { created, expires, components, nonce: generateNonce() });
  signed.push({ 'Signature-Agent': agent, 'Signature': fields.Signature, 'Signature-Input': fields['Signature-Input'] });
}
console.log(JSON.stringify({ verified, keys: { keys: [{ kty, crv, x }] }, signed }));
`

// The package web-bot-auth of npm is Cloudflare's.
func TestAnIndependentSignerAgrees(t *testing.T) {
	testrun.FullOnly(t, "web-bot-auth, which npm installs")
	testrun.Program(t, "node")
	dir := t.TempDir()
	install := testrun.Command(t, "npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", dir,
		"web-bot-auth@0.1.3")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "peer.mjs"), []byte(peerProgram), 0o600); err != nil {
		t.Fatal(err)
	}

	ours := agentstest.New("https://bot.example")
	type request struct {
		URL     string            `json:"url"`
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
	}
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(ours.KeySet(), &set); err != nil {
		t.Fatal(err)
	}
	said := struct {
		Key      json.RawMessage `json:"key"`
		Requests []request       `json:"requests"`
	}{Key: set.Keys[0]}
	for _, components := range [][]string{nil, {"@method", "@path"}, {"@target-uri"}} {
		ours.Components = components
		r := signed(ours)
		headers := make(map[string]string)
		for name := range r.Header {
			headers[name] = r.Header.Get(name)
		}
		said.Requests = append(said.Requests, request{"https://shop.example/items?page=2", r.Method, headers})
	}
	altered := said.Requests[0]
	altered.URL = "https://evil.example/"
	said.Requests = append(said.Requests, altered)
	input, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}

	var answer struct {
		Verified []string
		Keys     json.RawMessage
		Signed   []map[string]string
	}
	node := testrun.Command(t, "node", filepath.Join(dir, "peer.mjs"))
	node.Stdin = bytes.NewReader(input)
	stderr := new(bytes.Buffer)
	node.Stderr = stderr
	out, err := node.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, stderr)
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, err := range answer.Verified {
		if wrong := i == len(said.Requests)-1; (err != "") != wrong {
			t.Errorf("it says of our signature %d: %q", i, err)
		}
	}
	v, err := agents.New(agents.Config{
		Authorities: []string{"shop.example"}, RequireNonce: true, MaxLifetime: 5 * time.Minute,
		Directories: []agents.Directory{{URL: "https://bot.example", Keys: answer.Keys}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Signed) != 4 || len(answer.Verified) != len(said.Requests) {
		t.Fatalf("got %d signatures and %d verdicts", len(answer.Signed), len(answer.Verified))
	}
	for _, fields := range answer.Signed {
		r := get()
		for name, value := range fields {
			r.Header.Set(name, value)
		}
		wantAgent(t, v, r, "bot.example")
		r.Host = "www.shop.example"
		if v.Signed(r) {
			t.Errorf("accepted for another site: %v", fields)
		}
	}
}
