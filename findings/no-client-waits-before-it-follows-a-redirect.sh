#!/usr/bin/env bash
# Clients that follow redirects by themselves, after a 302 with Retry-After: 2 (2026-11-29): requests 2.34.2, httpx
# 0.28.1 and aiohttp 3.14.5 of PyPI, got 16.1.0, axios 1.21.1 and undici 7.30.2 of npm.
# Guess: one or two wait. RFC 9110, section 10.2.3, says that with a redirect the field tells the least time before
# the redirected request.
# Seen: none waits, and none has a setting for it. urllib3, below requests, waits for the field after 413, 429 and 503.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q install requests==2.34.2 httpx==0.28.1 aiohttp==3.14.5
npm init -y >/dev/null
npm install --silent --no-fund --no-audit got@16.1.0 axios@1.21.1 undici@7.30.2
cat >serve.py <<'P'
import http.server, sys, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    at = {}
    def do_GET(self):
        client, path = self.path.lstrip("/").split("/")
        if path == "old":
            self.at[client] = time.monotonic()
            self.send_response(302)
            self.send_header("Location", f"/{client}/new")
            self.send_header("Retry-After", "2")
        else:
            waited = time.monotonic() - self.at[client]
            print(f"{client} followed after {waited:.3f} s", flush=True)
            self.send_response(200)
            if waited > 1.5:
                print("waited", flush=True)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
P
cat >ask.py <<'P'
import asyncio, sys
import aiohttp, httpx, requests

url = sys.argv[1]
assert requests.get(url + "/requests/old").status_code == 200
assert httpx.get(url + "/httpx/old", follow_redirects=True).status_code == 200

async def ask():
    async with aiohttp.ClientSession() as session:
        async with session.get(url + "/aiohttp/old") as answer:
            assert answer.status == 200

asyncio.run(ask())
P
cat >ask.mjs <<'J'
import axios from 'axios'
import got from 'got'
import { fetch } from 'undici'

const url = process.argv[2]
await got(url + '/got/old')
await axios.get(url + '/axios/old')
await (await fetch(url + '/undici/old')).text()
J
python3 serve.py >served &
server=$!
trap 'kill $server; rm -rf "$dir"' EXIT
until [ -s served ]; do sleep 0.1; done
url="http://127.0.0.1:$(head -n 1 served)"
venv/bin/python ask.py "$url"
node ask.mjs "$url"
cat served
[ "$(grep -c followed served)" = 6 ]
! grep -q waited served
