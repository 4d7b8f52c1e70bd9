#!/usr/bin/env bash
# openai 7.59.0 of npm (2026-11-29) after a 429 with Retry-After.
# Guess: it waits as long as it is told, or gives up if that is too long for it, as openai of PyPI does.
# Seen: Retry-After: 2 is waited for. After Retry-After: 3600 it asks again in about half a second, and
# once more in about a second, and fails then: of a long wait nothing is left, and a limiter that denies for
# an hour gets three requests in place of one.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit openai@7.59.0
cat >waits.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import OpenAI from 'openai'

const pauses = async (told) => {
  const at = []
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => {
      at.push(performance.now())
      response.writeHead(429, { 'retry-after': told, 'content-type': 'application/json' })
      response.end('{"error": {"message": "too many", "type": "rate_limit"}}')
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const client = new OpenAI({ apiKey: 'x', baseURL: `http://127.0.0.1:${server.address().port}/v1` })
  await assert.rejects(client.models.list(), { status: 429 })
  server.closeAllConnections()
  server.close()
  const waited = at.slice(1).map((t, i) => Math.round(t - at[i]))
  console.log(`Retry-After: ${told}: asked ${at.length} times, pauses in ms:`, waited.join(' '))
  return waited
}
assert.ok((await pauses('2')).every((ms) => ms >= 1990))
const long = await pauses('3600')
assert.equal(long.length, 2)
assert.ok(long.every((ms) => ms < 3000))
J
node waits.mjs
