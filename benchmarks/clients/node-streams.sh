#!/usr/bin/env bash
# Clients of npm that open streams: events of a server, sockets, subscriptions, MCP.
source "$(dirname "$0")/lib.sh"
pins='
@microsoft/fetch-event-source 2.0.1
@microsoft/signalr 10.0.11
@modelcontextprotocol/sdk 1.32.2
eventsource 5.1.5
eventsource-client 1.2.0
graphql-sse 2.6.1
graphql-ws 6.4.2
reconnecting-websocket 4.4.0
ws 8.23.0
'
node_with $(awk 'NF { print $1 "@" $2 }' <<<"$pins")
cat >client.mjs <<'J'
const url = process.env.URL + '/events', socket = url.replace('http', 'ws')
const failed = (e) => `${e?.constructor?.name} ${e?.code ?? e?.status ?? ''} ${JSON.stringify(String(e?.message ?? e).slice(0, 100))}`
const clients = {
  '@microsoft/fetch-event-source': async () => {
    globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} }
    globalThis.window = globalThis
    const { fetchEventSource } = await import('@microsoft/fetch-event-source')
    return fetchEventSource(url, {})
  },
  '@microsoft/signalr': async () => {
    const { HubConnectionBuilder, LogLevel } = await import('@microsoft/signalr')
    return new HubConnectionBuilder().withUrl(url).withAutomaticReconnect().configureLogging(LogLevel.None).build().start()
  },
  '@modelcontextprotocol/sdk': async () => {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
    return new Client({ name: 'c', version: '1' }).connect(new StreamableHTTPClientTransport(new URL(url)))
  },
  eventsource: async () => {
    const { EventSource } = await import('eventsource')
    const source = new EventSource(url)
    return new Promise((resolve, reject) => {
      source.onerror = (e) => source.readyState === 2 && reject(e)
    })
  },
  'eventsource-client': async () => {
    const { createEventSource } = await import('eventsource-client')
    return new Promise((resolve, reject) => createEventSource({ url, onDisconnect: () => {} }))
  },
  'graphql-sse': async () => {
    const { createClient } = await import('graphql-sse')
    return new Promise((resolve, reject) => createClient({ url }).subscribe({ query: 'subscription { a }' },
      { next() {}, error: reject, complete: resolve }))
  },
  'graphql-ws': async () => {
    const { createClient } = await import('graphql-ws')
    const { WebSocket } = await import('ws')
    return new Promise((resolve, reject) => createClient({ url: socket, webSocketImpl: WebSocket })
      .subscribe({ query: 'subscription { a }' }, { next() {}, error: reject, complete: resolve }))
  },
  'reconnecting-websocket': async () => {
    const Socket = (await import('reconnecting-websocket')).default
    const { WebSocket } = await import('ws')
    new (Socket.default ?? Socket)(socket, [], { WebSocket })
    return new Promise((resolve) => setTimeout(resolve, 60_000))
  },
  ws: async () => {
    const { WebSocket } = await import('ws')
    return new Promise((resolve, reject) => new WebSocket(socket).on('error', reject).on('open', resolve))
  },
}
await clients[process.argv[2]]().then(
  (r) => console.log('saw', 'success', r ?? ''), (e) => console.log('saw', failed(e)))
process.exit()
J
ask_pins JavaScript node client.mjs <<<"$pins"
