#!/usr/bin/env bash
# What clients of gRPC with a retry policy see of a denial: of HTTP as any HTTP client gets it, of a
# limiter of nethttp in front of a server of gRPC, and of grpcmw with its tap. It needs go, python3
# and npm, mvn and a JDK for grpc-java, Debian's ruby-grpc for Ruby, and cargo for tonic, and installs
# pinned packages into a temporary folder. The limit is one
# call in 3 s. The first call uses it; the second has a deadline of 10 s, and the third one of 1 s.
# tonic has no retries.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

mkdir server
cat >server/main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpcmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

var limit = limits.SlidingLog(limits.Per(1, 3*time.Second))

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	if os.Args[1] == "tap" {
		l := grpcmw.MustNew(grpcmw.Config{
			Rules:    []grpcmw.Rule{{Name: "all", Limit: limit, Key: keyfuncs.Constant[*grpcmw.Call]("all")}},
			CountProbes: true, // the method that all clients have is a health check
			Observer: core.ObserverFuncs[*grpcmw.Call]{OnDecision: func(context.Context, *grpcmw.Call, core.Outcome) { seen() }},
		})
		var server *grpc.Server
		server = grpc.NewServer(grpc.InTapHandle(l.Tap(func() *grpc.Server { return server })),
			grpc.ChainUnaryInterceptor(l.Unary()), grpc.ChainStreamInterceptor(l.Stream()))
		healthpb.RegisterHealthServer(server, health.NewServer())
		panic(server.Serve(listener))
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	config := nethttp.Config{Rules: []nethttp.Rule{{Name: "all", Limit: limit, Key: keyfuncs.Constant[*http.Request]("all")}}}
	if os.Args[1] == "429" {
		config.Denied = func(w http.ResponseWriter, _ *http.Request, o core.Outcome) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(o.Status())
			fmt.Fprintln(w, `{"status":429}`)
		}
	}
	handler := nethttp.MustNew(config).Handler(server)
	web := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen()
		handler.ServeHTTP(w, r)
	})}
	web.Protocols.SetUnencryptedHTTP2(true)
	panic(web.Serve(listener))
}

func seen() { fmt.Fprintln(os.Stderr, "request") }
GO
(
	cd server
	go mod init example.com/server
	go mod edit -require=github.com/weir-go/weir@v0.0.0 -replace=github.com/weir-go/weir="$root" \
		-require=github.com/weir-go/weir/grpcmw@v0.0.0 -replace=github.com/weir-go/weir/grpcmw="$root/grpcmw" \
		-require=google.golang.org/grpc@v1.83.2
	go mod tidy
	go build -o server .
) >build.log 2>&1 || { cat build.log; exit 1; }

cat >config.json <<'JSON'
{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s",
 "backoffMultiplier": 2, "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}
JSON
cat >one.py <<'PY'
import grpc, sys, time
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.service_config", open("config.json").read())])
call = channel.unary_unary("/grpc.health.v1.Health/Check")
for timeout in (10, 10, 1):
    begun = time.time()
    try:
        call(b"", timeout=timeout, wait_for_ready=True)
        said = "OK"
    except grpc.RpcError as e:
        said = "%s %r" % (e.code().name, e.details()[:70])
    print("  deadline %d s: %s after %.1f s" % (timeout, said, time.time() - begun))
PY
cat >one.js <<'JS'
const grpc = require('@grpc/grpc-js');
const config = require('fs').readFileSync('config.json', 'utf8');
const client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure(), { 'grpc.service_config': config });
const call = (timeout) => new Promise((resolve) => {
  const begun = Date.now();
  client.makeUnaryRequest('/grpc.health.v1.Health/Check', (x) => x, (x) => x, Buffer.alloc(0), new grpc.Metadata(),
    { deadline: begun + timeout * 1000 }, (e) => {
      const said = e ? `${grpc.status[e.code]} '${e.details.slice(0, 70)}'` : 'OK';
      console.log(`  deadline ${timeout} s: ${said} after ${((Date.now() - begun) / 1000).toFixed(1)} s`);
      resolve();
    });
});
(async () => { for (const timeout of [10, 10, 1]) await call(timeout); client.close(); })();
JS

ask() { # NAME COMMAND...
	for answer in 429 nethttp tap; do
		coproc server/server $answer 2>requests.log
		server=$!
		read -r address <&"${COPROC[0]}"
		echo "$1, $answer:"
		timeout 60 "${@:2}" "$address" 2>client.log || tail -3 client.log
		echo "  requests: $(grep -c request requests.log)"
		kill $server
		wait $server 2>/dev/null || true
	done
}

