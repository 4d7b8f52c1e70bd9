#!/usr/bin/env bash
# Whether weir and envoyproxy/ratelimit answer alike under what Envoy Gateway makes of
# BackendTrafficPolicies. It builds Envoy Gateway and the service from their modules, starts Envoy
# Gateway with the policies of cmd/weir/internal/xds/testdata/envoy-gateway.yaml and certificates of
# its own, lets both services ask it for their limits, and asks both the requests of
# envoy-gateway.txt. Then it adds a policy that Envoy Gateway takes and the original does not. It needs
# go, redis-server, curl and python3, the ports 8081, 18000 to 18002, 19000 and 19001, which Envoy
# Gateway has no setting for, 2 GB in the cache of modules, and ten minutes the first time.
set -euo pipefail
for program in go redis-server curl python3; do
	command -v "$program" >/dev/null || { echo "envoy-gateway.sh: $program is missing, so nothing was run" >&2; exit 0; }
done
gateway=1.9.1 ratelimit=1.4.1-0.20260122083618-3fb702589d36
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=$here/../../cmd/weir/internal/xds/testdata
work=$(mktemp -d)
pids=()
end() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$work"
}
trap end EXIT

# build NAME MODULE@VERSION PACKAGE builds a command under the go.mod of its own module.
build() {
	local dir
	dir=$(cd "$work" && go mod download -json "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
	cp -r "$dir" "$work/$1.src" && chmod -R u+w "$work/$1.src"
	(cd "$work/$1.src" && go build -o "$work/$1" "$3") >&2
	rm -rf "$work/$1.src"
}
build gateway github.com/envoyproxy/gateway@v"$gateway" ./cmd/envoy-gateway
build ratelimit github.com/envoyproxy/ratelimit@v"$ratelimit" ./src/service_cmd
(cd "$here" && go build -o "$work/ask" ./gateway)
(cd "$here/../../cmd/weir" && go build -o "$work/weir" .)
cd "$work"
mkdir home policies
cp "$data/envoy-gateway.yaml" policies
./gateway certgen --local --config-home "$work/home" >&2
cat >gateway.yaml <<-Y
	apiVersion: gateway.envoyproxy.io/v1alpha1
	kind: EnvoyGateway
	gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
	provider:
	  type: Custom
	  custom:
	    resource: {type: File, file: {paths: ["$work/policies"]}}
	    infrastructure:
	      type: Host
	      host: {configHome: "$work/home", dataHome: "$work/home", stateHome: "$work/home", runtimeDir: "$work/home"}
	rateLimit: {backend: {type: Redis, redis: {url: "redis.shop.svc:6379"}}}
	extensionApis: {enableBackend: true}
Y

# until SECONDS COMMAND... waits until it succeeds.
until_ok() {
	local last=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		if ((SECONDS > last)); then
			tail -n 20 ./*.log >&2
			echo "envoy-gateway.sh: in vain: $*" >&2
			exit 1
		fi
		sleep 0.2
	done
}
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
redis=$(port) original=$(port) original_grpc=$(port) original_debug=$(port) check=$(port) operator=$(port)
certs=$work/home/certs/envoy-rate-limit

HOME=$work ./gateway server -c gateway.yaml >gateway.log 2>&1 & pids+=($!)
redis-server --port "$redis" --bind 127.0.0.1 --save "" >redis.log 2>&1 & pids+=($!)
USE_STATSD=false PORT=$original GRPC_PORT=$original_grpc DEBUG_PORT=$original_debug LOG_LEVEL=info \
	REDIS_SOCKET_TYPE=tcp REDIS_URL=127.0.0.1:$redis CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit \
	CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:18001 CONFIG_GRPC_XDS_SERVER_USE_TLS=true \
	CONFIG_GRPC_XDS_CLIENT_TLS_CERT=$certs/tls.crt CONFIG_GRPC_XDS_CLIENT_TLS_KEY=$certs/tls.key \
	CONFIG_GRPC_XDS_SERVER_TLS_CACERT=$certs/ca.crt CONFIG_GRPC_XDS_SERVER_TLS_SAN=envoy-gateway \
	FORCE_START_WITHOUT_INITIAL_CONFIG=true ./ratelimit >ratelimit.log 2>&1 & pids+=($!)
./weir serve --xds 127.0.0.1:18001 --node envoy-ratelimit --xds-tls-ca "$certs/ca.crt" \
	--xds-tls-cert "$certs/tls.crt" --xds-tls-key "$certs/tls.key" --xds-tls-name envoy-gateway \
	--xds-state state.json --check 127.0.0.1:"$check" --grpc "" --operator 127.0.0.1:"$operator" >weir.log 2>&1 & pids+=($!)
until_ok 120 curl -sf http://127.0.0.1:"$operator"/readyz
until_ok 120 grep 'Successfully loaded new configuration' ratelimit.log

echo "Envoy Gateway $gateway, envoyproxy/ratelimit $ratelimit"
python3 - state.json "$data/envoy-gateway.json" <<-'P'
	import json, sys
	def read(name):
	    resources = json.load(open(name))["resources"]
	    for r in resources: r["descriptors"].sort(key=lambda d: d["key"])
	    return sorted(resources, key=lambda r: r["name"])
	if read(sys.argv[1]) != read(sys.argv[2]):
	    sys.exit("Envoy Gateway sends other limits than envoy-gateway.json has")
P
./ask "$data/envoy-gateway.txt" original=http://127.0.0.1:"$original"/json weir=http://127.0.0.1:"$check"/json
echo "$(grep -c '^= ' "$data/envoy-gateway.txt") answers of both services are those of envoy-gateway.txt"

# Each client of a range has a limit, and the range another.
cat >policies/range.yaml <<-'Y'
	apiVersion: gateway.networking.k8s.io/v1
	kind: HTTPRoute
	metadata: {name: range, namespace: shop}
	spec:
	  parentRefs: [{name: eg}]
	  rules:
	    - backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: app}]
	      matches: [{path: {type: PathPrefix, value: /range}}]
	---
	apiVersion: gateway.envoyproxy.io/v1alpha1
	kind: BackendTrafficPolicy
	metadata: {name: range, namespace: shop}
	spec:
	  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: range}]
	  rateLimit:
	    global:
	      rules:
	        - {clientSelectors: [{sourceCIDR: {value: 10.0.0.0/8, type: Distinct}}], limit: {requests: 2, unit: Day}}
	        - {clientSelectors: [{sourceCIDR: {value: 10.0.0.0/8}}], limit: {requests: 100, unit: Day}}
Y
until_ok 60 grep 'a version is taken.*version=2' weir.log
until_ok 60 grep 'duplicate descriptor' ratelimit.log
before=$(grep -c 'duplicate descriptor' ratelimit.log)
sleep 5
after=$(grep -c 'duplicate descriptor' ratelimit.log)
echo "a policy with a limit for each client of a range, and one for the range: weir takes it, the original refuses all limits, $(((after - before) / 5)) times a second"
