package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/gateway/envoy"
)

const file = `domain: bench
descriptors:
  - {key: tenant, rate_limit: {unit: hour, requests_per_unit: 400000000}}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 400000000}}
  - {key: denied, rate_limit: {unit: year, requests_per_unit: 1}}
`

// server is a program under test, or one that it needs.
type server struct {
	name, address string
	proxied       string // where Envoy asks it for each request
	process       *os.Process
	stdin         io.Closer
	folder        string // that it alone uses; "": none
	client        ratelimit.RateLimitServiceClient
}

// running has the servers to end.
var (
	ending  sync.Mutex
	running []*server
)

// end ends all servers but some.
func end(but ...*server) {
	ending.Lock()
	defer ending.Unlock()
	var left []*server
	for _, s := range running {
		if slices.Contains(but, s) {
			left = append(left, s)
			continue
		}
		s.stdin.Close()
		s.process.Kill()
		s.process.Wait()
		if s.folder != "" {
			os.RemoveAll(s.folder)
		}
	}
	running = left
}

// start starts a program, which ends with this one, and waits until it listens on each address.
func start(
	name, folder string, addresses, environment []string, program string, arguments ...string,
) *server {
	cmd := exec.Command(program, arguments...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr, cmd.Dir = os.Stderr, folder
	stdin, err := cmd.StdinPipe() // which closes when this program ends
	if err != nil {
		fail("%v", err)
	}
	if err := cmd.Start(); err != nil {
		fail("%s: %v", name, err)
	}
	s := &server{name: name, process: cmd.Process, stdin: stdin, folder: folder}
	running = append(running, s)
	for _, address := range addresses {
		s.address = address
		for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
				break
			}
			if time.Since(begun) > time.Minute {
				fail("%s: %v", name, err)
			}
		}
	}
	return s
}

// folder makes a folder with a file.
func folder(name, text string) (path, full string) {
	path, err := os.MkdirTemp("", "bench")
	if err != nil {
		fail("%v", err)
	}
	full = filepath.Join(path, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		fail("%v", err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		fail("%v", err)
	}
	return path, full
}

// free returns an address on which nothing listens.
func free() (address, port string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail("%v", err)
	}
	defer listener.Close()
	address = listener.Addr().String()
	_, port, _ = net.SplitHostPort(address)
	return address, port
}

