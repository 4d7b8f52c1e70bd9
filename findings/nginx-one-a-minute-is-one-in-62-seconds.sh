#!/usr/bin/env bash
# nginx 1.22.1 of Debian 12 for amd64 (2026-11-29) with limit_req and rate=1r/m.
# Guess: a client that asks once every 61 seconds is never denied.
# Seen: the second request, 61 seconds after the first, gets 503; one that comes 63 seconds after the
# first of another client gets 200. The rate is kept in whole thousandths of a request a second:
# 16 of them are one request in 62.5 seconds.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
pid=""
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
mkdir debs tmp && chmod 777 debs
(cd debs && apt-get download -q nginx=1.22.1-9+deb12u11 >apt.log 2>&1)
dpkg-deb -x debs/nginx*.deb root
cat >nginx.conf <<C
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
  limit_req_zone \$http_client zone=one:1m rate=1r/m;
  server {
    listen unix:$dir/nginx.sock;
    limit_req zone=one;
    location = /page.html { root $dir; }
  }
}
C
echo page >page.html
root/usr/sbin/nginx -p "$dir" -c nginx.conf &
pid=$!
while ! [ -S nginx.sock ]; do sleep 0.1; done
python3 - <<'P'
import http.client, socket, time


def ask(client):
    c = http.client.HTTPConnection("x")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect("nginx.sock")
    c.request("GET", "/page.html", headers={"Client": client})
    return c.getresponse().status


begun = time.monotonic()
assert (ask("a"), ask("b"), ask("b")) == (200, 200, 503)
time.sleep(begun + 61 - time.monotonic())
early = ask("a")
time.sleep(begun + 63 - time.monotonic())
late = ask("b")
print("61 seconds later:", early, "63 seconds later:", late)
assert (early, late) == (503, 200), (early, late)
P
