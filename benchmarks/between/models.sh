#!/usr/bin/env bash
# What gateways of language models make of weir's denials, behind them and before them: a limited user
# and an innocent one ask through each. It needs go, python3 and npm, and takes half an hour. With
# words as arguments it runs the gateways alone whose names begin so, such as LiteLLM.
set -euo pipefail
for program in go python3 npm; do
	command -v "$program" >/dev/null || { echo "models.sh: $program is missing, so nothing was run" >&2; exit 0; }
done
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$here" && go build -o "$work/models" ./models)
cd "$work"
names=" $* "
# wanted NAME... reports whether one of them is to be run.
wanted() {
	local name
	for name; do
		[[ "$names" == "  " || "$names" == *" $name "* ]] && return 0
	done
	return 1
}

litellm=1.110.2 langchain=1.5.2 langchain_openai=1.7.4 pydantic_ai=2.68.0
portkey=1.15.2 ai_fallback=3.0.0 ai_retry=2.4.0 ai=7.0.173 ai_openai=4.0.118

if wanted LiteLLM LangChain pydantic-ai; then
	python3 -m venv venv
	# The extra "proxy" of litellm asks for a package that PyPI does not have.
	venv/bin/pip install -q --disable-pip-version-check litellm=="$litellm" langchain=="$langchain" \
		langchain-openai=="$langchain_openai" pydantic-ai-slim[openai]=="$pydantic_ai" \
		uvicorn==0.51.0 fastapi==0.165.0 backoff==2.2.1 PyYAML==6.0.4 orjson==3.13.0 APScheduler==3.11.3 \
		fastapi-sso==0.23.0 PyJWT==2.15.1 python-multipart==0.0.34 cryptography==50.0.2 websockets==17.4 \
		mcp==2.3.0 httpx2==2.16.2 rich==15.0.0 uvloop==0.23.0 gunicorn==27.0.1 granian==2.8.9 hiredis==3.5.0 \
		RestrictedPython==9.0 boto3==1.44.8 redis==8.1.0 semver==3.1.2 Expression==5.8.0 soundfile==0.14.0 >&2
fi
if wanted Portkey ai-fallback ai-retry; then
	npm init -y >/dev/null
	npm install --silent --no-fund --no-audit node@24.21.0 >&2
	export PATH=$work/node_modules/.bin:$PATH
	npm install --silent --no-fund --no-audit @portkey-ai/gateway@"$portkey" ai-fallback@"$ai_fallback" \
		ai-retry@"$ai_retry" ai@"$ai" @ai-sdk/openai@"$ai_openai" >&2
fi

# row GATEWAY SETTING OPTION... -- COMMAND... prints a row.
row() {
	local gateway=$1 setting=$2
	shift 2
	wanted "${gateway%% *}" || return 0
	for _ in 1 2; do # another program may have taken the port
		./models -gateway "$gateway" -setting "$setting" "$@" && return
	done
	tail -n 20 gateway.log >&2
}

export HOME=$work # where they keep files
./models -head

# LiteLLM passes the member user on to models that it knows, and to those whose allowed_openai_params
# have it.
export LITELLM_LOCAL_MODEL_COST_MAP=True
# both [LINE...] writes a configuration of two deployments of one model.
both() {
	cat <<-'Y'
		model_list:
		  - {model_name: m, litellm_params: {model: openai/gpt-4o, api_base: "$A/v1", api_key: x}}
		  - {model_name: m, litellm_params: {model: openai/gpt-4o, api_base: "$B/v1", api_key: x}}
		general_settings: {master_key: sk-1, dangerously_permit_weak_or_unset_master_key: true}
	Y
	printf '%s\n' "$@"
}
proxy() {
	local setting=$1
	shift
	row "LiteLLM $litellm, proxy" "$setting" -config gateway.yaml "$@" -- \
		venv/bin/litellm --config '$CONFIG' --port '$PORT' --host 127.0.0.1
}
both >gateway.yaml
proxy 'as it comes' -told 8s
proxy 'as it comes' -told 24h
proxy '`MaxRetryAfter: time.Minute` in weir' -told 24h -max 1m
proxy '`DenyAs503: true` in weir' -told 24h -as503
both 'router_settings: {allowed_fails: 3}' >gateway.yaml
proxy '`allowed_fails: 3`, one denial' -told 24h
proxy '`allowed_fails: 3`, six denials' -told 24h -denials 6
both 'router_settings: {cooldown_time: 0}' >gateway.yaml
proxy '`cooldown_time: 0`' -told 24h
both 'router_settings: {disable_cooldowns: true}' >gateway.yaml
proxy '`disable_cooldowns: true`' -told 8s
proxy '`disable_cooldowns: true`, six denials' -told 24h -denials 6
sed -i 's|gpt-4o|mine|; s|api_key: x|api_key: x, allowed_openai_params: ["user"]|' gateway.yaml
proxy '`disable_cooldowns: true`, a model of your own' -told 24h
both 'router_settings: {disable_cooldowns: true, num_retries: 0}' >gateway.yaml
proxy '`disable_cooldowns: true`, `num_retries: 0`' -told 24h
both | sed '/[$]B/d' >gateway.yaml
proxy 'one deployment' -told 24h
both >gateway.yaml
proxy 'weir before it' -told 24h -before

# Libraries stand in a server that shares them among its users.
cat >server.py <<'P'
import asyncio, json, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

kind = sys.argv[1]
urls = [os.environ[name] + "/v1" for name in "AB"]
if kind.startswith("router"):
    from litellm import Router
    router = Router(model_list=[{"model_name": "m", "litellm_params": {"model": "openai/gpt-4o", "api_base": u, "api_key": "x"}}
                                for u in urls], disable_cooldowns=kind == "router-without")

    def ask(user):
        return router.completion(model="m", max_tokens=100, user=user,
                                 messages=[{"role": "user", "content": "hi"}]).choices[0].message.content
