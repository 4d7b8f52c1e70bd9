#!/usr/bin/env bash
# pip 26.3 (2026-11-29) with two indexes: one has a new release of a package and answers 429 without
# Retry-After to the package's page, the other one has an old release.
# Guess: pip fails and names the index that denied it, or at least warns, since it cannot know
# what the first index has.
# Seen: it installs the old release, exits 0, and prints no word of the denial; it asked the first
# index once. With the first index alone it exits 1 and says that there are no versions. Only -vv
# has the status. A requirement that is pinned fails, as if the release did not exist.
set -euo pipefail
dir=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check pip==26.3
mkdir new old
venv/bin/pip download -q --no-deps -d new idna==3.11
venv/bin/pip download -q --no-deps -d old idna==3.10
cat >server.py <<'P'
import http.server, os

denied = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global denied
        _, index, *rest = self.path.split("/")
        if self.path == "/denied":
            status, kind, body = 200, "text/plain", str(denied).encode()
        elif index == "new" and rest[0] == "simple" and os.path.exists("busy"):
            denied += 1
            status, kind, body = 429, "text/plain", b"slow down"
        elif rest[0] == "simple":
            links = "".join(f'<a href="/{index}/file/{name}">{name}</a>' for name in os.listdir(index))
            status, kind, body = 200, "text/html", f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
        else:
            with open(f"{index}/{rest[-1]}", "rb") as file:
                status, kind, body = 200, "application/octet-stream", file.read()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
P
venv/bin/python server.py >port &
server=$!
while ! [ -s port ]; do sleep 0.1; done
at=http://127.0.0.1:$(cat port)
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1
unset PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS

# install NAME REQUIREMENT [OPTIONS] prints what pip says, and sets rc.
install() {
	local name=$1 requirement=$2
	shift 2
	rc=0
	venv/bin/pip install --no-cache-dir --target "$name" --index-url "$at/new/simple/" "$@" "$requirement" >"$name.log" 2>&1 || rc=$?
	echo "$name -> exit $rc: $(tail -n 1 "$name.log")"
}
install answered idna --extra-index-url "$at/old/simple/"
[ "$rc" = 0 ] && [ -d answered/idna-3.11.dist-info ]
touch busy
install denied idna --extra-index-url "$at/old/simple/"
[ "$rc" = 0 ] && [ -d denied/idna-3.10.dist-info ]
venv/bin/python -c "import urllib.request; assert urllib.request.urlopen('$at/denied').read() == b'1'"
install pinned idna==3.11 --extra-index-url "$at/old/simple/"
[ "$rc" = 1 ]
install alone idna
[ "$rc" = 1 ]
if grep -i -E '429|warn|too many|skip' denied.log pinned.log alone.log; then
	echo "not as seen: pip says something about the denial"
	exit 1
fi
