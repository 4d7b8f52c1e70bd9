package agents_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

// peerProgram signs by two packages of npm, and verifies by them what this package has signed: by
// web-bot-auth with one String in Signature-Agent, as drafts had it when that release was made, and by
// http-message-sig with a Dictionary.
const peerProgram = `
import * as strict from 'http-message-sig';
import { generateNonce, signatureHeaders, verify } from 'web-bot-auth';
import { Ed25519Signer, verifierFromJWK } from 'web-bot-auth/crypto';
import { readFileSync } from 'node:fs';

const ours = JSON.parse(readFileSync(0, 'utf8')); // a key and requests that it has signed
const ourKey = await crypto.subtle.importKey('jwk', ours.key, 'Ed25519', true, ['verify']);
const policy = { algorithms: ['ed25519'], requiredComponents: ['@authority'], requiredParameters: ['created', 'tag'] };
const verified = [];
for (const { url, method, headers } of ours.requests) {
  const request = new Request(url, { method, headers });
  try {
    if (headers['Signature-Agent'].startsWith('"')) {
      await verify(request, await verifierFromJWK(ours.key));
    } else {
      await strict.verifySignature(request,
        { label: 'sig1', policy, resolveVerifier: () => strict.webcrypto.verifier(ourKey) });
    }
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
  ['"https://bot.example"', ['@authority', 'signature-agent', '@method', '@path', '@query', '@target-uri', '@scheme']],
]) {
  const request = new Request(url, { headers: { 'Signature-Agent': agent } });
  const fields = await signatureHeaders(request, signer, { created, expires, components, nonce: generateNonce() });
  signed.push({ 'Signature-Agent': agent, ...fields });
}
for (const more of [
  [],
  ['@method', '@target-uri', '@scheme', '@path', '@query'],
  ['accept', strict.component('x-dict', { key: 'b' })],
]) {
  const headers = {
    'Signature-Agent': 'sig1="https://bot.example"', 'Accept': 'text/html,  */*', 'X-Dict': 'a=1,b=(2  "c";d)',
  };
  const fields = await strict.createSignature(new Request(url, { headers }), {
    label: 'sig1', signer: strict.webcrypto.signer(pair.privateKey),
    components: ['@authority', strict.component('signature-agent', { key: 'sig1' }), ...more],
    parameters: {
      created: Math.floor(created / 1000), expires: Math.floor(expires / 1000), keyid: signer.keyid,
      nonce: generateNonce(), tag: 'web-bot-auth',
    },
  });
  signed.push({ ...headers, 'Signature': fields.signature, 'Signature-Input': fields.signatureInput });
}
console.log(JSON.stringify({ verified, keys: { keys: [{ kty, crv, x }] }, signed }));
`

// Both packages are Cloudflare's.
func TestIndependentSignersAgree(t *testing.T) {
	testrun.FullOnly(t, "web-bot-auth and http-message-sig, which npm installs")
	testrun.Program(t, "node")
	dir := t.TempDir()
	install := testrun.Command(t, "npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", dir,
		"web-bot-auth@0.1.3", "http-message-sig@0.3.0")
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
	add := func(r *http.Request) {
		headers := make(map[string]string)
		for name := range r.Header {
			headers[name] = r.Header.Get(name)
		}
		said.Requests = append(said.Requests, request{"https://shop.example/items?page=2", r.Method, headers})
	}
	for _, components := range [][]string{nil, {"@method", "@path", "@query"}, {"@target-uri", "@scheme"}} {
		ours.Components = components
		add(signed(ours))
	}
	older := usual()
	older.agent, older.components = `"https://bot.example"`, `"@authority" "signature-agent" "@path"`
	older.base = "\"@authority\": shop.example\n\"signature-agent\": \"https://bot.example\"\n\"@path\": /items\n"
	add(older.sign(ours.Key))
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
	if len(answer.Signed) != 6 || len(answer.Verified) != len(said.Requests) {
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
