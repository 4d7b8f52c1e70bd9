#!/usr/bin/env bash
# @portkey-ai/gateway 1.15.2 (2026-11-29) before a model that answers 429 with Retry-After: 3, with
# one repeat for 429, and the same with use_retry_after_header: true.
# Guess: it waits 3 s instead of its own second, and passes on the last 429 with its fields.
# Seen: without the option the caller gets the 429 and Retry-After. With it the caller gets 500
# without Retry-After, and the text is that of a TypeError. Nor is the wait obeyed: the repeat comes
# after its own second in both cases. A Retry-After of an hour is the same.
set -euo pipefail
dir=$(mktemp -d)
gateway=""
trap '[ -z "$gateway" ] || kill "$gateway" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit @portkey-ai/gateway@1.15.2
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
node node_modules/@portkey-ai/gateway/build/start-server.js --headless "--port=$port" >gateway.log 2>&1 &
gateway=$!
cat >denied.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'

const gateway = `http://127.0.0.1:${process.argv[2]}`
for (let i = 0; !await fetch(gateway).catch(() => false); i++) {
  assert.ok(i < 600, 'the gateway does not start')
  await new Promise((resolve) => setTimeout(resolve, 100))
}

// ask sends a call for a model that answers 429 with such a Retry-After.
async function ask(told, use_retry_after_header) {
  const at = []
  const model = http.createServer((request, response) => {
    at.push(Date.now())
    response.writeHead(429, { 'Retry-After': told, 'Content-Type': 'application/json' })
    response.end('{"error":{"message":"slow down"}}')
  })
  await new Promise((resolve) => model.listen(0, '127.0.0.1', resolve))
  const answer = await fetch(`${gateway}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'x-portkey-config': JSON.stringify({
        provider: 'openai', api_key: 'x', custom_host: `http://127.0.0.1:${model.address().port}/v1`,
        retry: { attempts: 1, on_status_codes: [429], use_retry_after_header }
      })
    },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] })
  })
  const body = await answer.text()
  model.closeAllConnections()
  model.close()
  const between = at.slice(1).map((t, i) => t - at[i])
  console.log('Retry-After:', told, 'use_retry_after_header:', use_retry_after_header, '->', answer.status,
    'Retry-After:', answer.headers.get('retry-after'), 'ms between requests:', between.join(' '), body)
  return { status: answer.status, told: answer.headers.get('retry-after'), between, body }
}
const without = await ask('3', false)
assert.equal(without.status, 429)
assert.equal(without.told, '3')
for (const told of ['3', '3600']) {
  const { status, told: passed, between, body } = await ask(told, true)
  assert.equal(status, 500)
  assert.equal(passed, null)
  assert.match(body, /TypeError/)
  assert.equal(between.length, 1)
  assert.ok(told === '3' || between[0] < 60_000)
}
process.exit()
J
node denied.mjs "$port"
