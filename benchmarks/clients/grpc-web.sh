#!/usr/bin/env bash
# What clients of gRPC-Web and of Connect, as browsers run them, see of a denial: of a limiter of
# nethttp around a mux of Connect, of the same with a Denied by connect.ErrorWriter as in
# examples/connect, and of connectmw. It needs go and npm, and installs pinned packages into a
# temporary folder. The limit is one call in 3 s: the first call uses it, and the second has a
# deadline of 10 s. Neither client repeats calls by itself.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

mkdir server
cat >server/main.go <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-go/weir/connectmw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

var limit = limits.SlidingLog(limits.Per(1, 3*time.Second))

func get(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
	return connect.NewResponse(&emptypb.Empty{}), nil
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	const method = "/denied.v1.Denied/Get"
	handler := http.Handler(connect.NewUnaryHandler(method, get))
	if os.Args[1] == "connectmw" {
		handler = connect.NewUnaryHandler(method, get, connect.WithInterceptors(connectmw.MustNew(connectmw.Config{
			Rules: []connectmw.Rule{{Name: "all", Limit: limit, Key: keyfuncs.Constant[*connectmw.Call]("all")}},
		}).Interceptor()))
	} else {
		config := nethttp.Config{Rules: []nethttp.Rule{{Name: "all", Limit: limit, Key: keyfuncs.Constant[*http.Request]("all")}}}
		if os.Args[1] == "ErrorWriter" {
			config.Denied = func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
				connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeResourceExhausted, errors.New("retry later")))
			}
		}
		handler = nethttp.MustNew(config).Handler(handler)
	}
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(os.Stderr, "request")
		handler.ServeHTTP(w, r)
	})))
}
GO
(
	cd server
	go mod init example.com/server
	go mod edit -require=github.com/weir-go/weir@v0.0.0 -replace=github.com/weir-go/weir="$root" \
		-require=github.com/weir-go/weir/connectmw@v0.0.0 -replace=github.com/weir-go/weir/connectmw="$root/connectmw"
	go mod tidy
	go build -o server .
) >build.log 2>&1 || { cat build.log; exit 1; }

npm init -y >npm.log
npm install --silent grpc-web@2.1.1 xhr2@0.2.1 @connectrpc/connect@2.3.0 @connectrpc/connect-web@2.3.0 \
	@bufbuild/protobuf@2.17.0 >npm.log
cat >one.mjs <<'JS'
import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
const [, , kind, address] = process.argv;
const url = 'http://' + address;
const show = (begun, said) => console.log(`  ${said} after ${((Date.now() - begun) / 1000).toFixed(1)} s`);

async function connectWeb(make) {
  const { EmptySchema } = await import('@bufbuild/protobuf/wkt');
  const transport = make({ baseUrl: url });
  const method = { kind: 'rpc', name: 'Get', localName: 'get', parent: { typeName: 'denied.v1.Denied' }, idempotency: 0,
    methodKind: 'unary', input: EmptySchema, output: EmptySchema };
  const { Code, ConnectError } = await import('@connectrpc/connect');
  for (let i = 0; i < 2; i++) {
    const begun = Date.now();
    try {
      await transport.unary(method, undefined, 10000, {}, {});
      show(begun, 'OK');
    } catch (e) {
      const c = ConnectError.from(e);
      show(begun, `${Code[c.code]} '${c.rawMessage.slice(0, 70)}', retry-after ${c.metadata.get('retry-after')}`);
    }
  }
}

async function grpcWeb() {
  global.XMLHttpRequest = require('xhr2');
  const { GrpcWebClientBase, MethodDescriptor, StatusCode } = require('grpc-web');
  class Empty {
    static deserializeBinary() { return new Empty(); }
    serializeBinary() { return new Uint8Array(0); }
  }
  const client = new GrpcWebClientBase({ format: 'binary' });
  const method = new MethodDescriptor('/denied.v1.Denied/Get', 'unary', Empty, Empty, (m) => m.serializeBinary(),
    Empty.deserializeBinary);
  const name = (code) => Object.keys(StatusCode).find((k) => StatusCode[k] === code) ?? code;
  for (let i = 0; i < 2; i++) {
    const begun = Date.now();
    await new Promise((resolve) => {
      client.rpcCall(url + '/denied.v1.Denied/Get', new Empty(), { deadline: String(begun + 10000) }, method, (e) => {
        show(begun, e ? `${name(e.code)} '${String(e.message).slice(0, 70)}', retry-after ${e.metadata?.['retry-after'] ?? null}` : 'OK');
        resolve();
      });
    });
  }
}

const web = await import('@connectrpc/connect-web');
await ({
  'grpc-web': grpcWeb,
  'connect-web, gRPC-Web': () => connectWeb(web.createGrpcWebTransport),
  'connect-web, Connect': () => connectWeb(web.createConnectTransport),
})[kind]();
process.exit(0);
JS

ask() { # NAME RELEASE
	local answer address
	for answer in nethttp ErrorWriter connectmw; do
		coproc server/server $answer 2>requests.log
		server=$!
		read -r address <&"${COPROC[0]}"
		echo "$1 $2, $answer:"
		timeout 60 node one.mjs "$1" "$address" 2>client.log || tail -3 client.log
		echo "  requests: $(grep -c request requests.log)"
		kill $server
		wait $server 2>/dev/null || true
	done
}
ask grpc-web 2.1.1
ask 'connect-web, gRPC-Web' 2.3.0
ask 'connect-web, Connect' 2.3.0
