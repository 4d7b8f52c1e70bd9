#!/usr/bin/env bash
# replicate 1.4.0 for Node (2026-11-29) after a 429, with Retry-After: 2 and without.
# Guess: it waits 2 s, or as its source says "with exponential backoff and jitter", from half a second.
# Seen: neither. It sends six requests at once, and fails within a tenth of a second. It sleeps only
# if the wait is a whole number of milliseconds, which the jitter rules out; Retry-After is a text,
# so it fails the same test, and is read as a date of 2001.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit replicate@1.4.0
cat >denied.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import Replicate from 'replicate'

// waits returns the milliseconds between requests, two seconds long at most.
async function waits(fields) {
  const at = []
  const server = http.createServer((request, response) => {
    at.push(Date.now())
    response.writeHead(429, fields)
    response.end('{}')
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const client = new Replicate({ auth: 'x', baseUrl: `http://127.0.0.1:${server.address().port}` })
  const over = new Promise((resolve) => setTimeout(resolve, 2000))
  await Promise.race([client.models.get('a', 'b').catch(() => {}), over])
  server.closeAllConnections()
  server.close()
  const between = at.slice(1).map((t, i) => t - at[i])
  console.log(JSON.stringify(fields), '->', at.length, 'requests, ms between them:', between.join(' '))
  return between
}
for (const fields of [{ 'Retry-After': '2' }, {}]) {
  const between = await waits(fields)
  assert.equal(between.length, 5)
  assert.ok(between.every((ms) => ms < 450))
}
process.exit()
J
node denied.mjs
