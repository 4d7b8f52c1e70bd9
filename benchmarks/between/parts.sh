#!/usr/bin/env bash
# What becomes of downloads that nginx fetches in slices, and of pages that Varnish makes of parts, if
# a limiter allows a client ten requests an hour: with the lines of docs/gateway.md, which it reads
# there, and without them. It needs go, and nginx or varnish of Debian.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
guide=$here/../../docs/gateway.md
work=$(mktemp -d)
chmod 755 "$work" # some programs have users of their own
running=""
end() {
	exec 8>&-
	for pid in $running; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	running=""
}
trap 'end; rm -rf "$work"' EXIT
PATH=$PATH:/usr/sbin
cd "$work"
(cd "$here/.." && go build -o "$work/parts" ./between/parts)
(cd "$here/../../cmd/weir" && go build -o "$work/weir" .)

# block NAME prints a file that the guide shows.
block() { awk -v name="# $1" '/^```/ { inside = 0 } inside || $0 == name { inside = 1; print }' "$guide"; }

# behind COMMAND... starts a program that listens on $port.
behind() {
	(exec "$@" >said 2>&1 8>&-) &
	running+=" $!"
	for _ in $(seq 600); do
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
		kill -0 $! 2>/dev/null || break
		sleep 0.05
	done
	echo "$1 does not listen:" >&2
	cat said >&2
	return 1
}

# fresh RULE starts the program with the limiter, and sets $app and $port.
fresh() {
	rm -rf hold app cache
	mkfifo hold
	./parts serve "$1" <hold >app &
	running=$!
	exec 8>hold
	while [[ ! -s app ]]; do sleep 0.05; done
	read -r app <app
	port=$(./parts port)
}

echo "| proxy | lines | of 12 downloads or pages: whole, denied, broken | of 15 requests with a Range or the secret of the client's own: passed |"
echo "|---|---|---|---|"

# nginx_row LINES LOCATIONS
nginx_row() {
	cat >nginx.conf <<CONF
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  proxy_cache_path cache keys_zone=pages:10m use_temp_path=off;
  $(block map.conf)
  upstream app { server 127.0.0.1:$app; }
  server {
    listen 127.0.0.1:$port;
    $2
  }
}
CONF
	behind nginx -p "$work" -c nginx.conf
	./parts ask "http://127.0.0.1:$port/files/" "nginx $(nginx -v 2>&1 | sed 's/.*\///')" "$1"
	end
}
if command -v nginx >/dev/null; then
	slices=$(block slices.conf)
	open=$(sed '/http_range/d; /error_page 418/d' <<<"$slices") # any client chooses its slices
	fresh requests
	nginx_row '`slice 1m`, and all requests count' "$open"
	fresh 'ranges free'
	nginx_row '`slice 1m`, and ranges that do not begin at 0 are free: a mistake' "$open"
	fresh marked
	nginx_row 'those of the guide without the location `@range`: a mistake' "$open"
	fresh marked
	nginx_row 'those of the guide' "$slices"
	fresh bytes
	nginx_row 'those of the guide, and a limit of bytes: ten downloads' "$slices"

	fresh none
	web=$port check=$(./parts port)
	block weir.yaml >weir.yaml
	port=$check behind "$work/weir" serve --denied-status 403 --check "127.0.0.1:$check" --grpc "" --operator "" weir.yaml
	block pages.conf | sed "s/proxy_cache pages;/&\n$(block slice.conf | sed ':a; N; $!ba; s/\n/\\n/g')/" >pages.conf
	block nginx.conf | sed "s/:8080/:$check/; s/:9000/:$app/; s/listen 8000;/listen 127.0.0.1:$web; include pages.conf;/
		s/^http {/daemon off; master_process off; error_log stderr crit;\n&\nproxy_cache_path cache keys_zone=pages:10m use_temp_path=off;/
		s/^http {/&\nclient_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;/" >nginx.conf
	port=$web behind nginx -p "$work" -c nginx.conf
	./parts ask "http://127.0.0.1:$web/pages/" "nginx $(nginx -v 2>&1 | sed 's/.*\///')" 'weir in front of the cache, by `auth_request`'
	end
else
	echo "nginx is left out: it is not there" >&2
fi

# varnish_row LINES VCL
varnish_row() {
	cat >default.vcl <<<"$2"
	sed -i "s/9000/$app/" default.vcl
	behind varnishd -F -j none -n "$work/varnish" -a "127.0.0.1:$port" -T none -f "$work/default.vcl" -s malloc,16m
	./parts ask "http://127.0.0.1:$port/html/" "Varnish $(varnishd -V 2>&1 | sed -n 's/.*varnish-\([0-9.]*\).*/\1/p')" "$1"
	end
}
if command -v varnishd >/dev/null; then
	vcl=$(block default.vcl)
	fresh requests
	varnish_row '`do_esi`, and all requests count' "$(sed '/^sub vcl_deliver/,$d; /X-Part/d' <<<"$vcl")"
	fresh requests
	varnish_row 'those of the guide that leave parts out, and all requests count' "$(sed '/X-Part/d' <<<"$vcl")"
	fresh marked
	varnish_row 'those of the guide' "$vcl"
else
	echo "Varnish is left out: it is not there" >&2
fi
