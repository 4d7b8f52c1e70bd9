#!/usr/bin/env bash
# fastapi-limiter 0.2.0 with pyrate-limiter 4.5.1 (2026-11-29), as its README configures it.
# Guess: two requests a minute for each client, since the identifier is the client's address.
# Seen: two a minute for all clients together. The identifier becomes the name of an item, and
# a Limiter made from a Rate keeps all items in one bucket, whatever their names: the first
# client uses the minute up, and the second one is denied at its first request. (0.1.x counted
# each client by Redis.)
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q install fastapi-limiter==0.2.0 pyrate-limiter==4.5.1 fastapi==0.165.0 \
  httpx==0.28.1
cat >"$dir/app.py" <<'P'
import warnings
warnings.simplefilter("ignore")
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from fastapi_limiter.depends import RateLimiter
from pyrate_limiter import Duration, Limiter, Rate

app = FastAPI()
limited = Depends(RateLimiter(limiter=Limiter(Rate(2, Duration.MINUTE))))

@app.get("/", dependencies=[limited])
async def index(): return {}

seen = {}
for address in "192.0.2.1", "192.0.2.2":
    client = TestClient(app, client=(address, 1024))
    seen[address] = [client.get("/").status_code for _ in range(3)]
print(seen)
assert seen == {"192.0.2.1": [200, 200, 429], "192.0.2.2": [429, 429, 429]}
P
"$dir/venv/bin/python" "$dir/app.py"
