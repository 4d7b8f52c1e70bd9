#!/usr/bin/env bash
# axios-retry 4.5.0 and @azure/core-rest-pipeline 1.25.1 (2026-11-29) after a denial with a long Retry-After.
# Guess: they wait, or give up: 30 days are what a service with monthly quotas tells.
# Seen: up to 2,147,483 seconds they wait. From 2,147,484 seconds on (24.9 days) both ask again at once, since a timer
# of Node.js that is longer than 2^31 milliseconds fires after one. The longest waits are the shortest.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit axios@1.21.1 axios-retry@4.5.0 @azure/core-rest-pipeline@1.25.1
cat >waits.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import axios from 'axios'
import axiosRetry, { retryAfter } from 'axios-retry'
import { createDefaultHttpClient, createEmptyPipeline, createPipelineRequest, defaultRetryPolicy } from '@azure/core-rest-pipeline'

process.on('warning', () => {})
const asked = async (told, send) => {
  let count = 0
  const server = http.createServer((_, response) => {
    count++
    response.writeHead(count < 2 ? 503 : 200, { 'retry-after': told }).end()
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stop = new AbortController()
  const sent = send(`http://127.0.0.1:${server.address().port}/`, stop.signal).catch(() => {})
  await Promise.race([sent, new Promise((resolve) => setTimeout(resolve, 1500))])
  stop.abort()
  server.closeAllConnections()
  server.close()
  return count
}
const client = axios.create()
axiosRetry(client, { retries: 1, retryDelay: (_, error) => retryAfter(error) })
const pipeline = createEmptyPipeline()
pipeline.addPolicy(defaultRetryPolicy({ maxRetries: 1 }))
const clients = {
  'axios-retry': (url, signal) => client.get(url, { signal }),
  'core-rest-pipeline': (url, abortSignal) => pipeline.sendRequest(createDefaultHttpClient(),
    createPipelineRequest({ url, abortSignal, allowInsecureConnection: true })),
}
for (const [name, send] of Object.entries(clients)) {
  for (const [seconds, want] of [['2147483', 1], ['2147484', 2]]) {
    const got = await asked(seconds, send)
    console.log(name, 'Retry-After:', seconds, 'requests within 1.5 s:', got)
    assert.equal(got, want)
  }
}
process.exit()
J
node --no-warnings waits.mjs
