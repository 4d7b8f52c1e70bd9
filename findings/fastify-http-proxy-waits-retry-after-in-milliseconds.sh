#!/usr/bin/env bash
# @fastify/http-proxy 11.6.3 on @fastify/reply-from 12.6.5 (2026-11-29) before a server that answers
# each GET with 503 and Retry-After: 1.
# Guess: maxRetriesOn503: 0 turns repeats off, and between repeats it waits a second.
# Seen: 0 is read as "not set", so there are ten repeats; 1 is the smallest number. Retry-After is
# the wait in milliseconds: eleven requests reach the busy server in a fraction of the second that
# it asked for.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit fastify@5.12.8 @fastify/http-proxy@11.6.3 @fastify/reply-from@12.6.5
cat >denied.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import fastify from 'fastify'
import proxy from '@fastify/http-proxy'

const at = []
const busy = http.createServer((request, response) => {
  at.push(Date.now())
  response.writeHead(503, { 'Retry-After': '1' })
  response.end()
})
await new Promise((resolve) => busy.listen(0, '127.0.0.1', resolve))
for (const [maxRetriesOn503, requests] of [[0, 11], [1, 2], [3, 4]]) {
  at.length = 0
  const server = fastify()
  server.register(proxy, {
    upstream: `http://127.0.0.1:${busy.address().port}`,
    replyOptions: { maxRetriesOn503 }
  })
  const answer = await fetch(await server.listen({ port: 0, host: '127.0.0.1' }))
  const between = at.slice(1).map((t, i) => t - at[i])
  console.log('maxRetriesOn503:', maxRetriesOn503, '->', answer.status, 'after', at.length,
    'requests, ms between them:', between.join(' '))
  assert.equal(at.length, requests)
  assert.ok(Math.min(...between) < 900) // 0 to 9 on a machine that is idle
}
process.exit()
J
node denied.mjs
