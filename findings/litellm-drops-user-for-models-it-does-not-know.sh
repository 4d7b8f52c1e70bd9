#!/usr/bin/env bash
# LiteLLM 1.110.2 (2026-11-29) sends a chat completion with user, seed and temperature to an address
# that speaks OpenAI's protocol, for a model of its own list and for one of your own.
# Guess: both requests have all three members; what cannot be passed on raises
# UnsupportedParamsError, since drop_params is False.
# Seen: user is missing for the model that LiteLLM does not know, without an error or a warning; the
# others are there. A service that limits by user takes all users for one. With
# allowed_openai_params=["user"] it is sent.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check litellm==1.110.2 openai==3.57.0
cat >user.py <<'P'
import http.server, json, os, threading

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        calls.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = json.dumps({
            "id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


calls = []
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def sent(model, **options):
    """Returns which of the three members a request has."""
    calls.clear()
    litellm.completion(
        model=model, api_key="x", api_base=f"http://127.0.0.1:{server.server_port}/v1",
        user="u", seed=1, temperature=0.5, messages=[{"role": "user", "content": "hi"}], **options)
    members = [name for name in ("user", "seed", "temperature") if name in calls[0]]
    print(model, options, "->", members)
    return members


assert litellm.drop_params is False
assert sent("openai/gpt-4o") == ["user", "seed", "temperature"]
assert sent("openai/mine") == ["seed", "temperature"]
assert sent("openai/mine", allowed_openai_params=["user"]) == ["user", "seed", "temperature"]
P
venv/bin/python user.py
