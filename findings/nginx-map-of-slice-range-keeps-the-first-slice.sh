#!/usr/bin/env bash
# nginx 1.22.1 of Debian 12 for amd64 (2026-11-29) with slice 1k; and a map of $slice_range, which tells
# the first slice of a download from the others.
# Guess: the map is read anew for each slice, since $slice_range is another one for each.
# Seen: every slice gets the value of the first one, while $slice_range itself changes. A rule for
# later slices never applies. With "volatile" in the map each slice gets its own.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
mkdir debs && chmod 777 debs
(cd debs && apt-get download -q nginx=1.22.1-9+deb12u11 >apt.log 2>&1)
dpkg-deb -x debs/nginx*.deb root
cat >origin.py <<'P'
import http.server

whole = bytes(3000)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = whole[first:last + 1]
        print(self.headers["Range"], self.headers["X-Part"], self.headers["X-Volatile"], file=requests, flush=True)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(whole)}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"x"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


requests = open("requests", "a")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
P
python3 origin.py >port &
pids+=($!)
while ! [ -s port ]; do sleep 0.1; done
mkdir tmp
cat >nginx.conf <<C
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  access_log off;
  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
  map \$slice_range \$part { default later; ~^bytes=0- first; }
  map \$slice_range \$volatile { volatile; default later; ~^bytes=0- first; }
  server {
    listen unix:$dir/nginx.sock;
    location / {
      slice 1k;
      proxy_set_header Range \$slice_range;
      proxy_set_header X-Part \$part;
      proxy_set_header X-Volatile \$volatile;
      proxy_http_version 1.1;
      proxy_pass http://127.0.0.1:$(cat port);
    }
  }
}
C
root/usr/sbin/nginx -p "$dir" -c nginx.conf &
pids+=($!)
while ! [ -S nginx.sock ]; do sleep 0.1; done
python3 - <<'P'
import http.client, socket

c = http.client.HTTPConnection("x")
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect("nginx.sock")
c.request("GET", "/file")
answer = c.getresponse()
body = answer.read()
print(answer.status, len(body), "bytes")
assert (answer.status, len(body)) == (200, 3000)
seen = [line.split() for line in open("requests")]
for part, kept, volatile in seen:
    print(part, "map:", kept, "volatile:", volatile)
assert seen == [["bytes=0-1023", "first", "first"], ["bytes=1024-2047", "first", "later"],
                ["bytes=2048-3071", "first", "later"]], seen
P
