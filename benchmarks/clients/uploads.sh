#!/bin/sh
# What clients see of a denied upload, before and after the limiter reads its body: uploads.sh
# needs Go, Python, Node and a JDK (17 or later). It installs httpx into a temporary folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv v
v/bin/pip -q install 'httpx[http2]==0.28.1'
cat > up.py <<'PY'
import platform, sys, urllib.request, httpx
h2, h1 = sys.argv[1:]
def httpx2(n):
    with httpx.Client(http2=True, verify=False, timeout=5) as c:
        r = c.post(h2, content=b"x" * n)
        return r.http_version + " " + str(r.status_code)
def urllib1(n):
    return urllib.request.urlopen(urllib.request.Request(h1, data=b"x" * n), timeout=5).status
for name, f in (("httpx 0.28.1, HTTP/2", httpx2), ("urllib of Python " + platform.python_version() + ", HTTP/1.1", urllib1)):
    for n in (200_000, 1_100_000, 5_000_000, 7_900_000, 12_000_000):
        try:
            out = f(n)
        except Exception as e:
            out = str(getattr(e, "code", "")) or type(e).__name__ + " " + str(e)
        print(name, n, out, sep=" | ", flush=True)
PY
cat > up.mjs <<'JS'
import http2 from 'node:http2'
for (const n of [1100000, 5000000, 7900000, 20 << 20]) {
  await new Promise(resolve => {
    const session = http2.connect(process.argv[2], { rejectUnauthorized: false })
    let status = 'no status', ended = false
    const done = how => {
      if (ended) return
      ended = true
      clearTimeout(timer)
      session.destroy()
      console.log(['http2 of Node ' + process.version.slice(1), n, status + ', ' + how].join(' | '))
      resolve()
    }
    const timer = setTimeout(() => done('open after 5 s'), 5000)
    session.on('error', e => done(e.code))
    const stream = session.request({ ':method': 'POST', ':path': '/', 'content-length': n })
    stream.on('response', h => { status = h[':status'] })
    stream.on('error', e => done(e.code))
    stream.on('close', () => done('closed'))
    stream.resume()
    stream.end(Buffer.alloc(n, 120))
  })
}
JS
cat > Up.java <<'JAVA'
import java.net.*;
import java.net.http.*;
import java.security.cert.X509Certificate;
import java.time.Duration;
import javax.net.ssl.*;

public class Up {
  static class Any extends X509ExtendedTrustManager {
    public void checkClientTrusted(X509Certificate[] c, String s) {}
    public void checkServerTrusted(X509Certificate[] c, String s) {}
    public void checkClientTrusted(X509Certificate[] c, String s, Socket k) {}
    public void checkServerTrusted(X509Certificate[] c, String s, Socket k) {}
    public void checkClientTrusted(X509Certificate[] c, String s, SSLEngine e) {}
    public void checkServerTrusted(X509Certificate[] c, String s, SSLEngine e) {}
    public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
  }

  public static void main(String[] args) throws Exception {
    SSLContext tls = SSLContext.getInstance("TLS");
    tls.init(null, new TrustManager[] {new Any()}, null);
    for (int n : new int[] {1100000, 5000000, 7900000, 12000000}) {
      String out;
      try {
        HttpRequest request = HttpRequest.newBuilder(URI.create(args[0])).timeout(Duration.ofSeconds(5))
            .POST(HttpRequest.BodyPublishers.ofByteArray(new byte[n])).build();
        HttpResponse<String> response = HttpClient.newBuilder().sslContext(tls).build()
            .send(request, HttpResponse.BodyHandlers.ofString());
        out = response.version() + " " + response.statusCode();
      } catch (Exception e) {
        out = e.toString();
      }
      System.out.println("HttpClient of Java " + System.getProperty("java.version") + " | " + n + " | " + out);
    }
  }
}
JAVA
(cd "$here/.." && go build -o "$work/server" ./clients/uploads)
for drain in -1 0; do
	mkfifo hold
	./server -drain "$drain" < hold > addresses &
	server=$!
	exec 3> hold
	while ! [ -s addresses ]; do sleep 0.1; done
	read -r h2 h1 < addresses
	echo "DrainLimit $drain"
	v/bin/python up.py "$h2" "$h1"
	NODE_NO_WARNINGS=1 node up.mjs "$h2"
	java Up.java "$h2"
	exec 3>&-
	wait "$server"
	rm hold addresses
done
