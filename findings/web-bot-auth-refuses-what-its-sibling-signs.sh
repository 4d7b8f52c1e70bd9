#!/usr/bin/env bash
# web-bot-auth 0.1.3 and http-message-sig 0.3.0 of npm (2026-11-29), two packages of one project, on a request that
# is signed as draft-ietf-webbotauth-httpsig-protocol-01 says: Signature-Agent is a Dictionary, and the signature
# covers its member.
# Guess: each verifies what the other signs: both are the newest releases.
# Seen: http-message-sig verifies its own signature. web-bot-auth refuses the same request with "invalid signature",
# and verifies one whose Signature-Agent is a String, as older drafts had it. So a crawler has to know which draft
# a site follows.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit web-bot-auth@0.1.3 http-message-sig@0.3.0
cat >verify.mjs <<'J'
import assert from 'node:assert'
import * as sibling from 'http-message-sig'
import { generateNonce, signatureHeaders, verify } from 'web-bot-auth'
import { Ed25519Signer, verifierFromJWK } from 'web-bot-auth/crypto'

const pair = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])
const jwk = await crypto.subtle.exportKey('jwk', pair.privateKey)
const publicKey = { kty: jwk.kty, crv: jwk.crv, x: jwk.x }
const signer = await Ed25519Signer.fromJWK(jwk)
const url = 'https://shop.example/items'
const created = new Date()
const expires = new Date(created.getTime() + 300_000)
const say = async (what, verifying) => {
  const outcome = await verifying.then(() => 'verified', (error) => String(error))
  console.log(what + ':', outcome)
  return outcome
}

const dictionary = { 'Signature-Agent': 'sig1="https://bot.example"' }
const fields = await sibling.createSignature(new Request(url, { headers: dictionary }), {
  label: 'sig1',
  signer: sibling.webcrypto.signer(pair.privateKey),
  components: ['@authority', sibling.component('signature-agent', { key: 'sig1' })],
  parameters: {
    created: Math.floor(created / 1000), expires: Math.floor(expires / 1000), keyid: signer.keyid,
    nonce: generateNonce(), tag: 'web-bot-auth',
  },
})
const ofDraft = new Request(url, {
  headers: { ...dictionary, Signature: fields.signature, 'Signature-Input': fields.signatureInput },
})
const policy = {
  algorithms: ['ed25519'], requiredComponents: ['@authority'], requiredParameters: ['created', 'tag'],
}
assert.equal(await say('a Dictionary by http-message-sig', sibling.verifySignature(ofDraft, {
  label: 'sig1', policy, resolveVerifier: () => sibling.webcrypto.verifier(pair.publicKey),
})), 'verified')
assert.match(await say('a Dictionary by web-bot-auth', verify(ofDraft, await verifierFromJWK(publicKey))), /invalid signature/)

const text = { 'Signature-Agent': '"https://bot.example"' }
const older = await signatureHeaders(new Request(url, { headers: text }), signer, { created, expires, nonce: generateNonce() })
assert.equal(await say('a String by web-bot-auth', verify(
  new Request(url, { headers: { ...text, ...older } }), await verifierFromJWK(publicKey))), 'verified')
J
node --no-warnings verify.mjs
