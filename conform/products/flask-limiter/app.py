"""Serves a page of Flask behind limits, by Flask-Limiter. It counts in Redis if STORE is set."""

import os

from flask import Flask, request
from flask_limiter import Limiter

app = Flask(__name__)
limiter = Limiter(
    lambda: request.headers.get("X-API-Key") or "no key",
    app=app,
    default_limits=["10 per 2 seconds"],
    strategy="moving-window",
    headers_enabled=True,
    storage_uri=os.environ.get("STORE") or "memory://",
    in_memory_fallback_enabled=True,
)


@app.route("/")
def page():
    return "Hello.\n"
