#!/usr/bin/env bash
# What clients of MCP see of a limiter of HTTP around a server: with its own answer, status 429, and
# with mcpmw.HTTPDenied, status 200. It needs go, python3 and npm, installs pinned packages into a
# temporary folder, and prints what each client saw of eight calls, of which some are denied.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

mkdir server
cat >server/main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/mcpmw"
	"github.com/weir-go/weir/nethttp"
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "v1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
		})
	client, limit := keyfuncs.Constant[*http.Request]("everybody"), limits.SlidingLog(limits.PerHour(9))
	config := nethttp.Config{Rules: []nethttp.Rule{{Name: "requests", Limit: limit, Key: client}}}
	if os.Args[1] == "200" {
		ends := nethttp.Rule{Name: "ends", Limit: limit, Key: core.When(mcpmw.EndsSession, client)}
		config.Rules[0].Key = core.Otherwise([]nethttp.Rule{ends}, client)
		config.Rules = append(config.Rules, ends)
		config.Denied = mcpmw.HTTPDenied
	}
	flood := nethttp.MustNew(config)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(os.Stderr, r.Method)
		flood.Handler(handler).ServeHTTP(w, r)
	})))
}
GO
(
	cd server
	go mod init example.com/server
	go mod edit -require=github.com/weir-go/weir@v0.0.0 -replace=github.com/weir-go/weir="$root" \
		-require=github.com/weir-go/weir/mcpmw@v0.0.0 -replace=github.com/weir-go/weir/mcpmw="$root/mcpmw" \
		-require=github.com/modelcontextprotocol/go-sdk@v1.8.0
	go mod tidy
	go build -o server .
) >build.log 2>&1 || { cat build.log; exit 1; }

cat >one.py <<'PY'
import asyncio, sys
from mcp import ClientSession
try:
    from mcp.client.streamable_http import streamable_http_client as connect
except ImportError:
    from mcp.client.streamable_http import streamablehttp_client as connect

async def calls(url):
    async with connect(url) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            for i in range(8):
                try:
                    result = await asyncio.wait_for(session.call_tool("echo", {}), 10)
                    print("  call", i + 1, result.content[0].text)
                except asyncio.CancelledError:
                    print("  call", i + 1, "CancelledError"); raise
                except Exception as e:
                    code = getattr(getattr(e, "error", None), "code", "")
                    print("  call", i + 1, type(e).__name__, code, e)
    print("  the session has ended as it should")

try:
    asyncio.run(asyncio.wait_for(calls(sys.argv[1]), 60))
except BaseException as e:
    print("  the session ends with", type(e).__name__)
PY
cat >one.mjs <<'JS'
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
const client = new Client({ name: 'c', version: '1' });
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
await client.connect(transport);
for (let i = 1; i <= 8; i++) {
  try {
    const result = await client.callTool({ name: 'echo', arguments: {} }, undefined, { timeout: 10000 });
    console.log('  call', i, result.content[0].text);
  } catch (e) {
    console.log('  call', i, e.constructor.name, e.code, e.message.replace(/\s+/g, ' ').slice(0, 200));
  }
}
try {
  await transport.terminateSession();
  console.log('  the session has ended as it should');
} catch (e) {
  console.log('  the session does not end:', e.message.slice(0, 100));
}
await client.close();
JS

ask() { # NAME COMMAND...
	for status in 429 200; do
		coproc server/server $status 2>requests.log
		servers+=($!)
		read -r url <&"${COPROC[0]}"
		echo "$1, denials with status $status:"
		timeout 90 "${@:2}" "$url" 2>client.log || tail -3 client.log
		echo "  requests: $(sort requests.log | uniq -c | xargs)"
		kill $!
		wait $! 2>/dev/null || true
	done
}

for release in 1.30.0 2.3.0; do
	python3 -m venv "py-$release"
	"py-$release/bin/pip" -q install --disable-pip-version-check "mcp==$release"
	ask "mcp $release for Python" "py-$release/bin/python" one.py
done
npm init -y >npm.log && npm install --silent @modelcontextprotocol/sdk@1.32.2 >npm.log
ask "@modelcontextprotocol/sdk 1.32.2" node one.mjs