func startRedis() *server {
	address, port := free()
	dir, _ := folder("none", "")
	return start("redis", dir, []string{address}, nil, "redis-server",
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--loglevel", "warning", "--logfile", "log")
}

// startAll starts the services that count in Redis. The local cache of the original has so many
// bytes.
func startAll(redis *server, cache int) (all []*server) {
	for text := range strings.SplitSeq(*weirs, ",") {
		if name, path, ok := strings.Cut(text, "="); ok {
			address, _ := free()
			dir, limits := folder("limits.yaml", file)
			all = append(all, start(name, dir, []string{address}, nil, path,
				"serve", "--check", "", "--operator", "", "--grpc", address,
				"--redis", "redis://"+redis.address, "--redis-budget", "1s", limits))
		}
	}
	if *original != "" {
		address, port := free()
		_, web := free()
		_, debug := free()
		dir, _ := folder("config/limits.yaml", strings.Replace(file, "unit: year", "unit: day", 1))
		all = append(all, start("original", dir, []string{address}, []string{
			"BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.address,
			"REDIS_PIPELINE_WINDOW=150us",
			"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false",
			"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
			"PORT=" + web, "GRPC_PORT=" + port, "DEBUG_PORT=" + debug,
			"DISABLE_STATS=true", "LOG_LEVEL=error", "LOCAL_CACHE_SIZE_IN_BYTES=" + strconv.Itoa(cache),
		}, *original))
	}
	return all
}

// startEnvoy starts one Envoy, which has a listener for each server, one that asks none, and the
// application behind them.
func startEnvoy(all []*server) []*server {
	var listeners, clusters strings.Builder
	_, app := free()
	fmt.Fprintf(&listeners, listener, app, "direct_response: {status: 204}", "")
	fmt.Fprintf(&clusters, cluster, "app", "{http_protocol_options: {}}", "app", "127.0.0.1", app)
	var addresses []string
	plain := &server{name: "no limit"}
	for i, s := range append([]*server{plain}, all...) {
		address, port := free()
		s.proxied, addresses = address, append(addresses, address)
		asks := ""
		if s != plain {
			name := fmt.Sprint("service", i)
			asks = fmt.Sprintf(filter, name)
			host, to, _ := net.SplitHostPort(s.address)
			fmt.Fprintf(&clusters, cluster, name, "{http2_protocol_options: {}}", name, host, to)
		}
		fmt.Fprintf(&listeners, listener, port, "route: {cluster: app}", asks)
	}
	dir, config := folder("envoy.yaml",
		"static_resources:\n  listeners:\n"+listeners.String()+"  clusters:\n"+clusters.String())
	plain.process = start("envoy", dir, addresses, nil, "envoy", "-c", config,
		"--use-dynamic-base-id", "--concurrency", "2", "-l", "error").process
	return append([]*server{plain}, all...)
}

const (
	listener = `    - address: {socket_address: {address: 127.0.0.1, port_value: %s}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": "type.googleapis.com/envoy.extensions.filters.network.\
                  http_connection_manager.v3.HttpConnectionManager"
                stat_prefix: web
                route_config:
                  virtual_hosts:
                    - name: app
                      domains: ["*"]
                      rate_limits:
                        - actions:
                            - {request_headers: {header_name: x-client, descriptor_key: tenant}}
                        - actions:
                            - {request_headers: {header_name: x-denied, descriptor_key: denied}}
                      routes:
                        - {match: {prefix: /}, %s}
                http_filters:
%s                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
`
	filter = `                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": "type.googleapis.com/envoy.extensions.filters.http.\
                        ratelimit.v3.RateLimit"
                      domain: bench
                      failure_mode_deny: true
                      timeout: 2s
                      rate_limit_service:
                        transport_api_version: V3
                        grpc_service: {envoy_grpc: {cluster_name: %s}}
`
	cluster = `    - name: %s
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: %s
      load_assignment:
        cluster_name: %s
        endpoints:
          - lb_endpoints:
              - {endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}
`
)

// startSelf starts this program as a server, or as a busy loop.
func startSelf(what string) *server {
	self, err := os.Executable()
	if err != nil {
		fail("%v", err)
	}
	address, _ := free()
	var addresses []string
	if what != "busy" {
		addresses = []string{address}
	}
	return start(what, "", addresses, nil, self, "-as", what+"@"+address)
}

// decides reports whether s has limits: it does unless it is a floor.
func (s *server) decides() bool { return s.name != "nothing" && s.name != "no limit" }

// nothing is a server that decides nothing: what gRPC itself costs.
type nothing struct {
	ratelimit.UnimplementedRateLimitServiceServer
}

func (nothing) ShouldRateLimit(
	_ context.Context, r *ratelimit.RateLimitRequest,
) (*ratelimit.RateLimitResponse, error) {
	response := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}
	for range r.Descriptors {
		response.Statuses = append(response.Statuses,
			&ratelimit.RateLimitResponse_DescriptorStatus{
				Code: ratelimit.RateLimitResponse_OK, LimitRemaining: 1,
			})
	}
	return response, nil
}

func serve(text string) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	what, address, _ := strings.Cut(text, "@")
	if what == "busy" {
		for n := uint(1); n != 0; n |= 1 {
		}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	server := envoy.MustNewServer(envoy.ServerOptions{})
	if what == "nothing" {
		ratelimit.RegisterRateLimitServiceServer(server, nothing{})
	} else {
		config, err := descriptors.Parse(descriptors.File{Name: "bench", Text: []byte(file)})
		if err != nil {
			log.Fatal(err)
		}
		service := descriptors.MustNew(config, descriptors.Options{})
		envoy.RegisterRateLimits(server, service, envoy.RateLimitOptions{})
	}
	log.Fatal(server.Serve(listener))
}

// used returns the processor time of the server, as Linux counts it.
func (s *server) used() time.Duration {
	return usedBy(s.process.Pid)
}

// usedByAll returns the processor time of this program and of all servers but busy loops.
func usedByAll() time.Duration {
	all := usedBy(os.Getpid())
	for _, s := range running {
		if s.name != "busy" {
			all += s.used()
		}
	}
	return all
}

func usedBy(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		fail("%v", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
