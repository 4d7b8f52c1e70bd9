#!/usr/bin/env bash
# koa-ratelimit 6.0.0 of npm (2026-11-30) with its driver "memory", behind koa 3.3.0: 2 requests in 1.5 seconds.
# Guess: X-RateLimit-Reset is a whole Unix second, as its guide shows, and a request at Retry-After is admitted.
# Seen: X-RateLimit-Reset has microseconds behind a point, which a client that reads a whole number refuses.
# Retry-After is cut to whole seconds: in the last second it is 0, and a client that comes back at once is denied.
set -euo pipefail
version=6.0.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit "koa-ratelimit@$version" koa@3.3.0
cat >ask.mjs <<'J'
import assert from 'node:assert'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import Koa from 'koa'
import ratelimit from 'koa-ratelimit'

const app = new Koa()
app.use(ratelimit({ driver: 'memory', db: new Map(), duration: 1500, max: 2, id: () => 'one' }))
app.use((ctx) => { ctx.body = 'Hello.' })
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const ask = async () => {
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/`)
  const { status, headers } = answer
  console.log(status, 'reset', headers.get('x-ratelimit-reset'), 'Retry-After', headers.get('retry-after'))
  return { status, reset: headers.get('x-ratelimit-reset'), wait: headers.get('retry-after') }
}
const first = await ask()
assert.match(first.reset, /^\d{10}\.\d{1,6}$/)
await ask()
assert.equal((await ask()).status, 429)
await sleep(800)
const denied = await ask()
assert.deepEqual([denied.status, denied.wait], [429, '0'])
assert.equal((await ask()).status, 429) // at once, as told
server.close()
J
node ask.mjs