python3 -m venv v
v/bin/pip -q install --disable-pip-version-check grpcio==1.85.3
ask "grpcio 1.85.3" v/bin/python one.py
npm init -y >npm.log && npm install --silent @grpc/grpc-js@1.14.7 >npm.log
ask "@grpc/grpc-js 1.14.7" node one.js

if command -v mvn >/dev/null; then
	java=1.85.1
	cat >One.java <<'JAVA'
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthGrpc;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;

public class One {
    public static void main(String[] args) throws Exception {
        // config.json is what gson makes of it: maps, lists, texts and numbers.
        var config = new com.google.gson.Gson().fromJson(Files.readString(Path.of(args[0])), Map.class);
        var channel = ManagedChannelBuilder.forTarget(args[1]).usePlaintext()
            .defaultServiceConfig((Map<String, ?>) config).enableRetry().build();
        for (int timeout : new int[] {10, 10, 1}) {
            long begun = System.nanoTime();
            String said = "OK";
            try {
                HealthGrpc.newBlockingStub(channel).withDeadlineAfter(timeout, TimeUnit.SECONDS)
                    .check(HealthCheckRequest.getDefaultInstance());
            } catch (StatusRuntimeException e) {
                var text = String.valueOf(e.getStatus().getDescription()).lines().findFirst().orElse("");
                said = e.getStatus().getCode() + " '" + text.substring(0, Math.min(70, text.length())) + "'";
            }
            System.out.printf("  deadline %d s: %s after %.1f s%n", timeout, said, (System.nanoTime() - begun) / 1e9);
        }
        channel.shutdownNow();
    }
}
JAVA
	{
		echo '<project><modelVersion>4.0.0</modelVersion><groupId>d</groupId><artifactId>denied</artifactId><version>1</version><dependencies>'
		for artifact in grpc-netty-shaded grpc-stub grpc-services; do
			echo "<dependency><groupId>io.grpc</groupId><artifactId>$artifact</artifactId><version>$java</version></dependency>"
		done
		echo '</dependencies></project>'
	} >pom.xml
	mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >mvn.log 2>&1 || { tail -20 mvn.log; exit 1; }
	javac -nowarn -cp 'lib/*' One.java 2>javac.log || { cat javac.log; exit 1; }
	ask "grpc-java $java" java -cp 'lib/*:.' One config.json
	# A policy that hedges instead: all attempts of a call may run at once.
	sed 's/"retryPolicy".*/"hedgingPolicy": {"maxAttempts": 4, "hedgingDelay": "1s", "nonFatalStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}/; 2d' \
		config.json >hedging.json
	ask "grpc-java $java, hedging" java -cp 'lib/*:.' One hedging.json
fi

if ruby -e 'require "grpc"' 2>ruby.log; then
	cat >one.rb <<'RUBY'
require "grpc"
channel = { "grpc.service_config" => File.read("config.json") }
stub = GRPC::ClientStub.new(ARGV[0], :this_channel_is_insecure, channel_args: channel)
[10, 10, 1].each do |timeout|
  begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  said = begin
    stub.request_response("/grpc.health.v1.Health/Check", "", ->(m) { m }, ->(m) { m }, deadline: Time.now + timeout)
    "OK"
  rescue GRPC::BadStatus => e
    "#{e.class.name.split("::").last} '#{e.details[0, 70]}'"
  end
  puts format("  deadline %d s: %s after %.1f s", timeout, said, Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun)
end
RUBY
	ask "grpc of Ruby $(ruby -e 'require "grpc"; puts GRPC::VERSION')" ruby one.rb
fi

command -v cargo >/dev/null || exit 0
mkdir -p tonic/src
cat >tonic/Cargo.toml <<'TOML'
[package]
name = "one"
version = "0.1.0"
edition = "2021"
[dependencies]
tonic = { version = "=0.14.2", features = ["transport"] }
tonic-health = "=0.14.2"
tokio = { version = "1", features = ["rt-multi-thread", "macros"] }
TOML
cat >tonic/src/main.rs <<'RS'
use tonic::{transport::Endpoint, Request};
use tonic_health::pb::{health_client::HealthClient, HealthCheckRequest};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = format!("http://{}", std::env::args().nth(1).unwrap());
    let mut client = HealthClient::new(Endpoint::new(url)?.connect().await?);
    for timeout in [10, 10, 1] {
        let mut request = Request::new(HealthCheckRequest::default());
        request.set_timeout(std::time::Duration::from_secs(timeout));
        match client.check(request).await {
            Ok(_) => println!("  deadline {timeout} s: OK"),
            Err(s) => println!("  deadline {timeout} s: {:?} {:?}", s.code(), s.message()),
        }
    }
    Ok(())
}
RS
(cd tonic && cargo build -q) >cargo.log 2>&1 || { tail -20 cargo.log; exit 1; }
ask "tonic 0.14.2" tonic/target/debug/one
