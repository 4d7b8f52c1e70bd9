#!/usr/bin/env bash
# GDAL 3.10.3 in rasterio 1.4.4 (2026-11-29) opens a raster over HTTP. The server denies the first
# request, a HEAD, with 429 and Retry-After: 1, and answers all others.
# Guess: opening fails once. Two seconds later it works.
# Seen: it fails for as long as the process lives, with "HTTP response code: 429", and the server
# gets no request: the denial is kept like a file that is not there. Another process opens it
# at once. With GDAL_HTTP_MAX_RETRY: 1 GDAL asks again and opens it, so a denial is kept only if it
# outlasts the repeats.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check rasterio==1.4.4 numpy==2.4.6
cat >denied.py <<'P'
import http.server, subprocess, sys, threading, time, warnings

import rasterio

warnings.simplefilter("ignore")


def opens(url, **options):
    try:
        with rasterio.Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR", **options):
            with rasterio.open(url) as raster:
                return f"{raster.width} x {raster.height}"
    except rasterio.errors.RasterioIOError as e:
        return str(e)


if len(sys.argv) > 1:
    print(opens(sys.argv[1]))
    sys.exit()
assert rasterio.__gdal_version__ == "3.10.3", rasterio.__gdal_version__
with rasterio.open("a.tif", "w", driver="GTiff", width=3, height=2, count=1, dtype="uint8"):
    pass
with open("a.tif", "rb") as file:
    raster = file.read()
requests = []
denials = 1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global denials
        status, body = 200, raster
        if "Range" in self.headers:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            status, body = 206, raster[int(first):int(last) + 1]
        if denials:
            denials -= 1
            status, body = 429, b""
        requests.append(f"{self.command} {status}")
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{len(raster)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/a.tif"
for wait in (0, 2, 3):
    time.sleep(wait)
    requests.clear()
    said = opens(url)
    print(f"opened, {wait} s after the last time:", said, requests)
    assert "HTTP response code: 429" in said, said
    assert requests == (["HEAD 429"] if wait == 0 else []), requests
requests.clear()
said = subprocess.check_output([sys.executable, __file__, url], text=True).strip()
print("opened by another process:", said, requests)
assert said == "3 x 2" and "HEAD 200" in requests, (said, requests)

denials = 1
requests.clear()
said = opens(url + "?2", GDAL_HTTP_MAX_RETRY="1", GDAL_HTTP_RETRY_DELAY="1")
print("opened with GDAL_HTTP_MAX_RETRY: 1:", said, requests)
assert said == "3 x 2", said
P
venv/bin/python denied.py
