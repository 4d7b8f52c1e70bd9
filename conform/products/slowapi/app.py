"""Serves a page of FastAPI behind slowapi, which counts in Redis if STORE is set."""

import os

from fastapi import FastAPI, Request, Response
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded

limiter = Limiter(
    key_func=lambda request: request.headers.get("x-api-key", ""),
    strategy="moving-window",
    headers_enabled=True,
    storage_uri=os.environ.get("STORE") or "memory://",
    in_memory_fallback_enabled=True,
)
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)


@app.api_route("/", methods=["GET", "HEAD", "OPTIONS"])
@limiter.limit("10 per 2 seconds")
async def page(request: Request, response: Response):
    return "Hello."
