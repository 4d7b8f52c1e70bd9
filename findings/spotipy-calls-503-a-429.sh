#!/usr/bin/env bash
# spotipy 2.26.0 (2026-11-29) before a service that answers 503 until its four requests are over.
# Guess: SpotifyException with http_status 503.
# Seen: http_status is 429, whatever status the last answer had: the exception for retries that are
# used up has the number written in. A program that waits on 429 and alarms on 503 does the wrong one.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check spotipy==2.26.0
cat >denied.py <<'P'
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import spotipy

requests = 0


class Full(BaseHTTPRequestHandler):
    def do_GET(self):
        global requests
        requests += 1
        self.send_response(503)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


logging.disable(logging.CRITICAL)
server = ThreadingHTTPServer(("127.0.0.1", 0), Full)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = spotipy.Spotify(auth="x")
client.prefix = f"http://127.0.0.1:{server.server_port}/"
try:
    client.artist("0OdUWJ0sBjDrqHygGUXeCF")
    said = "success"
except spotipy.SpotifyException as e:
    said = f"http_status {e.http_status}"
print("spotipy:", requests, "answers of 503 ->", said)
assert said == "http_status 429" and requests == 4, (said, requests)
P
venv/bin/python denied.py
