#!/usr/bin/env bash
# tweepy 4.17.0 (2026-11-29) with wait_on_rate_limit=True, after a 429 with Retry-After: 2 and no
# x-rate-limit-reset, as a limiter or a proxy in between answers.
# Guess: it waits for Retry-After, or fails since it lacks its own field.
# Seen: a missing field is the time 0, so there is nothing to wait for. It asks again at once, by
# calling itself, until Python's stack is full: hundreds of requests and a RecursionError.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check tweepy==4.17.0
cat >denied.py <<'P'
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import tweepy

requests = 0


class Denier(BaseHTTPRequestHandler):
    def do_GET(self):
        global requests
        requests += 1
        self.send_response(429)
        self.send_header("Retry-After", "2")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


logging.disable(logging.CRITICAL)
server = ThreadingHTTPServer(("127.0.0.1", 0), Denier)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = tweepy.Client("x", wait_on_rate_limit=True)
through = client.session.request
client.session.request = lambda method, url, **k: through(method, f"http://127.0.0.1:{server.server_port}/", **k)
try:
    client.get_user(username="u")
    said = "success"
except BaseException as e:
    said = type(e).__name__
print("tweepy:", requests, "requests ->", said)
assert said == "RecursionError" and requests > 200, said
P
venv/bin/python denied.py
