#!/usr/bin/env bash
# The SDKs of APIs that npm has, as their documents create them.
source "$(dirname "$0")/lib.sh"
pins='
@anthropic-ai/sdk 1.14.0
@aws-sdk/client-s3 3.1175.0
@azure/core-rest-pipeline 1.25.1
@elastic/elasticsearch 9.5.1
@gitbeaker/rest 43.8.0
@google-cloud/storage 8.4.0
@google/genai 3.3.0
@hubspot/api-client 14.0.1
@huggingface/inference 4.13.30
@line/bot-sdk 11.2.0
@linear/sdk 98.0.0
@mistralai/mistralai 2.7.0
@notionhq/client 5.26.0
@octokit/plugin-retry 8.1.1
@octokit/plugin-throttling 11.0.5
@octokit/request 10.0.16
@sendgrid/mail 8.1.6
@shopify/admin-api-client 2.0.0
@slack/web-api 8.2.0
@slack/webhook 8.0.2
@supabase/supabase-js 2.119.1
ai 7.0.173
airtable 0.12.2
algoliasearch 5.65.0
cohere-ai 8.1.0
contentful 11.12.10
graphql-request 7.4.0
groq-sdk 1.6.0
openai 7.59.0
replicate 1.4.0
resend 6.38.0
stripe 23.1.0
telegraf 4.16.3
grammy 1.46.0
node-telegram-bot-api 2.1.0
@discordjs/rest 2.6.3
twilio 6.3.1
'
node_with $(awk 'NF { print $1 "@" $2 }' <<<"$pins") @ai-sdk/openai@4.0.118 @octokit/core@7.0.8 @grammyjs/auto-retry@2.0.2
cat >client.mjs <<'J'
const url = process.env.URL, port = Number(process.env.PORT)
const messages = [{ role: 'user', content: 'hi' }]
const load = async (name) => (await import(name)).default
const clients = {
  '@anthropic-ai/sdk': async () => new (await load('@anthropic-ai/sdk'))({ apiKey: 'x', baseURL: url })
    .messages.create({ model: 'm', max_tokens: 9, messages }),
  '@aws-sdk/client-s3': async () => {
    const s3 = await import('@aws-sdk/client-s3')
    const client = new s3.S3Client({ endpoint: url, region: 'us-east-1', forcePathStyle: true,
      credentials: { accessKeyId: 'x', secretAccessKey: 'x' } })
    return client.send(new s3.ListObjectsV2Command({ Bucket: 'b' }))
  },
  '@azure/core-rest-pipeline': async () => {
    const core = await import('@azure/core-rest-pipeline')
    const r = await core.createPipelineFromOptions({}).sendRequest(core.createDefaultHttpClient(),
      core.createPipelineRequest({ url, allowInsecureConnection: true }))
    return `answer ${r.status}, Retry-After ${r.headers.get('retry-after')}`
  },
  '@elastic/elasticsearch': async () => new (await import('@elastic/elasticsearch')).Client({ node: url })
    .search({ index: 'i' }),
  '@gitbeaker/rest': async () => new (await import('@gitbeaker/rest')).Gitlab({ host: url, token: 'x' })
    .Projects.show(1),
  '@google-cloud/storage': async () => {
    const { Storage } = await import('@google-cloud/storage')
    process.env.STORAGE_EMULATOR_HOST = url
    return new Storage({ apiEndpoint: url, projectId: 'p' }).bucket('b').getMetadata()
  },
  '@google/genai': async () => new (await import('@google/genai')).GoogleGenAI(
    { apiKey: 'x', httpOptions: { baseUrl: url } }).models.generateContent({ model: 'm', contents: 'hi' }),
  '@hubspot/api-client': async () => new (await import('@hubspot/api-client')).Client(
    { accessToken: 'x', basePath: url, numberOfApiCallRetries: 3 }).crm.contacts.basicApi.getPage(),
  '@huggingface/inference': async () => new (await import('@huggingface/inference')).InferenceClient('x')
    .endpoint(url).chatCompletion({ model: 'm', messages }),
  '@line/bot-sdk': async () => new (await import('@line/bot-sdk')).messagingApi.MessagingApiClient(
    { channelAccessToken: 'x', baseURL: url }).getBotInfo(),
  '@linear/sdk': async () => new (await import('@linear/sdk')).LinearClient({ apiKey: 'x', apiUrl: url }).viewer,
  '@mistralai/mistralai': async () => new (await import('@mistralai/mistralai')).Mistral(
    { apiKey: 'x', serverURL: url }).chat.complete({ model: 'm', messages }),
  '@notionhq/client': async () => new (await import('@notionhq/client')).Client(
    { auth: 'x', baseUrl: url, logLevel: 'error' }).users.me({}),
  '@octokit/plugin-retry': async () => {
    const { Octokit } = await import('@octokit/core')
    const { retry } = await import('@octokit/plugin-retry')
    return new (Octokit.plugin(retry))({ baseUrl: url }).request('GET /user')
  },
  '@octokit/plugin-throttling': async () => {
    const { Octokit } = await import('@octokit/core')
    const { throttling } = await import('@octokit/plugin-throttling')
    const again = (after, options, octokit, count) => count < 3
    return new (Octokit.plugin(throttling))({ baseUrl: url, throttle:
      { onRateLimit: again, onSecondaryRateLimit: again } }).request('GET /user')
  },
  '@octokit/request': async () => (await import('@octokit/request')).request('GET /user', { baseUrl: url }),
  '@sendgrid/mail': async () => {
    const mail = await load('@sendgrid/mail')
    mail.setApiKey('SG.x')
    mail.client.setDefaultRequest('baseUrl', url + '/')
    return mail.send({ to: 'a@example.com', from: 'b@example.com', subject: 's', text: 't' })
  },
  '@shopify/admin-api-client': async () => {
    const http = await import('node:http')
    const through = (u, options) => fetch(url + new URL(u).pathname, options)
    const { createAdminApiClient } = await import('@shopify/admin-api-client')
    return createAdminApiClient({ storeDomain: 'shop.myshopify.com', apiVersion: '2026-10', accessToken: 'x',
      retries: 3, customFetchApi: through }).request('{ shop { name } }')
  },
  '@slack/web-api': async () => new (await import('@slack/web-api')).WebClient('x', { slackApiUrl: url + '/',
    logLevel: 'error' }).chat.postMessage({ channel: 'c', text: 't' }),
  '@slack/webhook': async () => new (await import('@slack/webhook')).IncomingWebhook(url).send('t'),
  '@supabase/supabase-js': async () => (await import('@supabase/supabase-js')).createClient(url, 'x')
    .from('t').select(),
  ai: async () => {
    const { createOpenAI } = await import('@ai-sdk/openai')
    return (await import('ai')).generateText({ model: createOpenAI({ baseURL: url, apiKey: 'x' })('m'), prompt: 'hi' })
  },
  airtable: async () => new (await load('airtable'))({ apiKey: 'x', endpointUrl: url }).base('b')('t').find('r'),
  algoliasearch: async () => (await import('algoliasearch')).algoliasearch('x', 'x', { hosts:
    [{ url: `127.0.0.1:${port}`, accept: 'readWrite', protocol: 'http' }] }).getSettings({ indexName: 'i' }),
  'cohere-ai': async () => new (await import('cohere-ai')).CohereClient({ token: 'x', environment: url })
    .chat({ message: 'hi' }),
  contentful: async () => (await import('contentful')).createClient({ space: 's', accessToken: 'x', insecure: true,
    host: `127.0.0.1:${port}` }).getEntries(),
  'graphql-request': async () => new (await import('graphql-request')).GraphQLClient(url).request('{ a }'),
  'groq-sdk': async () => new (await load('groq-sdk'))({ apiKey: 'x', baseURL: url })
    .chat.completions.create({ model: 'm', messages }),
  openai: async () => new (await load('openai'))({ apiKey: 'x', baseURL: url })
    .chat.completions.create({ model: 'm', messages }),
  replicate: async () => new (await load('replicate'))({ auth: 'x', baseUrl: url }).models.get('a', 'b'),
  resend: async () => new (await import('resend')).Resend('x', { baseUrl: url }).domains.list(),
  stripe: async () => new (await load('stripe'))('sk_test_1', { host: '127.0.0.1', port, protocol: 'http' })
    .charges.create({ amount: 1, currency: 'eur', source: 'tok_visa' }),
  telegraf: async () => new (await import('telegraf')).Telegram('1:x', { apiRoot: url }).sendMessage(1, 't'),
  grammy: async () => new (await import('grammy')).Api('1:x', { apiRoot: url }).sendMessage(1, 't'),
  'grammy auto-retry': async () => {
    const api = new (await import('grammy')).Api('1:x', { apiRoot: url })
    api.config.use((await import('@grammyjs/auto-retry')).autoRetry())
    return api.sendMessage(1, 't')
  },
  'node-telegram-bot-api': async () => {
    const { Api } = await import('node-telegram-bot-api')
    return new Api('1:x', { apiRoot: url }).sendMessage({ chat_id: 1, text: 't' })
  },
  '@discordjs/rest': async () => new (await import('@discordjs/rest')).REST({ api: url, version: '10' })
    .setToken('x').post('/channels/1/messages', { body: { content: 't' } }),
  twilio: async () => {
    const twilio = await load('twilio')
    const http = new twilio.RequestClient()
    const request = http.request.bind(http)
    http.request = (o) => request({ ...o, uri: url + new URL(o.uri).pathname })
    return twilio('ACx', 'x', { httpClient: http }).messages.create({ to: '+1', from: '+2', body: 't' })
  },
}
const message = (e) => String(e.message ?? e.description ?? e).replace(/http:\S+/g, 'URL').slice(0, 110)
const status = (e) => e.status ?? e.statusCode ?? e.response?.status ?? e.meta?.statusCode ??
  e.$metadata?.httpStatusCode ?? e.code ?? ''
