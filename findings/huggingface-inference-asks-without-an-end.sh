#!/usr/bin/env bash
# @huggingface/inference 4.13.30 (2026-11-29) before a service that answers 503 with Retry-After: 1.
# Guess: it waits, a few times, or fails.
# Seen: it calls itself again at once for each 503, without a wait and without an end: a hundred
# requests and more in a second, for as long as the service is full. A 429 it does not repeat.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit @huggingface/inference@4.13.30
cat >denied.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import { InferenceClient } from '@huggingface/inference'

// ask returns how many of a hundred denials a call asks for. Later requests succeed.
async function ask(status) {
  let requests = 0
  const server = http.createServer((request, response) => {
    requests++
    response.writeHead(requests <= 100 ? status : 200, { 'Retry-After': '1', 'Content-Type': 'application/json' })
    response.end('{"choices":[]}')
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const begun = Date.now()
  await new InferenceClient('x').endpoint(`http://127.0.0.1:${server.address().port}`)
    .chatCompletion({ messages: [{ role: 'user', content: 'hi' }] }).catch(() => {})
  server.closeAllConnections()
  server.close()
  console.log(status, '->', requests, 'requests in', Date.now() - begun, 'ms')
  return requests
}
assert.equal(await ask(503), 101)
assert.equal(await ask(429), 1)
process.exit()
J
node denied.mjs
