#!/usr/bin/env bash
# HAProxy 2.6.12 of Debian 12 for amd64 (2026-11-29) puts a page of its own in place of a server's
# 429, by http-response return, and hands on Retry-After of that 429 in its hdr.
# Guess: %[res.hdr(Retry-After)] is 7, as in http-response set-header.
# Seen: it is empty, since the answer of the server is gone by then. In the text of the page that
# leaves a gap. In hdr the client gets no answer: the connection closes without a byte, while
# HAProxy logs 429 and a size. "haproxy -c" calls the file valid. A variable that is set in a rule
# before has the value. http-response deny is the same.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
mkdir debs && chmod 777 debs
(cd debs && apt-get download -q haproxy=2.6.12-1+deb12u4 liblua5.3-0=5.3.6-2 \
  libopentracing1=1.6.0-4 libopentracing-c-wrapper0=1.1.3-3+b1 >apt.log 2>&1)
for deb in debs/*.deb; do dpkg-deb -x "$deb" root; done
export PATH="$dir/root/usr/sbin:$PATH" LD_LIBRARY_PATH="$dir/root/usr/lib/x86_64-linux-gnu"
cat >origin.py <<'P'
import http.server


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(429)
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
P
python3 origin.py >port 2>/dev/null &
pids+=($!)
while ! [ -s port ]; do sleep 0.1; done
page='status 429 content-type text/plain'
cat >haproxy.cfg <<C
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend web
  bind unix@haproxy.sock
  log stdout format raw local0
  log-format "log: %HP %ST %B bytes"
  default_backend app
backend app
  server app 127.0.0.1:$(cat port)
  http-request set-var(txn.path) path
  http-response set-var(txn.retry) res.hdr(Retry-After)
  http-response return $page lf-string "page" hdr Retry-After "%[var(txn.retry)]" if { var(txn.path) -m str /variable }
  http-response return $page lf-string "wait %[res.hdr(Retry-After)]." if { var(txn.path) -m str /text }
  http-response return $page lf-string "page" hdr Retry-After "%[res.hdr(Retry-After)]" if { var(txn.path) -m str /return }
  http-response deny $page lf-string "page" hdr Retry-After "%[res.hdr(Retry-After)]" if { var(txn.path) -m str /deny }
  http-response set-header X-Wait "%[res.hdr(Retry-After)]"
C
haproxy -c -f haproxy.cfg
haproxy -db -f haproxy.cfg >log 2>&1 &
pids+=($!)
while ! [ -S haproxy.sock ]; do sleep 0.1; done
cat >ask.py <<'P'
import http.client, socket

seen = {}
for path in ("/set-header", "/variable", "/text", "/return", "/deny"):
    c = http.client.HTTPConnection("x")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect("haproxy.sock")
    c.request("GET", path)
    try:
        answer = c.getresponse()
        seen[path] = (answer.status, answer.getheader("Retry-After"), answer.getheader("X-Wait"), answer.read())
    except http.client.RemoteDisconnected as e:
        seen[path] = str(e)
    print(path, "->", seen[path])
nothing = "Remote end closed connection without response"
assert seen == {"/set-header": (429, "7", "7", b""), "/variable": (429, "7", None, b"page"),
                "/text": (429, None, None, b"wait ."), "/return": nothing, "/deny": nothing}, seen
P
python3 ask.py
while [ "$(grep -c log: log)" -lt 5 ]; do sleep 0.1; done
grep log: log
grep -q 'log: /return 429' log && grep -q 'log: /deny 429' log
