#!/usr/bin/env bash
# slowapi 0.1.10 (2026-11-28), a limiter for FastAPI and Starlette, with headers_enabled.
# Guess: Retry-After stands on the 429 alone, and the reset is a whole number of seconds.
# Seen: every allowed 200 has Retry-After, too, with the whole window, even the first of
# many that are left. X-RateLimit-Reset is a Unix time with six decimals. A client that
# obeys Retry-After on any answer sends one request a window.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q install slowapi==0.1.10 limits==5.8.0 fastapi==0.165.0 httpx==0.28.1
cat >"$dir/app.py" <<'P'
import re, warnings
warnings.simplefilter("ignore")
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient
from slowapi import Limiter
from slowapi.util import get_remote_address

limiter = Limiter(key_func=get_remote_address, headers_enabled=True)
app = FastAPI()
app.state.limiter = limiter

@app.get("/")
@limiter.limit("100/minute")
def answer(request: Request, response: Response):
    return {}

first = TestClient(app).get("/")
print(first.status_code, {k: v for k, v in first.headers.items() if "rate" in k or "retry" in k})
assert first.status_code == 200 and first.headers["x-ratelimit-remaining"] == "99"
assert first.headers["retry-after"] in ("59", "60")
assert re.fullmatch(r"\d{10}\.\d+", first.headers["x-ratelimit-reset"])
P
"$dir/venv/bin/python" "$dir/app.py"
