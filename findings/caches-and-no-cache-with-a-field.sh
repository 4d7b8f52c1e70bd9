#!/usr/bin/env bash
# nginx 1.22.1, Apache 2.4.71 with mod_cache and HAProxy 2.6.12 of Debian 12 for amd64, 2026-11-29.
# Guess: Cache-Control: public, max-age=60, no-cache="RateLimit, RateLimit-Policy" makes a cache store
# an answer without these fields (RFC 9111, section 5.2.2.4), so that no client gets the numbers of
# another one. If a cache does not know that, it asks the server each time (the same section).
# Seen: Apache does as guessed. nginx does not store the answer at all. HAProxy stores it with the
# fields, and so it does with private="RateLimit, RateLimit-Policy", which would have kept them to one
# client (section 5.2.2.7). nginx sends no Age; and after a 304 of the server it sends the stored
# fields, not those of the 304 (section 4.3.4).
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
pids=()
finish() {
  kill "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$dir"
}
trap finish EXIT
cd "$dir"
mkdir debs && chmod 777 debs
(cd debs && apt-get download -q nginx=1.22.1-9+deb12u11 haproxy=2.6.12-1+deb12u4 \
  apache2-bin=2.4.71-1~deb12u1 libapr1=1.7.2-3+deb12u1 libaprutil1=1.6.3-1+deb12u1 \
  liblua5.3-0=5.3.6-2 libopentracing1=1.6.0-4 libopentracing-c-wrapper0=1.1.3-3+b1 >apt.log 2>&1)
for deb in debs/*.deb; do dpkg-deb -x "$deb" root; done
export PATH="$dir/root/usr/sbin:$PATH" LD_LIBRARY_PATH="$dir/root/usr/lib/x86_64-linux-gnu"

cat >origin.py <<'P'
import collections, http.server
CONTROL = {'plain': 'public, max-age=60', 'brief': 'public, max-age=1',
           'no-cache': 'public, max-age=60, no-cache="RateLimit, RateLimit-Policy"',
           'private': 'public, max-age=60, private="RateLimit, RateLimit-Policy"'}
seen = collections.Counter()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        seen[self.path] += 1
        known = self.headers.get('If-None-Match')
        self.send_response(304 if known else 200)
        for name, value in (('Cache-Control', CONTROL[self.path.split('/')[-1]]), ('ETag', '"x"'),
                            ('RateLimit', '"p";r=%d;t=60' % (100 - seen[self.path])),
                            ('RateLimit-Policy', '"p";q=100;w=60')):
            self.send_header(name, value)
        if not known:
            self.send_header('Content-Length', '3')
        self.end_headers()
        if not known:
            self.wfile.write(b'ok\n')
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', 18180), Handler).serve_forever()
P
python3 origin.py 2>/dev/null & pids+=($!)

mkdir html stored && chmod 777 stored
cat >nginx.conf <<'C'
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  proxy_cache_path cache keys_zone=pages:1m;
  server {
    listen 127.0.0.1:18181;
    location / {
      proxy_pass http://127.0.0.1:18180;
      proxy_cache pages;
      proxy_cache_revalidate on;
    }
  }
}
C
nginx -p "$dir" -c nginx.conf & pids+=($!)

cat >apache.conf <<C
ServerRoot $dir
PidFile $dir/apache.pid
Listen 127.0.0.1:18183
ServerName localhost
User nobody
ErrorLog $dir/apache.log
CacheRoot $dir/stored
C
for module in mpm_event authz_core proxy proxy_http cache cache_disk; do
  echo "LoadModule ${module}_module $dir/root/usr/lib/apache2/modules/mod_$module.so" >>apache.conf
done
printf 'CacheEnable disk /\nProxyPass / http://127.0.0.1:18180/\n' >>apache.conf
apache2 -f "$dir/apache.conf" -D FOREGROUND & pids+=($!)

cat >haproxy.cfg <<'C'
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
cache pages
  total-max-size 4
  max-age 60
frontend front
  bind 127.0.0.1:18187
  http-request cache-use pages
  http-response cache-store pages
  default_backend origin
backend origin
  server origin 127.0.0.1:18180
C
haproxy -db -f haproxy.cfg >haproxy.log 2>&1 & pids+=($!)

for port in 18180 18181 18183 18187; do
  for _ in $(seq 100); do
    curl -s -o /dev/null "http://127.0.0.1:$port/up/$port/plain" && break
    sleep 0.2
  done
done

# left asks twice, and prints what the second answer says is left, or none.
left() {
  curl -s -o /dev/null "$1"
  sleep 0.3
  curl -s -o /dev/null -D - "$1" | tr -d '\r' | sed -nE 's/^ratelimit: "p";(r=[0-9]+);.*/\1/pi' | grep . || echo none
}
failed=0
check() { # NAME PORT PATH WANT
  local got
  got=$(left "http://127.0.0.1:$2/$1/$3")
  echo "$1 $3: $got"
  [ "$got" = "$4" ] || failed=1
}
# r=99 is the first answer, stored with its field; r=98 the second of the server.
for cache in nginx:18181 apache:18183 haproxy:18187; do
  name=${cache%:*} port=${cache#*:}
  check "$name" "$port" plain r=99
  for control in no-cache private; do
    case $name in
    apache) check "$name" "$port" "$control" none ;;
    haproxy) check "$name" "$port" "$control" r=99 ;;
    *) check "$name" "$port" "$control" r=98 ;;
    esac
  done
done

answer() { curl -s -o /dev/null -D - "$1" | tr -d '\r' | tr '[:upper:]' '[:lower:]'; }
answer http://127.0.0.1:18181/brief/brief | grep -q '^age:' && failed=1
sleep 2
echo "nginx, after a 304:" && answer http://127.0.0.1:18181/brief/brief | grep '^ratelimit: "p";r=99' || failed=1
exit $failed
