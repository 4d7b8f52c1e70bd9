#!/usr/bin/env bash
# grpc-web 2.1.1 and @connectrpc/connect-web 2.3.0 (2026-11-29): a call of gRPC-Web is answered 429, with
# grpc-status: 8, grpc-message: slow%20down and Retry-After: 3 in its header, as a proxy or limiter in
# front of the service may do.
# Guess: both see RESOURCE_EXHAUSTED and the text, since the code of gRPC is there.
# Seen: each reads half. grpc-web takes the code, and its text is "Http response at 400 or 500 level";
# connect-web takes the text, and calls it Unavailable, its translation of 429, so that retries of
# what is unavailable repeat it at once.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit grpc-web@2.1.1 xhr2@0.2.1 @connectrpc/connect@2.3.0 \
	@connectrpc/connect-web@2.3.0 @bufbuild/protobuf@2.17.0
cat >denied.mjs <<'J'
import assert from 'node:assert'
import http from 'node:http'
import { createRequire } from 'node:module'
import { Code, ConnectError } from '@connectrpc/connect'
import { createGrpcWebTransport } from '@connectrpc/connect-web'
import { EmptySchema } from '@bufbuild/protobuf/wkt'

const require = createRequire(import.meta.url)
global.XMLHttpRequest = require('xhr2')
const { GrpcWebClientBase, MethodDescriptor, StatusCode } = require('grpc-web')

const server = http.createServer((request, response) => {
  response.writeHead(429, {
    'Content-Type': 'application/grpc-web+proto', 'Grpc-Status': '8', 'Grpc-Message': 'slow%20down', 'Retry-After': '3',
  })
  response.end()
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${server.address().port}`

class Empty {
  static deserializeBinary() { return new Empty() }
  serializeBinary() { return new Uint8Array(0) }
}
const method = new MethodDescriptor('/a.v1.A/Get', 'unary', Empty, Empty, (m) => m.serializeBinary(), Empty.deserializeBinary)
const web = await new Promise((resolve) => {
  new GrpcWebClientBase({ format: 'binary' }).rpcCall(url + '/a.v1.A/Get', new Empty(), {}, method, resolve)
})
console.log('grpc-web:', web.code, JSON.stringify(web.message))

const unary = {
  kind: 'rpc', name: 'Get', localName: 'get', parent: { typeName: 'a.v1.A' }, idempotency: 0, methodKind: 'unary',
  input: EmptySchema, output: EmptySchema,
}
const connect = await createGrpcWebTransport({ baseUrl: url }).unary(unary, undefined, 5000, {}, {})
  .then(() => assert.fail('it succeeded'), (e) => ConnectError.from(e))
console.log('connect-web:', Code[connect.code], JSON.stringify(connect.rawMessage))

assert.equal(web.code, StatusCode.RESOURCE_EXHAUSTED)
assert.ok(!String(web.message).includes('slow'))
assert.equal(connect.code, Code.Unavailable)
assert.equal(connect.rawMessage, 'slow down')
process.exit()
J
node denied.mjs
