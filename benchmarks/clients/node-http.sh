#!/usr/bin/env bash
# The HTTP clients of npm, most with the retry that they offer switched on.
source "$(dirname "$0")/lib.sh"
pins='
@elastic/transport 9.4.0
@hapi/wreck 18.1.2
axios 1.21.1
axios-retry 4.5.0
cross-fetch 4.1.0
fetch-retry 6.0.0
gaxios 8.3.3
got 16.1.0
ky 2.1.0
make-fetch-happen 16.0.1
needle 3.5.0
node-fetch 3.3.2
ofetch 1.5.1
redaxios 0.5.1
retry-axios 4.0.3
superagent 10.4.2
teeny-request 11.1.1
undici 8.13.1
urllib 4.9.2
wretch 3.0.9
xior 0.8.5
'
node_with $(awk 'NF { print $1 "@" $2 }' <<<"$pins")
cat >client.mjs <<'J'
const url = process.env.URL + '/things'
const fields = (h) => `Retry-After ${h?.get?.('retry-after') ?? h?.['retry-after']}`
const got = (status, headers) => `answer ${status}, ${fields(headers)}`
const load = async (name) => (await import(name)).default
const clients = {
  fetch: async () => { const r = await fetch(url); return got(r.status, r.headers) },
  http: () => import('node:http').then((http) => new Promise((resolve) =>
    http.get(url, (r) => { resolve(got(r.statusCode, r.headers)); r.resume() }))),
  '@elastic/transport': async () => {
    const t = await import('@elastic/transport')
    const pool = new t.WeightedConnectionPool({ Connection: t.UndiciConnection })
    pool.addConnection(process.env.URL)
    return new t.Transport({ connectionPool: pool }).request({ method: 'GET', path: '/things' })
  },
  '@hapi/wreck': async () => (await load('@hapi/wreck')).get(url),
  axios: async () => (await load('axios')).get(url),
  'axios-retry': async () => {
    const axios = await load('axios')
    ;(await load('axios-retry'))(axios, { retries: 3 })
    return axios.get(url)
  },
  'cross-fetch': async () => { const r = await (await load('cross-fetch'))(url); return got(r.status, r.headers) },
  'fetch-retry': async () => {
    const r = await (await load('fetch-retry'))(fetch, { retryOn: [429, 503] })(url)
    return got(r.status, r.headers)
  },
  gaxios: async () => (await import('gaxios')).request({ url, retry: true }),
  got: async () => (await load('got'))(url),
  ky: async () => (await load('ky'))(url),
  'make-fetch-happen': async () => {
    const r = await (await load('make-fetch-happen'))(url, { retry: { retries: 2 } })
    return got(r.status, r.headers)
  },
  needle: async () => { const r = await (await load('needle'))('get', url); return got(r.statusCode, r.headers) },
  'node-fetch': async () => { const r = await (await load('node-fetch'))(url); return got(r.status, r.headers) },
  ofetch: async () => (await import('ofetch')).ofetch(url, { retry: 3 }),
  redaxios: async () => (await load('redaxios')).get(url),
  'retry-axios': async () => {
    const axios = await load('axios')
    ;(await import('retry-axios')).attach()
    return axios.get(url)
  },
  superagent: async () => (await load('superagent')).get(url).retry(2),
  'teeny-request': async () => new Promise(async (resolve, reject) =>
    (await import('teeny-request')).teenyRequest({ url, method: 'GET' },
      (error, r) => error ? reject(error) : resolve(got(r.statusCode, r.headers)))),
  undici: async () => {
    const { request, RetryAgent, Agent } = await import('undici')
    const r = await request(url, { dispatcher: new RetryAgent(new Agent()) })
    return got(r.statusCode, r.headers)
  },
  urllib: async () => {
    const r = await (await import('urllib')).request(url, { retry: 3 })
    return got(r.status, r.headers)
  },
  wretch: async () => {
    const { retry } = await import('wretch/middlewares')
    return (await load('wretch'))(url).middlewares([retry()]).get().json()
  },
  xior: async () => {
    const http = (await import('xior')).default.create()
    http.plugins.use((await load('xior/plugins/error-retry'))())
    return http.get(url)
  },
}
const message = (e) => String(e.message ?? e.data?.message ?? e).replace(/http:\S+/g, 'URL').slice(0, 110)
const status = (e) => e.status ?? e.statusCode ?? e.response?.status ?? e.output?.statusCode ?? e.code ?? ''
await clients[process.argv[2]]().then(
  (r) => console.log('saw', typeof r === 'string' ? r : 'success: ' + JSON.stringify(r)),
  (e) => console.log('saw', e.constructor?.name ?? typeof e, status(e), JSON.stringify(message(e))))
process.exit()
J
ask_pins JavaScript node client.mjs <<<"fetch $(node --version)
http $(node --version)
$pins"
