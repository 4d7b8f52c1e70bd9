#!/usr/bin/env bash
# wget2 1.99.1 of Debian 12 for amd64 (2026-11-29), with -nv, before a server that answers 429 and
# Retry-After: 1.
# Guess: it exits 8, which its manual has for an answer that is an error, and prints the status.
# Seen: it exits 0, prints nothing, and writes nothing: a script takes the download for a success.
# So it is after 500 and 503. A 404 exits 8. It asks once each time, whatever --tries says.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
mkdir debs && chmod 777 debs
(cd debs && apt-get download -q wget2=1.99.1-2.2 libwget0=1.99.1-2.2 >apt.log 2>&1)
for deb in debs/*.deb; do dpkg-deb -x "$deb" root; done
export PATH="$dir/root/usr/bin:$PATH" LD_LIBRARY_PATH="$dir/root/usr/lib/x86_64-linux-gnu"
cat >server.py <<'P'
import http.server


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"text")
        print(self.path, file=requests, flush=True)

    def log_message(self, *args):
        pass


requests = open("requests", "a")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
P
python3 server.py >port &
server=$!
while ! [ -s port ]; do sleep 0.1; done
at=http://127.0.0.1:$(cat port)
seen=""
for status in 200 404 429 500 503; do
  : >requests
  rm -f file
  rc=0
  wget2 -nv --tries=3 --no-config --no-hsts -O file "$at/$status/file" >log 2>&1 || rc=$?
  line="$status: exit $rc, $(wc -l <requests) request, $(wc -c <log) bytes printed, $([ -s file ] && echo a || echo no) file"
  echo "$line"
  seen+="$line;"
done
none="0 bytes printed, no file;"
[ "$seen" = "200: exit 0, 1 request, 0 bytes printed, a file;404: exit 8, 1 request, ${none}\
429: exit 0, 1 request, ${none}500: exit 0, 1 request, ${none}503: exit 0, 1 request, $none" ]
