#!/usr/bin/env bash
# elasticsearch 9.5.1 for Python (2026-11-29) behind something that answers 429 with a problem
# document (RFC 9457).
# Guess: ApiError with the status 429, as for a body in JSON.
# Seen: SerializationError "Unknown mimetype, not able to serialize or deserialize:
# application/problem+json". The status is lost: a program cannot tell a denial from a broken
# server. The client of the same maker for Node has the status 429 in its error.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check elasticsearch==9.5.1
cat >denied.py <<'P'
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from elasticsearch import Elasticsearch


def ask(media_type):
    class Denier(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(429)
            self.send_header("X-Elastic-Product", "Elasticsearch")
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", "14")
            self.end_headers()
            self.wfile.write(b'{"status":429}')

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Denier)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        Elasticsearch(f"http://127.0.0.1:{server.server_port}").search(index="i", query={"match_all": {}})
        said = "success"
    except Exception as e:
        said = f"{type(e).__name__} {getattr(e, 'status_code', None)}"
    server.shutdown()
    print(media_type, "->", said)
    return said


assert ask("application/problem+json") == "SerializationError None"
assert ask("application/json") == "ApiError 429"
P
venv/bin/python denied.py
