#!/usr/bin/env bash
# httpx 0.28.1 with h2 4.4.1 (2026-11-29), an upload over HTTP/2 to a server that answers 413 at
# once, ends its answer and takes nothing of the body, as a limiter or a size limit does.
# Guess: it stops sending and returns the answer, as it does over HTTP/1.1 and as curl and Node do.
# Seen: a body within the first window (65,535 bytes) gets the 413. With a larger one it waits for
# room to send, beside the whole answer, and raises ReadTimeout.
set -euo pipefail
dir=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check 'httpx[http2]==0.28.1' h2==4.4.1
cat >server.mjs <<'J'
import http2 from 'node:http2'
const server = http2.createServer()
server.on('stream', stream => {
  stream.on('error', () => {})
  stream.respond({ ':status': 413, 'content-length': '5' })
  stream.end('large')
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
J
node server.mjs >port &
server=$!
while ! [ -s port ]; do sleep 0.1; done
cat >upload.py <<'P'
import sys

import httpx

seen = []
for size in (60_000, 70_000, 1_000_000):
    with httpx.Client(http1=False, http2=True, timeout=3) as client:
        try:
            said = client.post(f"http://127.0.0.1:{sys.argv[1]}/", content=b"x" * size).status_code
        except httpx.HTTPError as e:
            said = type(e).__name__
    print("httpx:", size, "bytes ->", said)
    seen.append(said)
assert seen == [413, "ReadTimeout", "ReadTimeout"], seen
P
venv/bin/python upload.py "$(cat port)"
