#!/usr/bin/env bash
# LiteLLM 1.110.2 (2026-11-29), a Router with two deployments of a model that answer one user 429
# and all others 200.
# Guess: cooldown_time=0 closes no deployment, so the others are served at once.
# Seen: 0 is read as "not set". One request of the limited user, which LiteLLM repeats at the other
# deployment, closes both for five seconds: all others get RouterRateLimitError and no deployment
# is asked. cooldown_time=1 closes them for one second. Retry-After of the 429 goes before both:
# an hour for one user is an hour for all. Only disable_cooldowns=True ends it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check litellm==1.110.2 openai==3.57.0
cat >cool.py <<'P'
import http.server, json, os, threading, time

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
from litellm.types.router import RouterRateLimitError

litellm.suppress_debug_info = True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, said = 200, {
            "id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        if call["user"] == "limited":
            status, said = 429, {"error": {"message": "slow down"}}
        body = json.dumps(said).encode()
        self.send_response(status)
        if status == 429 and told:
            self.send_header("Retry-After", told)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


urls = [serve(), serve()]


def refused(retry_after, most, **options):
    """Has one user limited, and returns the last refusal of another one, who asks for most seconds at most."""
    global told
    told = retry_after
    router = litellm.Router(model_list=[{"model_name": "m", "litellm_params": {
        "model": "openai/gpt-4o", "api_key": "x", "api_base": url}} for url in urls], **options)

    def ask(user):
        try:
            router.completion(model="m", user=user, messages=[{"role": "user", "content": "hi"}])
        except (litellm.RateLimitError, RouterRateLimitError) as e:
            return f"{type(e).__name__}: {e}"

    assert ask("limited")
    begun, last = time.monotonic(), None
    while time.monotonic() - begun < most and (said := ask("other")):
        last = said
        time.sleep(0.1)
    took = time.monotonic() - begun if last else 0
    print(f"Retry-After: {told}, {options}: others are refused for {took:.1f} s:", (last or "never")[:90], flush=True)
    return last


last = refused(None, 15, cooldown_time=0)
assert "Try again in 5 seconds" in last, last
last = refused(None, 15, cooldown_time=1)
assert last is None or "Try again in 1 seconds" in last, last  # none on a machine that is slow
last = refused("3600", 1, cooldown_time=0)
assert "Try again in 3600 seconds" in last, last
assert refused("3600", 1, disable_cooldowns=True) is None
P
venv/bin/python cool.py
