#!/usr/bin/env bash
# Litestar 2.25.0 (2026-11-29), a rate limit of its own on each of two routes.
# Guess: each route counts for itself, as each has a middleware with numbers of its own.
# Seen: both write one entry for a client. Three searches, of a hundred an hour, use up the
# three log-ins a minute: the first log-in is denied. Its fields tell a window of 60 seconds
# and a reset in 3600, since the route that came first has set the end of the window.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q install litestar==2.25.0 httpx==0.28.1
cat >"$dir/app.py" <<'P'
import logging
from litestar import Litestar, get, post
from litestar.middleware.rate_limit import RateLimitConfig
from litestar.testing import TestClient

logging.disable(logging.CRITICAL)

@get("/search", sync_to_thread=False, middleware=[RateLimitConfig(("hour", 100)).middleware])
def search() -> str: return ""

@post("/login", sync_to_thread=False, middleware=[RateLimitConfig(("minute", 3)).middleware])
def login() -> str: return ""

def fields(answer):
    return {k: v for k, v in answer.headers.items() if k.startswith("ratelimit-")}

with TestClient(Litestar([search, login])) as client:
    for _ in range(3):
        answer = client.get("/search")
        print("search", answer.status_code, fields(answer))
        assert answer.status_code == 200
    answer = client.post("/login")
print("login ", answer.status_code, fields(answer))
assert answer.status_code == 429
assert answer.headers["ratelimit-policy"] == "3; w=60"
assert int(answer.headers["ratelimit-reset"]) > 3500
P
"$dir/venv/bin/python" "$dir/app.py"
