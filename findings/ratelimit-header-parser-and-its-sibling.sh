#!/usr/bin/env bash
# ratelimit-header-parser 0.1.0 beside express-rate-limit 8.7.5 (2026-11-28), of the same
# maintainers.
# Guess: the parser reads what the limiter sends, or returns undefined.
# Seen: of the limiter's three forms it reads the two older ones. For draft-8, the newest, it
# returns an object whose limit, used and remaining are NaN, so neither "remaining > 0" nor
# "remaining === 0" holds, and a program that asks for the object alone believes it is limited.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit ratelimit-header-parser@0.1.0 express-rate-limit@8.7.5 express@5.1.0
cat >parse.mjs <<'J'
import assert from 'node:assert'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { parseRateLimit } from 'ratelimit-header-parser'

const remaining = { 'draft-6': 4, 'draft-7': 4, 'draft-8': NaN }
for (const [standardHeaders, want] of Object.entries(remaining)) {
  const app = express()
  app.use(rateLimit({ limit: 5, windowMs: 60_000, standardHeaders, legacyHeaders: false }))
  app.get('/', (_, response) => response.send('ok'))
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.on('listening', resolve))
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/`)
  const fields = [...answer.headers].filter(([name]) => name.startsWith('ratelimit'))
  const read = parseRateLimit(answer)
  console.log(standardHeaders, fields, '->', read)
  assert.ok(Object.is(read.remaining, want))
  server.closeAllConnections()
  server.close()
}
J
node parse.mjs
