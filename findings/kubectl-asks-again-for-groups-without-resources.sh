#!/usr/bin/env bash
# kubectl 1.20.2 of Debian 12 for amd64 (2026-11-29) lists pods of a server that has two more groups
# of its API: one has a resource, the other one has none at present, which is valid.
# Guess: it asks for all groups once, keeps them for ten minutes, and then sends one request for
# each command.
# Seen: so it does for the group that has a resource. An empty list is not kept: it asks for that
# group three times in each command, so "get pods" costs four requests instead of one, and a script
# of many commands meets a limit four times as early.
set -euo pipefail
dir=$(mktemp -d)
chmod 755 "$dir"
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
mkdir debs && chmod 777 debs
(cd debs && apt-get download -q kubernetes-client=1.20.5+really1.20.2-1.1+deb12u1 >apt.log 2>&1)
dpkg-deb -x debs/*.deb root
cat >api.py <<'P'
import http.server, json

groups = ["empty.example.com", "full.example.com"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?")[0]
        print(path, file=requests, flush=True)
        status = 200
        if path == "/api":
            said = {"kind": "APIVersions", "versions": ["v1"]}
        elif path == "/apis":
            said = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": g, "versions": [{"groupVersion": g + "/v1", "version": "v1"}],
                 "preferredVersion": {"groupVersion": g + "/v1", "version": "v1"}} for g in groups]}
        elif path == "/api/v1":
            said = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                {"name": "pods", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}]}
        elif path == "/apis/empty.example.com/v1":
            said = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "empty.example.com/v1", "resources": []}
        elif path == "/apis/full.example.com/v1":
            said = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "full.example.com/v1", "resources": [
                {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get", "list"]}]}
        elif path.endswith("/pods"):
            said = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}
        else:
            status, said = 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
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
python3 api.py >port &
server=$!
while ! [ -s port ]; do sleep 0.1; done
export HOME=$dir KUBECONFIG=$dir/none # it keeps what it knows below HOME
for run in first second third; do
  : >requests
  root/usr/bin/kubectl --server "http://127.0.0.1:$(cat port)" get pods >said 2>&1
  echo "the $run time:"
  LC_ALL=C sort requests | tee "$run" | uniq -c
done
grep -q '^No resources found' said
[ "$(grep -c full first)" = 1 ]
for run in second third; do
  printf '%s\n' /api/v1/namespaces/default/pods /apis/empty.example.com/v1{,,} | diff - "$run"
done
