#!/usr/bin/env bash
# What caches and error pages make of weir's denials: of one program with a limiter, a limited client
# and an innocent one, with each cache between them, as it comes, with the line that spoils it and with
# the line that mends it. It needs go, and asks the programs of Debian, PyPI and npm that it finds. The
# arguments are names of programs, and then it asks these alone: caches.sh nginx varnish
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
chmod 755 "$work" # some programs have users of their own
running=""
end() {
	for pid in $running; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	running=""
}
trap 'end; exec 9>&-; rm -rf "$work"' EXIT
PATH=$PATH:/usr/sbin
names=" $* "
cd "$work"
(cd "$here/.." && go build -o "$work/caches" ./between/caches)
(cd "$here/../../cmd/weir" && go build -o "$work/weir" .)
mkfifo hold
./caches serve <hold >origin &
exec 9>hold
while [[ ! -s origin ]]; do sleep 0.05; done
read -r origin <origin
app=${origin#http://} app_port=${origin##*:}

# wanted NAME PROGRAM reports whether NAME is asked for and its program is there.
wanted() {
	[[ "$names" == "  " || "$names" == *" $1 "* ]] || return 1
	command -v "$2" >/dev/null || { echo "$1 is left out: there is no $2" >&2; return 1; }
}

# behind COMMAND... starts a program that listens on $port, in a folder of its own: $folder.
fresh() {
	folder=$(mktemp -d -p "$work")
	chmod 777 "$folder"
	port=$(./caches port)
}
behind() {
	(cd "$folder" && exec "$@" >said 2>&1 9>&-) &
	running+=" $!"
	for _ in $(seq 600); do
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
		kill -0 $! 2>/dev/null || break
		sleep 0.05
	done
	echo "$1 does not listen:" >&2
	cat "$folder/said" >&2
	return 1
}

# row NAME LINE asks what listens on $port, prints a row, and ends what runs.
row() {
	sleep 0.3 # Traefik reads its file, and Envoy starts its workers
	./caches ask "${ORIGIN:-$origin}" "http://127.0.0.1:$port" "$1" "$2"
	end
}

echo "| cache | its line | a denial | the next client of the page | fields on a hit, and of weir's NotOnStorable | a stale page and a limited client: 429, 503 | the innocent client after it |"
echo "|---|---|---|---|---|---|---|"

# nginx_row LINE IN_LOCATION [IN_SERVER]
nginx_row() {
	[[ -n "${ORIGIN:-}" ]] || fresh
	cat >"$folder/nginx.conf" <<CONF
daemon off; master_process off; pid nginx.pid; error_log stderr error;
events {}
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  proxy_cache_path cache keys_zone=pages:10m use_temp_path=off;
  server {
    listen 127.0.0.1:$port;
    location / {
      proxy_pass $origin;
      proxy_cache pages;
      $2
    }
    ${3:-}
  }
}
CONF
	behind nginx -p "$folder" -c nginx.conf
	row "nginx $(nginx -v 2>&1 | sed 's/.*\///')" "$1"
}
if wanted nginx nginx; then
	page='location = /sorry { internal; return 429 "Sorry.\n"; }'
	# nginx adds no field to an answer of return in error_page unless it says always
	kept='location @sorry {
      add_header Retry-After $upstream_http_retry_after always;
      add_header RateLimit $upstream_http_ratelimit always;
      add_header RateLimit-Policy $upstream_http_ratelimit_policy always;
      add_header Cache-Control no-store always;
      return 429 "Sorry.\n";
    }'
	nginx_row '`proxy_cache`' ''
	nginx_row '`error_page 429 /sorry`' 'proxy_intercept_errors on; error_page 429 /sorry;' "$page"
	nginx_row '`error_page 429 = @sorry`, with [four lines](../../docs/gateway.md#error-pages)' 'proxy_intercept_errors on; error_page 429 = @sorry;' "$kept"
	nginx_row '`proxy_cache_use_stale http_429 http_503`' 'proxy_cache_use_stale http_429 http_503;'
	nginx_row '`proxy_ignore_headers Cache-Control; proxy_cache_valid any 1m`' 'proxy_ignore_headers Cache-Control; proxy_cache_valid any 1m;'
	nginx_row '`proxy_ignore_headers Cache-Control; proxy_cache_valid 200 1m`' 'proxy_ignore_headers Cache-Control; proxy_cache_valid 200 1m;'
	nginx_row '`proxy_hide_header RateLimit` and `RateLimit-Policy`' 'proxy_hide_header RateLimit; proxy_hide_header RateLimit-Policy;'

	fresh
	asked=$(./caches port)
	cat >weir.yaml <<YAML
