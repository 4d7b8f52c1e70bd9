// Asks one client of JavaScript about each vector, under a false clock, and prints an object a line.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import timers from 'node:timers'
import timersPromises from 'node:timers/promises'
import { syncBuiltinESMExports } from 'node:module'

// The clock. It jumps to the next timer once nothing has happened for a while.
const real = { setTimeout, clearTimeout, Date }
let now = 0, activity = 0, queue = new Set()

class Timer {
  constructor(fn, ms, args) {
    this.fn = fn
    this.args = args
    this.ms = ms >= 1 && ms <= 2147483647 ? Math.trunc(ms) : 1 // as Node does
    this.refresh()
  }
  refresh() {
    this.at = now + this.ms
    queue.add(this)
    activity++
    return this
  }
  close() { queue.delete(this); return this }
  ref() { return this }
  unref() { return this }
  hasRef() { return true }
  [Symbol.toPrimitive]() { return 1 }
  [Symbol.dispose]() { this.close() }
}

const setFalse = (fn, ms, ...args) => new Timer(fn, Number(ms), args)
const clearFalse = (t) => t instanceof Timer ? void t.close() : real.clearTimeout(t)
globalThis.setTimeout = timers.setTimeout = setFalse
globalThis.clearTimeout = timers.clearTimeout = clearFalse
timersPromises.setTimeout = (ms, value, { signal } = {}) => new Promise((resolve, reject) => {
  const t = setFalse(() => resolve(value), ms)
  signal?.addEventListener('abort', () => { t.close(); reject(signal.reason) })
})
globalThis.Date = class extends real.Date {
  constructor(...args) { args.length ? super(...args) : super(now) }
  static now() { return Math.floor(now) }
}
syncBuiltinESMExports()

const pause = (ms) => new Promise((resolve) => real.setTimeout(resolve, ms))

// settled waits for a promise, while timers fire. It gives up after ten seconds of real time.
async function settled(promise) {
  let done = false, error = ''
  promise.then(() => { done = true }, (e) => { done = true; error = e })
  const began = performance.now()
  let seen = activity, quiet = 0
  while (!done) {
    if (performance.now() - began > 10_000) return 'no end within ten seconds'
    await pause(4)
    quiet = seen === activity && inFlight === 0 ? quiet + 1 : 0
    seen = activity
    if (quiet < 8 || queue.size === 0) continue
    const next = [...queue].reduce((a, b) => b.at < a.at ? b : a)
    queue.delete(next)
    now = Math.max(now, next.at)
    activity++
    next.fn(...next.args)
  }
  return error
}

// The server.
let answers = [], served = 0, last = 0, gap = null, inFlight = 0
const server = http.createServer({ keepAliveTimeout: 0 }, (request, response) => {
  activity++
  inFlight++
  response.on('close', () => { inFlight--; activity++ })
  request.resume().on('end', () => {
    const n = served++
    if (n === answers.length && gap === null) gap = (now - last) / 1000
    response.sendDate = false
    if (n >= answers.length) {
      response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
      return
    }
    last = now
    const { status, fields, body = '' } = answers[n]
    const list = fields.flatMap((line) => {
      const at = line.indexOf(':')
      return [line.slice(0, at), line.slice(at + 1).trim()]
    })
    response.writeHead(status, [...list, 'Content-Length', String(Buffer.byteLength(body))]).end(body)
  })
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${server.address().port}`

const load = async (name) => (await import(name)).default
const clients = {
  got: async () => { const got = await load('got'); return () => got(url + '/things') },
  ky: async () => { const ky = await load('ky'); return () => ky(url + '/things') },
  'axios-retry': async () => {
    const axios = await load('axios')
    ;(await load('axios-retry'))(axios, { retries: 3, retryCondition: (e) => [429, 503].includes(e.response?.status) })
    return () => axios.get(url + '/things')
  },
  'retry-axios': async () => {
    const axios = await load('axios')
    ;(await import('retry-axios')).attach()
    return () => axios.get(url + '/things')
  },
  undici: async () => {
    const { request, RetryAgent, Agent } = await import('undici')
    const dispatcher = new RetryAgent(new Agent())
    return async () => (await request(url + '/things', { dispatcher })).body.dump()
  },
  openai: async () => {
    const client = new (await load('openai'))({ apiKey: 'x', baseURL: url })
    return () => client.models.list()
  },
  '@azure/core-rest-pipeline': async () => {
    const core = await import('@azure/core-rest-pipeline')
    const pipeline = core.createPipelineFromOptions({}), client = core.createDefaultHttpClient()
    return () => pipeline.sendRequest(client, core.createPipelineRequest({ url, allowInsecureConnection: true }))
  },
  '@octokit/plugin-throttling': async () => {
    const { Octokit } = await import('@octokit/core')
    const { throttling } = await import('@octokit/plugin-throttling')
    const again = (after, options, octokit, count) => count < 3
    return () => new (Octokit.plugin(throttling))({ baseUrl: url, log: { debug() {}, info() {}, warn() {}, error() {} },
      throttle: { onRateLimit: again, onSecondaryRateLimit: again } }).request('GET /user')
  },
}

// said returns what broke, or "" if the error is that of the server's status.
function said(e) {
  if (!e) return ''
  if (typeof e === 'string') return e
  const status = e.status ?? e.statusCode ?? e.response?.status ?? e.response?.statusCode
  return status >= 300 ? '' : `${e.constructor?.name}: ${String(e.message).slice(0, 100)}`
}

const call = await clients[process.argv[2]]()
for (const file of fs.readdirSync(process.env.VECTORS).filter((name) => name.endsWith('.json')).sort()) {
  const { now: start, vectors } = JSON.parse(fs.readFileSync(path.join(process.env.VECTORS, file)))
  for (const vector of vectors) {
    if (vector.answers.some((a) => 'sent' in a)) continue
    const began = real.Date.parse(vector.now ?? start)
    now = began
    queue = new Set()
    answers = vector.answers
    served = 0
    gap = null
    let error = ''
    for (const [i, a] of answers.entries()) {
      if (served > i) continue
      now = Math.max(now, began + 1000 * (a.at ?? 0))
      error = said(await settled(Promise.resolve().then(call)))
      if (error && served <= i) break
    }
    const repeated = gap !== null
    if (!repeated && served === answers.length && answers.at(-1).status < 300) {
      error = said(await settled(Promise.resolve().then(call)))
    }
    console.log(JSON.stringify({ file: file.slice(0, -5), vector: vector.name, wait: gap, repeated, error }))
  }
}
process.exit()
