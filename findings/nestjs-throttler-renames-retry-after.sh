#!/usr/bin/env bash
# @nestjs/throttler 6.7.1 (2026-11-28) on NestJS 12.5.1.
# Guess: a 429 has Retry-After, whatever the throttlers are called.
# Seen: with one throttler that has no name it has. As soon as throttlers have names, as the
# documentation shows for two limits at once, the 429 has Retry-After-short instead: no client
# reads that. Of the other throttlers nothing is told on a 429.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit @nestjs/common@12.5.1 @nestjs/core@12.5.1 \
  @nestjs/platform-express@12.5.1 @nestjs/throttler@6.7.1 reflect-metadata@0.2.2 rxjs@7.8.2
cat >throttle.cjs <<'J'
require('reflect-metadata')
const assert = require('node:assert')
const { Module, Controller, Get } = require('@nestjs/common')
const { NestFactory, APP_GUARD } = require('@nestjs/core')
const { ThrottlerModule, ThrottlerGuard } = require('@nestjs/throttler')

async function denied(throttlers) {
  class Answers { hello() { return 'hello' } }
  Get('/')(Answers.prototype, 'hello', Object.getOwnPropertyDescriptor(Answers.prototype, 'hello'))
  Controller()(Answers)
  class App {}
  Module({
    imports: [ThrottlerModule.forRoot({ throttlers })],
    controllers: [Answers],
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  })(App)
  const app = await NestFactory.create(App, { logger: false })
  await app.listen(0, '127.0.0.1')
  const url = `http://127.0.0.1:${app.getHttpServer().address().port}/`
  await fetch(url)
  const answer = await fetch(url)
  const fields = Object.fromEntries([...answer.headers].filter(([k]) => /rate|retry/.test(k)))
  console.log(throttlers.map((t) => t.name ?? 'without a name').join(' and '), answer.status, fields)
  await app.close()
  return fields
}

;(async () => {
  assert.deepEqual(await denied([{ ttl: 60000, limit: 1 }]), { 'retry-after': '60' })
  const two = [{ name: 'short', ttl: 60000, limit: 1 }, { name: 'long', ttl: 600000, limit: 100 }]
  assert.deepEqual(await denied(two), { 'retry-after-short': '60' })
  process.exit()
})()
J
node throttle.cjs