elif kind.startswith("langchain"):
    from langchain_openai import ChatOpenAI
    retries = {"max_retries": 0} if kind.endswith("without") else {}
    first, second = (ChatOpenAI(model="m", api_key="x", base_url=u, max_tokens=100, **retries) for u in urls)
    chain = first.with_fallbacks([second])

    def ask(user):
        return chain.invoke("hi", user=user).content
else:
    from pydantic_ai import Agent
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    model = FallbackModel(*[OpenAIChatModel("m", provider=OpenAIProvider(base_url=u, api_key="x")) for u in urls])

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    def ask(user):
        run = Agent(model).run("hi", model_settings={"openai_user": user, "max_tokens": 100})
        return asyncio.run_coroutine_threadsafe(run, loop).result().output


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fields, status = {}, 200
        try:
            said = {"choices": [{"message": {"content": ask(call["user"])}}]}
        except Exception as e:
            status = getattr(e, "status_code", None) or 500
            response = getattr(e, "response", None)
            fields = dict(response.headers) if response is not None else {}
            said = {"error": {"message": f"{type(e).__name__}: {e}"}}
        body = json.dumps(said).encode()
        self.send_response(status)
        for name in ("retry-after", "ratelimit"):
            if name in fields:
                self.send_header(name, fields[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
P
row "LiteLLM $litellm, Router" 'as it comes' -told 8s -- venv/bin/python server.py router
row "LiteLLM $litellm, Router" '`disable_cooldowns=True`' -told 8s -- venv/bin/python server.py router-without
row "LangChain $langchain, with_fallbacks" 'a second model' -second -told 8s -- venv/bin/python server.py langchain
row "LangChain $langchain, with_fallbacks" 'a second model' -second -told 24h -- venv/bin/python server.py langchain
row "LangChain $langchain, with_fallbacks" 'a second model, `max_retries=0`' -second -told 8s -- venv/bin/python server.py langchain-without
row "pydantic-ai $pydantic_ai, FallbackModel" 'a second model' -second -told 8s -- venv/bin/python server.py pydantic
row "pydantic-ai $pydantic_ai, FallbackModel" 'a second model' -second -told 24h -- venv/bin/python server.py pydantic

# Portkey takes its configuration with each request.
gateway() {
	local setting=$1 config=$2
	shift 2
	row "Portkey $portkey" "$setting" -header "x-portkey-config: $config" "$@" -- \
		node node_modules/@portkey-ai/gateway/build/start-server.js --headless '--port=$PORT'
}
a='"provider":"openai","api_key":"x","custom_host":"$A/v1"' b='"provider":"openai","api_key":"x","custom_host":"$B/v1"'
again='"retry":{"attempts":3,"on_status_codes":[429]'
gateway 'as it comes' "{$a}" -told 8s
gateway 'three retries' "{$a,$again}}" -told 8s
gateway 'three retries, `use_retry_after_header`' "{$a,$again,\"use_retry_after_header\":true}}" -told 8s
gateway 'three retries, `use_retry_after_header`' "{$a,$again,\"use_retry_after_header\":true}}" -told 24h
gateway 'a second model on 429' "{\"strategy\":{\"mode\":\"fallback\",\"on_status_codes\":[429]},\"targets\":[{$a},{$b}]}" -second -told 8s

cat >server.mjs <<'J'
import { createServer } from 'node:http'
import { generateText } from 'ai'
import { createOpenAI } from '@ai-sdk/openai'
import { createFallback } from 'ai-fallback'
import { createRetryableModel, httpStatus } from 'ai-retry/language-model'

const kind = process.argv[2]
const modelAt = (url, name) => createOpenAI({ baseURL: url + '/v1', apiKey: 'x' }).chat(name)
const first = modelAt(process.env.A, 'first'), second = modelAt(process.env.B, 'second')
const create = () => kind.startsWith('fallback')
  ? createFallback({ models: [first, second] })
  : createRetryableModel({ model: first, retries: [httpStatus(429).switch({ model: second })] })
const shared = create(), own = new Map()
const modelOf = (user) => {
  if (!kind.endsWith('own')) return shared
  if (!own.has(user)) own.set(user, create())
  return own.get(user)
}
createServer(async (request, response) => {
  let body = ''
  for await (const part of request) body += part
  const { user } = JSON.parse(body)
  let status = 200, said, fields = {}
  try {
    const { text } = await generateText({ model: modelOf(user), prompt: 'hi', maxOutputTokens: 100,
      maxRetries: kind.startsWith('retry') ? 0 : 2, providerOptions: { openai: { user } } })
    said = { choices: [{ message: { content: text } }] }
  } catch (e) {
    const last = e.lastError ?? e
    status = last.statusCode ?? 500
    fields = last.responseHeaders ?? {}
    said = { error: { message: String(e) } }
  }
  if (fields['retry-after']) response.setHeader('retry-after', fields['retry-after'])
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(said))
}).listen(Number(process.env.PORT), '127.0.0.1')
J
row "ai-fallback $ai_fallback" 'a second model' -second -told 8s -- node server.mjs fallback
row "ai-fallback $ai_fallback" 'a second model, an object by user' -second -told 8s -- node server.mjs fallback-own
row "ai-fallback $ai_fallback" 'two addresses of one model' -told 8s -- node server.mjs fallback
row "ai-retry $ai_retry" 'a second model on 429' -second -told 8s -- node server.mjs retry
