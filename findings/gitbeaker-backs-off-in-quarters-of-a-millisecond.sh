#!/usr/bin/env bash
# @gitbeaker/rest 43.8.0 (2026-11-29), GitLab's client for Node, after a 429 with Retry-After: 2.
# Guess: it waits for Retry-After, or for a growing time of its own: its source has 2^i * 0.25.
# Seen: the unit of that is the millisecond. Ten requests come within a quarter of a second, and the
# caller gets an error that tells it to check the rate limit. Retry-After is not read.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit @gitbeaker/rest@43.8.0
cat >denied.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import { Gitlab } from '@gitbeaker/rest'

const at = []
const server = http.createServer((request, response) => {
  at.push(Date.now())
  response.writeHead(429, { 'Retry-After': '2' })
  response.end('{}')
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const client = new Gitlab({ host: `http://127.0.0.1:${server.address().port}`, token: 'x' })
const error = await client.Projects.show(1).catch((e) => e)
const between = at.slice(1).map((t, i) => t - at[i])
console.log(at.length, 'requests, ms between them:', between.join(' '), '->', error.message)
assert.equal(at.length, 10)
assert.ok(between.every((ms) => ms < 900)) // 66 is the longest of a machine that is idle
assert.match(error.message, /after 10 retries, last status code: 429/)
process.exit()
J
node denied.mjs
