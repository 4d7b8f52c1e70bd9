#!/usr/bin/env bash
# django-ninja 1.7.1 (2026-11-29), AnonRateThrottle("5/h") on one route and ("3/s") on another.
# Guess: the routes count together or apart; either way the first one passes no more than five
# an hour.
# Seen: both keep one list of instants for an address, and each drops what is older than its
# own period. Five searches use the hour up and deny the sixth. One log-in a second later
# drops all five, and four more searches are served. A log-in denied for searches has no
# Retry-After.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q install django-ninja==1.7.1 django==5.2.19
cat >"$dir/app.py" <<'P'
import logging, time
import django
from django.conf import settings

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x", CACHES={
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}})
django.setup()
logging.disable(logging.CRITICAL)

from django.test import Client
from django.urls import path
from ninja import NinjaAPI
from ninja.throttling import AnonRateThrottle

api = NinjaAPI()

@api.get("/search", throttle=[AnonRateThrottle("5/h")])
def search(request): return {}

@api.get("/login", throttle=[AnonRateThrottle("3/s")])
def login(request): return {}

urlpatterns = [path("", api.urls)]
client = Client()

def searches():
    return [client.get("/search").status_code for _ in range(6)]

first = searches()
denied = client.get("/login")
time.sleep(1.1)
after = client.get("/login").status_code
second = searches()
print("search", first, "login", denied.status_code, denied.headers.get("Retry-After"))
print("a second later: login", after, "search", second)
assert first == [200] * 5 + [429]
assert denied.status_code == 429 and "Retry-After" not in denied.headers
assert after == 200 and second == [200] * 4 + [429] * 2
P
"$dir/venv/bin/python" "$dir/app.py"