version: 1
paths: any-server
client: {peer: true}
rules: [{name: per-user, key: header X-User, limit: token-bucket 5/24h}]
YAML
	port=$asked behind "$work/weir" serve --denied-status 403 --check "127.0.0.1:$asked" --grpc "" --operator "" "$work/weir.yaml"
	ORIGIN=http://127.0.0.1:$port nginx_row '[`auth_request`](../../docs/gateway.md#a-cache-in-nginx), and these lines' '
      proxy_hide_header RateLimit; proxy_hide_header RateLimit-Policy;
      proxy_set_header X-User $request_id; # the program behind limits nothing here
      auth_request /weir-check;
      auth_request_set $weir_limit $upstream_http_ratelimit;
      auth_request_set $weir_policy $upstream_http_ratelimit_policy;
      auth_request_set $weir_retry $upstream_http_retry_after;
      add_header RateLimit $weir_limit always;
      add_header RateLimit-Policy $weir_policy always;
      error_page 403 = @denied;' "location @denied {
      add_header RateLimit \$weir_limit always;
      add_header RateLimit-Policy \$weir_policy always;
      add_header Retry-After \$weir_retry always;
      add_header Cache-Control no-store always;
      return 429;
    }
    location = /weir-check {
      internal;
      proxy_pass http://127.0.0.1:$asked/check;
      proxy_pass_request_body off;
      proxy_set_header Content-Length '';
      proxy_set_header X-Forwarded-Method \$request_method;
      proxy_set_header X-Forwarded-Host \$host;
      proxy_set_header X-Forwarded-Uri \$request_uri;
      proxy_set_header X-Forwarded-For \$remote_addr;
    }"
fi

# apache_row LINE LINES
apache_row() {
	fresh
	mkdir -m 777 "$folder/cache" "$folder/html"
	echo Sorry. >"$folder/html/sorry"
	chmod 644 "$folder/html/sorry"
	cat >"$folder/apache.conf" <<CONF
ServerRoot $folder
ServerName example.com
Listen 127.0.0.1:$port
PidFile $folder/pid
Mutex file:$folder
DefaultRuntimeDir $folder
User www-data
Group www-data
$(for m in mpm_event authz_core proxy proxy_http cache cache_disk headers setenvif; do echo "LoadModule ${m}_module /usr/lib/apache2/modules/mod_$m.so"; done)
ErrorLog /dev/stderr
DocumentRoot $folder/html
CacheRoot $folder/cache
CacheEnable disk /
ProxyPass /sorry !
ProxyPass / $origin/
$2
CONF
	behind apache2 -X -f "$folder/apache.conf"
	row "Apache $(apache2 -v | sed -n 's/.*Apache\/\([0-9.]*\).*/\1/p')" "$1"
}
if wanted apache apache2; then
	apache_row '`CacheEnable disk /`' ''
	apache_row '`ProxyErrorOverride On`' 'ProxyErrorOverride On'
	apache_row '`ProxyErrorOverride On`, `ErrorDocument 429 /sorry`' $'ProxyErrorOverride On\nErrorDocument 429 /sorry'
	apache_row '`ProxyErrorOverride On 404 500 502`' 'ProxyErrorOverride On 404 500 502'
	apache_row '`CacheStaleOnError off`' 'CacheStaleOnError off'
	apache_row '`CacheStoreNoStore On`, `CacheIgnoreCacheControl On`' $'CacheStoreNoStore On\nCacheIgnoreCacheControl On'
fi

# varnish_row LINE VCL
varnish_row() {
	fresh
	cat >"$folder/default.vcl" <<VCL
vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "$app_port"; }
$2
VCL
	chmod 644 "$folder/default.vcl"
	behind varnishd -F -j none -n "$folder" -a "127.0.0.1:$port" -T none -f "$folder/default.vcl" -s malloc,16m
	row "Varnish $(varnishd -V 2>&1 | sed -n 's/.*varnish-\([0-9.]*\).*/\1/p')" "$1"
}
if wanted varnish varnishd; then
	varnish_row 'as it comes' ''
	varnish_row '`set beresp.ttl = 60s`' 'sub vcl_backend_response { set beresp.ttl = 60s; return (deliver); }'
	varnish_row '`if (beresp.status == 200) { set beresp.ttl = 60s; }`' 'sub vcl_backend_response {
  if (beresp.status == 200) { set beresp.ttl = 60s; }
}'
	varnish_row '`if (bereq.is_bgfetch && beresp.status == 429) { return (abandon); }`' 'sub vcl_backend_response {
  if (bereq.is_bgfetch && (beresp.status == 429 || beresp.status == 503)) { return (abandon); }
}'
	varnish_row '`set beresp.grace = 0s`' 'sub vcl_backend_response { set beresp.grace = 0s; }'