await clients[process.argv[2]]().then(
  (r) => console.log('saw', typeof r === 'string' ? r : 'success: ' + JSON.stringify(r)),
  (e) => console.log('saw', e?.constructor?.name ?? typeof e, status(e), JSON.stringify(message(e))))
process.exit()
J
ask_pins JavaScript node client.mjs <<<"$pins"

# Answers in the forms that some of these APIs have themselves.
api() {
	local cases=429,bare
	if [ "$1" = discord ]; then cases=429; fi # New refuses MaxRetryAfter beside Discord
	ANSWER=$1 CASES=$cases ask JavaScript "$2" "$(awk -v n="$2" '$1 == n { print $2 }' <<<"$pins")" node client.mjs "$2"
}
api bots @notionhq/client
api bots telegraf
api bots grammy
ANSWER=bots ask JavaScript 'grammy auto-retry' 2.0.2 node client.mjs 'grammy auto-retry'
api bots node-telegram-bot-api
api discord @discordjs/rest
api hubspot @hubspot/api-client
api 'no field' @shopify/admin-api-client
api 'no field' @slack/web-api
api github @octokit/plugin-throttling
api 'github bots' @octokit/plugin-throttling
api 'stripe retry' stripe
api openai openai
api anthropic @anthropic-ai/sdk
