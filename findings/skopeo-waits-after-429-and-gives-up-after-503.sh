#!/usr/bin/env bash
# skopeo 1.9.3 of Debian 12 for amd64 (2026-11-29) inspects an image of a registry that answers the
# first request for the manifest with 429 or 503, both with Retry-After: 1, and the second one well.
# Guess: it asks again a second later in both cases, since the field means the same in both.
# Seen: so it does after a 429, five requests in all if each is denied. After a 503 it fails at
# once, and the field is not read. A registry that is short of room has to answer 429, though no
# client is at fault.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
mkdir debs && chmod 777 debs
(cd debs && apt-get download -q skopeo=1.9.3+ds1-1+b10 libgpgme11=1.18.0-3+deb12u1 >apt.log 2>&1)
for deb in debs/*.deb; do dpkg-deb -x "$deb" root; done
export PATH="$dir/root/usr/bin:$PATH" LD_LIBRARY_PATH="$dir/root/usr/lib/x86_64-linux-gnu"
cat >registry.py <<'P'
import hashlib, http.server, json, time

config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}}).encode()
digest = "sha256:" + hashlib.sha256(config).hexdigest()
kind = "application/vnd.docker.distribution.manifest.v2+json"
manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "layers": [], "config": {
    "mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest}}).encode()
last = None
denials = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global last
        status, answer, body = 200, "application/json", b"{}"
        parts = self.path.split("/")
        if "manifests" in parts:
            want, times = parts[2].split("x")
            denials.setdefault(parts[2], int(times))
            answer, body = kind, manifest
            if denials[parts[2]]:
                denials[parts[2]] -= 1
                status, answer, body = int(want), "text/plain", b""
            now = time.monotonic()
            print(status, "" if last is None else f"after {now - last:.1f} s", file=requests, flush=True)
            last = now
        elif "blobs" in parts:
            body = config
        self.send_response(status)
        if status != 200:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", answer)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


requests = open("requests", "a")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
P
python3 registry.py >port &
server=$!
while ! [ -s port ]; do sleep 0.1; done
# inspect NAME EXIT STATUSES inspects an image, and compares.
inspect() {
  : >requests
  local rc=0
  skopeo --insecure-policy inspect --no-tags --config --raw --tls-verify=false "docker://127.0.0.1:$(cat port)/$1:1" >said 2>err || rc=$?
  echo "$1 -> exit $rc, manifests: $(paste -s -d, requests)"
  [ "$rc" = "$2" ]
  [ "$(cut -d' ' -f1 requests | paste -s -d' ')" = "$3" ]
}
inspect 429x0 0 '200'
inspect 429x1 0 '429 200'
inspect 429x9 1 '429 429 429 429 429'
awk 'NR > 1 && $3 < 0.9 { bad = 1 } END { exit bad }' requests
inspect 503x1 1 '503'
