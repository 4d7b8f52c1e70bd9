#!/usr/bin/env bash
# stripe 23.1.0 for Node (2026-11-28) before something that answers 429 with a problem document
# (RFC 9457), as a limiter in a gateway or a mock of the API may.
# Guess: the promise rejects, since the status is 429.
# Seen: it resolves with the problem document: the program takes a denied charge for a success.
# The client looks for the member error in the body, not at the status. With that member the same
# document rejects with StripeRateLimitError; so does a body that is no JSON, with another error.
# Status 503 is the same, after three requests.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit stripe@23.1.0
cat >denied.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import Stripe from 'stripe'

const problem = { type: 'about:blank', title: 'Too Many Requests', detail: 'Retry in 2 seconds.' }
async function charge(status, body) {
  let requests = 0
  const server = http.createServer((request, response) => {
    requests++
    response.writeHead(status, { 'Content-Type': 'application/problem+json', 'Retry-After': '1' })
    response.end(body)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stripe = new Stripe('sk_test_1', { host: '127.0.0.1', port: server.address().port, protocol: 'http' })
  const said = await stripe.charges.create({ amount: 1, currency: 'eur', source: 'tok_visa' }).then(
    (made) => `resolves, id ${made.id}`, (error) => `rejects, ${error.type}`)
  server.closeAllConnections()
  server.close()
  const all = `${said}, ${requests} request(s)`
  console.log(status, body, '->', all)
  return all
}
const named = { ...problem, error: { type: 'rate_limit_error', message: 'Retry in 2 seconds.' } }
assert.equal(await charge(429, JSON.stringify(problem)), 'resolves, id undefined, 1 request(s)')
assert.equal(await charge(503, JSON.stringify(problem)), 'resolves, id undefined, 3 request(s)')
assert.equal(await charge(429, JSON.stringify(named)), 'rejects, StripeRateLimitError, 1 request(s)')
assert.match(await charge(429, 'Retry in 2 seconds.'), /^rejects, StripeAPIError/)
J
node denied.mjs
