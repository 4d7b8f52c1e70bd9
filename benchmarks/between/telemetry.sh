#!/usr/bin/env bash
# What becomes of telemetry that weir denies: the SDKs of OpenTelemetry and of Sentry, the Collector,
# and Prometheus. It needs go, python3 and npm, takes a quarter of an hour, and runs Prometheus if
# Debian's is installed. With words as arguments it runs the programs alone whose names begin so.
set -euo pipefail
for program in go python3 npm; do
	command -v "$program" >/dev/null || { echo "telemetry.sh: $program is missing, so nothing was run" >&2; exit 0; }
done
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$here" && go build -o "$work/telemetry" ./telemetry)
cd "$work"
names=" $* "
wanted() { [[ "$names" == "  " || "$names" == *" $1 "* ]]; }

otel_python=1.45.2 otel_js=0.301.0 otel_go=1.47.0 collector=0.165.0
sentry_python=2.75.0 sentry_js=11.12.0 sentry_go=0.50.0

# run NAME RELEASE OPTION... -- COMMAND... prints the rows of a program.
run() {
	local name=$1 release=$2
	shift 2
	./telemetry -client "$name" -release "$release" "$@" || echo "$name: not run" >&2
}
# sentry NAME RELEASE COMMAND... runs an SDK of Sentry with its field, and without.
sentry() {
	local name=$1 release=$2
	shift 2
	run "$name" "$release" -kind sentry -- "$@"
	run "$name" "$release" -kind sentry -named -- "$@"
}
# module NAME MODULE@VERSION... builds the program NAME.go as NAME.
module() {
	local name=$1
	shift
	mkdir "$name.dir"
	mv "$name.go" "$name.dir/main.go"
	(cd "$name.dir" && go mod init example.com/client && go get "$@" && go mod tidy && go build -o "../$name" .) \
		>"$name.log" 2>&1 || { tail -n 20 "$name.log" >&2; return 1; }
}

./telemetry -head

if wanted opentelemetry-sdk || wanted sentry-sdk; then
	python3 -m venv venv
	venv/bin/pip install -q --disable-pip-version-check sentry-sdk=="$sentry_python" \
		opentelemetry-sdk=="$otel_python" opentelemetry-exporter-otlp-proto-http=="$otel_python" >&2
fi
if wanted opentelemetry-sdk; then
	cat >otel.py <<'P'
import os, time
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

exporter = OTLPSpanExporter(endpoint=os.environ["URL"] + "/v1/traces")
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=200))
tracer = provider.get_tracer("t")
for i in range(10):
    tracer.start_span(f"batch-{i}").end()
    time.sleep(1)
provider.shutdown()
P
	run 'opentelemetry-sdk (Python)' "$otel_python" -- venv/bin/python otel.py
fi

if wanted @opentelemetry/sdk-trace; then
	mkdir js && cd js
	npm init -y >/dev/null
	npm install --silent --no-fund --no-audit node@24.21.0 @opentelemetry/sdk-trace@3.1.0 @opentelemetry/api@1.10.0 \
		@opentelemetry/exporter-trace-otlp-http@"$otel_js" >&2
	cat >otel.mjs <<'J'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'

const exporter = new OTLPTraceExporter({ url: process.env.URL + '/v1/traces' })
const provider = new TracerProvider({ spanProcessors: [new BatchSpanProcessor({ exporter, scheduledDelayMillis: 200 })] })
const tracer = provider.getTracer('t')
for (let i = 0; i < 10; i++) {
  tracer.startSpan(`batch-${i}`).end()
  await new Promise((done) => setTimeout(done, 1000))
}
await provider.shutdown()
J
	cd ..
	run '@opentelemetry/sdk-trace' "3.1.0, exporter $otel_js" -- js/node_modules/.bin/node js/otel.mjs
fi

if wanted go.opentelemetry.io/otel; then
	cat >otelgo.go <<'G'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(os.Getenv("URL")+"/v1/traces"))
	if err != nil {
		panic(err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter, trace.WithBatchTimeout(200*time.Millisecond)))
	for i := range 10 {
		_, span := provider.Tracer("t").Start(ctx, fmt.Sprint("batch-", i))
		span.End()
		time.Sleep(time.Second)
	}
	provider.Shutdown(ctx)
}
G
	module otelgo go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp@v"$otel_go"
	run 'go.opentelemetry.io/otel' "$otel_go" -- ./otelgo
fi

if wanted go.opentelemetry.io/collector; then
	cat >collector.go <<'G'
package main

import (
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func factories() (f otelcol.Factories, err error) {
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlphttpexporter.NewFactory())
	f.Telemetry = otelconftelemetry.NewFactory()
	return f, err
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme:     "file",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
		}},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
G
	module collector go.opentelemetry.io/collector/otelcol@v"$collector" \
		go.opentelemetry.io/collector/receiver/otlpreceiver@v"$collector" \
		go.opentelemetry.io/collector/exporter/otlphttpexporter@v"$collector"
	cat >collector.sh <<'B'
# Ten batches through a Collector. It has 75 seconds to pass them on.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
config=$(mktemp -p .)
cat >"$config" <<Y
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:$port"}}}}
exporters: {otlp_http: {endpoint: "$URL"}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}
Y
./collector --config "$config" &
for _ in $(seq 300); do curl -s -o /dev/null "http://127.0.0.1:$port/" && break; sleep 0.2; done
for i in 0 1 2 3 4 5 6 7 8 9; do
	curl -s -o /dev/null -H 'Content-Type: application/json' "http://127.0.0.1:$port/v1/traces" -d '{"resourceSpans":[{"scopeSpans":[{"spans":[
		{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"batch-'$i'","kind":2,
		"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000"}]}]}]}'
	sleep 1