fi

# squid_row LINE LINES
squid_row() {
	fresh
	cat >"$folder/squid.conf" <<CONF
http_port 127.0.0.1:$port accel defaultsite=example.com no-vhost
cache_peer 127.0.0.1 parent $app_port 0 no-query originserver
http_access allow all
access_log none
cache_log $folder/cache.log
pid_filename $folder/squid.pid
coredump_dir $folder
shutdown_lifetime 0 seconds
$2
CONF
	chmod 644 "$folder/squid.conf"
	behind squid -N -f "$folder/squid.conf"
	row "Squid $(squid -v | sed -n 's/.*Version \([0-9.]*\).*/\1/p')" "$1"
}
if wanted squid squid; then
	squid_row 'as it comes' ''
	squid_row '`refresh_pattern . 1 0% 1 ignore-no-store override-expire`' 'refresh_pattern . 1 0% 1 ignore-no-store override-expire'
fi

# traefik_row LINE MIDDLEWARES: the error pages are at $page
traefik_row() {
	fresh
	cat >"$folder/dynamic.yaml" <<YAML
http:
  middlewares:
    pages: {errors: $2}
  routers:
    app: {rule: PathPrefix(\`/\`), middlewares: [pages], service: app}
  services:
    app: {loadBalancer: {servers: [{url: "$origin"}]}}
    sorry: {loadBalancer: {servers: [{url: "http://127.0.0.1:$page"}]}}
YAML
	behind traefik "--entryPoints.web.address=127.0.0.1:$port" --providers.file.filename=dynamic.yaml \
		--global.checkNewVersion=false --global.sendAnonymousUsage=false --log.level=ERROR
	sleep 1 # it reads its file
	row "Traefik $(traefik version | sed -n 's/^Version: *//p')" "$1"
}
if wanted traefik traefik && command -v python3 >/dev/null; then
	sorry() {
		page=$(./caches port) port=$page folder=$(mktemp -d -p "$work")
		echo Sorry. >"$folder/sorry"
		behind python3 -m http.server --bind 127.0.0.1 "$page"
	}
	sorry
	traefik_row '`errors: {status: ["400-599"]}`' '{status: ["400-599"], service: sorry, query: /sorry}'
	sorry
	traefik_row '`errors: {status: ["400-428", "430-502", "504-599"]}`' '{status: ["400-428", "430-502", "504-599"], service: sorry, query: /sorry}'
fi

# caddy_row LINE IN_REVERSE_PROXY [IN_SITE]
caddy_row() {
	fresh
	cat >"$folder/Caddyfile" <<CADDY
{
	admin off
	auto_https off
}
http://127.0.0.1:$port {
	reverse_proxy $app {
		$2
	}
	${3:-}
}
CADDY
	HOME=$folder behind caddy run --adapter caddyfile --config "$folder/Caddyfile"
	row "Caddy $(caddy version | sed 's/^v//; s/ .*//')" "$1"
}
if wanted caddy caddy; then
	denied=$'@denied status 429 503\n\t\thandle_response @denied'
	caddy_row '`handle_errors`' '' $'handle_errors {\n\t\trespond "Sorry."\n\t}'
	caddy_row '`handle_response @denied { respond "Sorry." 429 }`' "$denied"$' {\n\t\t\trespond "Sorry." {rp.status_code}\n\t\t}'
	caddy_row 'the same after `copy_response_headers { include Retry-After RateLimit RateLimit-Policy Cache-Control }`' \
		"$denied"$' {\n\t\t\tcopy_response_headers {\n\t\t\t\tinclude Retry-After RateLimit RateLimit-Policy Cache-Control\n\t\t\t}\n\t\t\trespond "Sorry." {rp.status_code}\n\t\t}'
fi

# haproxy_row LINE IN_FRONTEND [SECTIONS]
haproxy_row() {
	fresh
	printf 'HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\ncontent-length: 7\r\n\r\nSorry.\n' >"$folder/429.http"
	echo Sorry. >"$folder/sorry"
	cat >"$folder/haproxy.cfg" <<CONF
defaults
  mode http
  timeout client 30s
  timeout connect 5s
  timeout server 30s
cache pages
  total-max-size 4
  max-age 60
http-errors sorry
  errorfile 429 429.http
frontend web
  bind 127.0.0.1:$port
  $2
  default_backend app
backend app
  server app $app
CONF
	behind haproxy -db -f haproxy.cfg
	row "HAProxy $(haproxy -v | sed -n 's/.*version \([0-9.]*\).*/\1/p')" "$1"
}
if wanted haproxy haproxy; then
	haproxy_row '`http-request cache-use`, `http-response cache-store`, `errorfile 429`' $'http-request cache-use pages\n  http-response cache-store pages\n  errorfile 429 429.http'
	haproxy_row '`http-response return status 429 errorfiles sorry if { status 429 }`' 'http-response return status 429 errorfiles sorry if { status 429 }'
	haproxy_row 'the same with `hdr Retry-After %[var(txn.retry)]`, and so on' 'http-response set-var(txn.retry) res.fhdr(Retry-After)
  http-response set-var(txn.limit) res.fhdr(RateLimit)
  http-response set-var(txn.policy) res.fhdr(RateLimit-Policy)
  http-response return status 429 content-type text/plain file sorry hdr Retry-After %[var(txn.retry)] hdr RateLimit %[var(txn.limit)] hdr RateLimit-Policy %[var(txn.policy)] hdr Cache-Control no-store if { status 429 }'
fi

# envoy_row LINE FILTERS LOCAL_REPLY
envoy_row() {
	fresh
	cat >"$folder/envoy.yaml" <<YAML
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: $port}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          ${3:-}
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: app}}]}
          http_filters:
          ${2:-}
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: app
    type: STATIC
    load_assignment:
      cluster_name: app
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $app_port}}}}]}]
YAML
	behind envoy -c envoy.yaml --use-dynamic-base-id --concurrency 1 -l error
	row "Envoy $(envoy --version | sed -n 's/.*version: [0-9a-f]*\/\([0-9.]*\).*/\1/p')" "$1"
}
if wanted envoy envoy; then
	envoy_row '`local_reply_config` for the status 429' '' 'local_reply_config: {mappers: [{filter: {status_code_filter: {comparison: {op: EQ, value: {default_value: 429, runtime_key: none}}}}, body: {inline_string: Sorry.}}]}'
	custom() {
		cat <<YAML
- name: custom
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.custom_response.v3.CustomResponse
              custom_response_matcher:
                matcher_list:
                  matchers:
                  - predicate: {single_predicate: {input: {name: status, typed_config: {"@type": type.googleapis.com/envoy.type.matcher.v3.HttpResponseStatusCodeMatchInput}}, value_match: {exact: "429"}}}
                    on_match:
                      action:
                        name: sorry
                        typed_config:
                          "@type": type.googleapis.com/envoy.extensions.http.custom_response.local_response_policy.v3.LocalResponsePolicy
                          body: {inline_string: Sorry.}
                          $1
YAML
	}
	envoy_row '`custom_response` with a `LocalResponsePolicy`' "$(custom '')"
	names_of="retry-after ratelimit ratelimit-policy"
	envoy_row 'the same with `header_to_metadata` and `response_headers_to_add`' "$(custom "response_headers_to_add:
                          - {header: {key: cache-control, value: no-store}}
$(for n in $names_of; do echo "                          - {header: {key: $n, value: '%DYNAMIC_METADATA(weir:$n)%'}}"; done)")
          - name: fields
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
              response_rules:
$(for n in $names_of; do echo "              - {header: $n, on_header_present: {metadata_namespace: weir, key: $n}}"; done)"
fi

# library_row NAME LINE COMMAND... runs a program that fetches through a cache of its own for all clients.
library_row() {
	local name=$1 line=$2
	shift 2
	port=$(./caches port) folder=$(mktemp -d -p "$work")
	behind "$@" "$port" "$origin"
	row "$name" "$line"
}

if wanted python python3; then
	requests_cache=1.3.3 hishel=2.0.0 cachecontrol=0.14.4
	python3 -m venv venv
	venv/bin/pip install -q --disable-pip-version-check "requests-cache==$requests_cache" "hishel[requests]==$hishel" "CacheControl==$cachecontrol" requests >&2
	cat >program.py <<'PY'
import sys
import http.server
import requests

kind, port, origin = sys.argv[1:]
if kind.startswith("requests-cache"):
    import requests_cache
    options = {
        "requests-cache": {},
        "requests-cache-429": {"allowable_codes": (200, 429)},
        "requests-cache-429-control": {"allowable_codes": (200, 429), "cache_control": True},
        "requests-cache-stale": {"cache_control": True, "stale_if_error": True},
        "requests-cache-control": {"cache_control": True},
    }[kind]
    session = requests_cache.CachedSession(backend="memory", **options)
elif kind == "cachecontrol":
    import cachecontrol
    session = cachecontrol.CacheControl(requests.Session())
elif kind.startswith("hishel"):
    from hishel.requests import CacheAdapter
    session = requests.Session()
    session.mount("http://", CacheAdapter(rfc=kind == "hishel-rfc"))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        r = session.get(origin + self.path, headers={"X-User": self.headers["X-User"]})
        self.send_response(r.status_code)
        for name, value in r.headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "content-encoding", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(r.content)))
        self.end_headers()
        self.wfile.write(r.content)

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
PY
	python_row() { library_row "$1" "$2" "$work/venv/bin/python" "$work/program.py" "$3"; }
	python_row "requests-cache $requests_cache" 'as it comes' requests-cache
	python_row "requests-cache $requests_cache" '`allowable_codes=(200, 429)`' requests-cache-429
	python_row "requests-cache $requests_cache" '`allowable_codes=(200, 429), cache_control=True`' requests-cache-429-control
	python_row "requests-cache $requests_cache" '`cache_control=True, stale_if_error=True`' requests-cache-stale
	python_row "requests-cache $requests_cache" '`cache_control=True`' requests-cache-control
	python_row "hishel $hishel" 'as it comes' hishel
	python_row "hishel $hishel" '`rfc=True`' hishel-rfc
	python_row "CacheControl $cachecontrol" 'as it comes' cachecontrol
fi

if wanted node node && command -v npm >/dev/null; then
	mkdir node
	(cd node && npm init -y >/dev/null && npm install --silent --no-fund --no-audit \
		node@24.21.0 axios@1.21.1 axios-cache-interceptor@1.12.3 make-fetch-happen@16.0.1 undici@8.13.1 >&2)
	cat >node/program.mjs <<'JS'
import http from 'node:http';
import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
const [, , kind, port, origin] = process.argv;
let ask;
if (kind.startsWith('axios')) {
  const { setupCache } = await import('axios-cache-interceptor');
  const options = { axios: {}, 'axios-stale': { staleIfError: true } }[kind];
  const client = setupCache((await import('axios')).default.create({ validateStatus: kind === 'axios-stale' ? undefined : () => true }), options);
  ask = async (path, user) => {
    const r = await client.get(origin + path, { headers: { 'X-User': user }, responseType: 'text', transformResponse: x => x })
      .catch(e => e.response);
    return [r.status, r.headers, String(r.data)];
  };
} else if (kind === 'make-fetch-happen') {
  const fetch = require('make-fetch-happen').defaults({ cachePath: './cache', retry: false });
  ask = async (path, user) => {
    const r = await fetch(origin + path, { headers: { 'X-User': user } });
    return [r.status, Object.fromEntries(r.headers.entries()), await r.text()];
  };
} else {
  const { Agent, interceptors, request } = await import('undici');
  const dispatcher = new Agent().compose(interceptors.cache());
  ask = async (path, user) => {
    const r = await request(origin + path, { dispatcher, headers: { 'X-User': user } });
    return [r.statusCode, r.headers, await r.body.text()];
  };
}
http.createServer(async (request, response) => {
  try {
    const [status, headers, body] = await ask(request.url, request.headers['x-user']);
    response.statusCode = status;
    for (const [name, value] of Object.entries(headers)) {
      if (!['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'content-encoding', 'date'].includes(name.toLowerCase())) {
        response.setHeader(name, value);
      }
    }
    response.end(body);
  } catch (e) {
    response.statusCode = 500;
    response.end(String(e.stack));
  }
}).listen(Number(port), '127.0.0.1');
JS
	node_row() { library_row "$1" "$2" "$work/node/node_modules/.bin/node" "$work/node/program.mjs" "$3"; }
	node_row 'axios-cache-interceptor 1.12.3' 'as it comes' axios
	node_row 'axios-cache-interceptor 1.12.3' '`staleIfError: true`' axios-stale
	node_row 'make-fetch-happen 16.0.1' '`cachePath`' make-fetch-happen
	node_row 'undici 8.13.1' '`interceptors.cache()`' undici
fi
