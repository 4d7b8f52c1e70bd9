#!/usr/bin/env bash
# undici 8.13.1 of npm (2026-11-30): RetryAgent with maxTimeout 300 ms, which is 30 s unless set, on a 429 with
# Retry-After: 6.
# Guess: maxTimeout bounds the waits that the client chooses itself. Told 6 seconds, it waits them, or gives up.
# Seen: maxTimeout cuts what the server tells, too. It asks again after 0.3 s, five times, and then gives up, before a
# third of the time is over. So with the defaults a limit by the hour is asked every 30 seconds, and never waited for.
set -euo pipefail
version=8.13.1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit "undici@$version" node@24.11.1 # which it needs
cat >ask.mjs <<'J'
import assert from 'node:assert'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { Agent, RetryAgent, request } from 'undici'

const came = []
const server = createServer((_, answer) => {
  came.push(performance.now())
  answer.writeHead(429, { 'Retry-After': '6' }).end()
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const dispatcher = new RetryAgent(new Agent(), { maxTimeout: 300 })
const error = await request(`http://127.0.0.1:${server.address().port}/`, { dispatcher }).then(() => null, (e) => e)
const after = came.map((at) => Math.round(at - came[0]))
console.log('asked after', after.join(', '), 'ms, then', error?.code)
assert.equal(came.length, 6)
assert.ok(after.at(-1) < 6000)
assert.equal(error?.code, 'UND_ERR_REQ_RETRY')
server.close()
await dispatcher.close()
J
node_modules/.bin/node ask.mjs