done
sleep 65
kill %1
wait
B
	run 'go.opentelemetry.io/collector' "$collector" -stop 120s -- bash collector.sh
fi

if wanted sentry-sdk; then
	cat >sentry.py <<'P'
import os, time
import sentry_sdk

sentry_sdk.init(dsn=f"http://k@127.0.0.1:{os.environ['PORT']}/1", traces_sample_rate=1.0)
for i in range(10):
    with sentry_sdk.start_transaction(name=f"trade-{i}", op="t"):
        pass
    time.sleep(0.2)
    sentry_sdk.capture_message(f"batch-{i}")
    time.sleep(0.8)
sentry_sdk.flush(10)
P
	sentry sentry-sdk "$sentry_python" venv/bin/python sentry.py
fi

if wanted @sentry/node; then
	mkdir sentry && cd sentry
	npm init -y >/dev/null
	npm install --silent --no-fund --no-audit node@24.21.0 @sentry/node@"$sentry_js" >&2
	cat >sentry.mjs <<'J'
import * as Sentry from '@sentry/node'

const pause = (ms) => new Promise((done) => setTimeout(done, ms))
Sentry.init({ dsn: `http://k@127.0.0.1:${process.env.PORT}/1`, tracesSampleRate: 1 })
for (let i = 0; i < 10; i++) {
  Sentry.startSpan({ name: `trade-${i}`, op: 't' }, () => {})
  await pause(200)
  Sentry.captureMessage(`batch-${i}`)
  await pause(800)
}
await Sentry.flush(10000)
process.exit(0)
J
	cd ..
	sentry @sentry/node "$sentry_js" sentry/node_modules/.bin/node sentry/sentry.mjs
fi

if wanted github.com/getsentry/sentry-go; then
	cat >sentrygo.go <<'G'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/getsentry/sentry-go"
)

func main() {
	err := sentry.Init(sentry.ClientOptions{
		Dsn:           "http://k@127.0.0.1:" + os.Getenv("PORT") + "/1",
		EnableTracing: true, TracesSampleRate: 1,
	})
	if err != nil {
		panic(err)
	}
	for i := range 10 {
		sentry.StartTransaction(context.Background(), fmt.Sprint("trade-", i)).Finish()
		time.Sleep(200 * time.Millisecond)
		sentry.CaptureMessage(fmt.Sprint("batch-", i))
		time.Sleep(800 * time.Millisecond)
	}
	sentry.Flush(10 * time.Second)
}
G
	module sentrygo github.com/getsentry/sentry-go@v"$sentry_go"
	sentry github.com/getsentry/sentry-go "$sentry_go" ./sentrygo
fi

if wanted prometheus && command -v prometheus >/dev/null; then
	release=$(prometheus --version 2>&1 | sed -n 's/^prometheus, version \([0-9.]*\).*/\1/p')
	cat >target.py <<'P'
import http.server, time

n = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global n
        # A sample with a time has no marker of its end, which would be a second one of its name.
        body = f'sent{{name="batch-{n}"}} 1 {int(time.time() * 1000)}\n'.encode() if n < 10 else b"after 1\n"
        n += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
P
	cat >prometheus.sh <<'B'
# Ten scrapes that an agent writes on. It has 75 seconds for them.
mkfifo "port.$$"
python3 target.py >"port.$$" &
read -r port <"port.$$"
cat >"prometheus.$$.yml" <<Y
global: {scrape_interval: 1s}
scrape_configs: [{job_name: j, static_configs: [{targets: ["127.0.0.1:$port"]}]}]
remote_write: [{url: "$URL/write", queue_config: {batch_send_deadline: 200ms, retry_on_http_429: $1}}]
Y
prometheus --enable-feature=agent --config.file="prometheus.$$.yml" --storage.agent.path="prometheus.$$" \
	--web.listen-address=127.0.0.1:0 --log.level=error &
sleep 75
kill -9 %1 %2
B
	run 'prometheus, remote write' "$release" -kind prometheus -stop 120s -- bash prometheus.sh false
	run 'prometheus, `retry_on_http_429`' "$release" -kind prometheus -stop 120s -- bash prometheus.sh true
fi

if wanted github.com/grafana/loki-client-go; then
	cat >loki.go <<'G'
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/grafana/loki-client-go/loki"
	"github.com/prometheus/common/model"
)

func main() {
	config, err := loki.NewDefaultConfig(os.Getenv("URL") + "/loki/api/v1/push")
	if err != nil {
		panic(err)
	}
	config.BatchWait = 200 * time.Millisecond
	client, err := loki.New(config)
	if err != nil {
		panic(err)
	}
	for i := range 10 {
		client.Handle(model.LabelSet{"job": "j"}, time.Now(), fmt.Sprint("batch-", i))
		time.Sleep(time.Second)
	}
	client.Stop()
}
G
	module loki github.com/grafana/loki-client-go@v0.0.0-20240913122146-e119d400c3a5
	run github.com/grafana/loki-client-go e119d400c3a5 -kind loki -stop 120s -- ./loki
fi
