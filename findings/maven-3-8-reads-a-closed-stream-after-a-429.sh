#!/usr/bin/env bash
# Apache Maven 3.8.8 and 3.9.16 (2026-11-29) ask a repository for a parent of a project. The first
# request is answered 429 with Retry-After: 1, the second one with the file.
# Guess: both wait a second or so, ask again, and go on with the file.
# Seen: 3.9.16 does. 3.8.8 waits for 5 s of its own, gets the file, and fails: "Attempted read from
# closed stream". So its repeat after a 429 is never of use, and a build that meets one fails. It needs
# mvn and java, since it takes both releases from Maven's own repository.
set -euo pipefail
version=3.8.8 newer=3.9.16
dir=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
cat >server.py <<'P'
import http.server, time

parent = b"""<project><modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>parent</artifactId>
<version>1</version><packaging>pom</packaging></project>"""
asked = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, body = 404, b""
        if self.path.endswith(".pom"):
            denied = self.path not in asked
            status, body = (429, b"slow down") if denied else (200, parent)
            now = time.monotonic()
            print(status, int(now - asked.get(self.path, now)), file=requests, flush=True)
            asked[self.path] = now
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
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
python3 server.py >port 2>errors &
server=$!
while ! [ -s port ]; do sleep 0.1; done
cat >pom.xml <<'X'
<project>
  <modelVersion>4.0.0</modelVersion>
  <parent><groupId>example</groupId><artifactId>parent</artifactId><version>1</version><relativePath/></parent>
  <artifactId>project</artifactId>
  <packaging>pom</packaging>
</project>
X

mkdir zips

# build RELEASE EXIT STATUSES builds the project by that release, from an empty repository.
build() {
  local release=$1 rc=0
  (cd zips && mvn -q -B -Dmaven.repo.local="$dir/repository" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
    -Dartifact=org.apache.maven:apache-maven:"$release":zip:bin -DoutputDirectory="$dir/zips" \
    >../log 2>&1) || { cat log; exit 1; }
  python3 -m zipfile -e "zips/apache-maven-$release-bin.zip" .
  cat >settings.xml <<X
<settings><mirrors><mirror><id>one</id><mirrorOf>*</mirrorOf><url>http://127.0.0.1:$(cat port)/$release</url></mirror></mirrors></settings>
X
  : >requests
  bash "apache-maven-$release/bin/mvn" -B -s settings.xml -Dmaven.repo.local="$dir/$release" validate >log 2>&1 || rc=$?
  echo "Maven $release -> exit $rc, answers and seconds before each: $(paste -s -d, requests)"
  [ "$rc" = "$2" ] || { cat log; exit 1; }
  [ "$(cut -d' ' -f1 requests | paste -s -d' ')" = '429 200' ]
}
build "$version" 1
grep -o 'Attempted read from closed stream' log
tail -n 1 requests | awk '{ exit $2 < 4 }'
build "$newer" 0
