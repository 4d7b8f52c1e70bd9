#!/usr/bin/env bash
# ky 2.1.0 (2026-11-28) after a 429 without Retry-After.
# Guess: it reads the RateLimit field of the current IETF draft, since it reads RateLimit-Reset
# of the old ones. Retry-After: 1.5 is 1.5 s.
# Seen: RateLimit-Reset: 1 and X-RateLimit-Reset: 1 are waited for. RateLimit: "x";r=0;t=1
# is not read: ky asks again after its own 0.3 s, as it does after Retry-After: 1.5. Upgrading
# a server from the old draft to the new one makes this client three times as fast.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit ky@2.1.0
cat >waits.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import ky from 'ky'

const cases = [
  [{ 'retry-after': '1' }, 1000],
  [{ 'ratelimit-reset': '1' }, 1000],
  [{ 'x-ratelimit-reset': '1' }, 1000],
  [{ ratelimit: '"x";r=0;t=1' }, 300],
  [{ 'retry-after': '1.5' }, 300],
  [{}, 300],
]
for (const [fields, least] of cases) {
  const at = []
  const server = http.createServer((_, response) => {
    at.push(performance.now())
    response.writeHead(at.length < 2 ? 429 : 200, fields).end()
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  await ky.get(`http://127.0.0.1:${server.address().port}/`)
  const waited = at[1] - at[0]
  console.log(JSON.stringify(fields), 'waited', Math.round(waited), 'ms')
  assert.ok(waited > least - 50 && waited < least + 600, `want about ${least} ms`)
  server.closeAllConnections()
  server.close()
}
J
node waits.mjs
