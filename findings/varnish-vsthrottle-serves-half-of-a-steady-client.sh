#!/usr/bin/env bash
# vsthrottle of varnish-modules 0.20.0 with Varnish 7.1.1, of Debian 12 for amd64 (2026-11-29);
# needs gcc, as Varnish does. The limit is 4 requests in 2 seconds.
# Guess: a client that asks each 0.4 seconds is served two of a second, four of five, after its
# first four.
# Seen: every other request is denied: five in four seconds are served, where the limit has
# eight. Tokens come back as whole numbers, and an allowed request begins the next one from
# nothing: 0.8 seconds are worth 1.6 tokens, of which 0.6 are lost. A client that asks a
# little too fast gets less than one that keeps to the limit.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
mkdir debs && chmod 777 debs
(cd debs && apt-get download -q varnish=7.1.1-2+deb12u1 libvarnishapi3=7.1.1-2+deb12u1 \
  varnish-modules=0.20.0-2 libjemalloc2=5.3.0-1 >apt.log 2>&1)
for deb in debs/*.deb; do dpkg-deb -x "$deb" root; done
lib="$dir/root/usr/lib/x86_64-linux-gnu"
export PATH="$dir/root/usr/sbin:$PATH" LD_LIBRARY_PATH="$lib:$lib/varnish"
cat >limit.vcl <<V
vcl 4.1;
import vsthrottle from "$lib/varnish/vmods/libvmod_vsthrottle.so";
backend default none;
sub vcl_recv {
  if (vsthrottle.is_denied("client", 4, 2s)) {
    return (synth(429));
  }
  return (synth(204));
}
V
port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
varnishd -n "$dir/work" -a "127.0.0.1:$port" -f "$dir/limit.vcl" -F >varnish.log 2>&1 &
pids+=($!)
cat >ask.py <<'P'
import http.client, sys, time

for _ in range(100):
    try:
        client = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
        client.connect()
        break
    except OSError:
        time.sleep(0.1)
statuses, begin = "", time.monotonic()
for n in range(1, 51):
    client.request("GET", "/")
    answer = client.getresponse()
    answer.read()
    statuses += "." if answer.status == 204 else "x"
    time.sleep(max(0, begin + 0.4 * n - time.monotonic()))
print(statuses, "served", statuses.count("."), "of 50 in 20 s; the limit has 4 and 2 a second")
assert statuses[:4] == "...." and 24 <= statuses.count(".") <= 32
P
python3 ask.py "$port"
