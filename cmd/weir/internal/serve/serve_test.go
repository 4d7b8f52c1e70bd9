package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authorization "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/policy"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/stats"
)

const (
	rules = `version: 1
client: {peer: true}
rules:
  - {name: per-client, key: address, limit: 1/day}
`
	byDescriptor = `domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: year, requests_per_unit: 1}}
`
)

// fileOf writes a file, and returns its path.
func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// running is a service in this process.
type running struct {
	check, grpc, operator string
	stop                  context.CancelFunc
	reload, hurry         chan struct{}
	ended                 chan error
	log                   *bytes.Buffer // to be read once the service has ended
}

func start(t *testing.T, config Config) *running {
	t.Helper()
	r := &running{ended: make(chan error, 1), log: new(bytes.Buffer),
		reload: make(chan struct{}), hurry: make(chan struct{})}
	config.Reload, config.Hurry = r.reload, r.hurry
	if config.Check == "" {
		config.Check = "127.0.0.1:0"
	}
	if config.Operator == "" {
		config.Operator = "127.0.0.1:0"
	}
	config.GRPC = "127.0.0.1:0"
	config.Proxies = []string{"127.0.0.1", "unix"}
	config.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	listening := make(chan struct{})
	config.Listening = func(check, grpc, operator net.Addr) {
		r.check, r.grpc, r.operator = check.String(), grpc.String(), operator.String()
		close(listening)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	go func() { r.ended <- Run(ctx, config) }()
	select {
	case <-listening:
	case err := <-r.ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.stop()
		<-r.ended
	})
	return r
}

// end ends the service, and returns its error.
func (r *running) end() error {
	r.stop()
	err := <-r.ended
	r.ended <- err
	return err
}

// ask asks for a check of an original request, whose fields change may change.
func ask(t *testing.T, client *http.Client, url string, change ...func(http.Header)) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {"shop.example"},
		"X-Forwarded-Uri": {"/"}, "X-Forwarded-For": {"203.0.113.7"},
	}
	for _, c := range change {
		c(r.Header)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode, response.Header
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func dialTo(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A proxy may pass a request on if its check failed.
func TestAClientThatSendsManyFieldsIsCounted(t *testing.T) {
	r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, DeniedStatus: 403})
	many := func(h http.Header) { h["X-Many"] = slices.Repeat([]string{"1"}, 3000) }
	for _, want := range []int{204, 403} {
		if got, _ := ask(t, http.DefaultClient, "http://"+r.check+"/check", many); got != want {
			t.Errorf("a check: %d, want %d", got, want)
		}
	}
}

func TestOneProcessAnswersAllProxies(t *testing.T) {
	r := start(t, Config{
		Paths:        []string{fileOf(t, "weir.yaml", rules), fileOf(t, "limits.yaml", byDescriptor)},
		DeniedStatus: 403,
	})
	for _, want := range []int{204, 403} {
		if got, h := ask(t, http.DefaultClient, "http://"+r.check+"/check"); got != want || h.Get("RateLimit") == "" {
			t.Errorf("a check: %d, want %d, %v", got, want, h)
		}
	}
	asked := &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}},
	}}}
	if a, err := ratelimit.NewRateLimitServiceClient(dialTo(t, r.grpc)).ShouldRateLimit(t.Context(), asked); err != nil ||
		a.OverallCode != ratelimit.RateLimitResponse_OK {
		t.Errorf("%v, %v", a, err)
	}
	response, err := http.Post("http://"+r.check+"/json", "application/json",
		strings.NewReader(`{"domain":"shop","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`))
	if err != nil || response.StatusCode != 429 {
		t.Errorf("%v, %v", response, err)
	} else {
		response.Body.Close()
	}
	for path, want := range map[string]string{
		"/healthz": "OK\n", "/readyz": "OK\n", "/": "<!doctype html>",
		"/metrics": `weir_rule_binding_total{limiter="checks",rule="per-client"} 1`,
	} {
		if status, body := get(t, "http://"+r.operator+path); status != 200 ||
			!strings.Contains(strings.ToLower(body), strings.ToLower(want)) {
			t.Errorf("%s: %d %.300s", path, status, body)
		}
	}
	_, metrics := get(t, "http://"+r.operator+"/metrics")
	for _, want := range []string{`weir_descriptor_hits_total{domain="shop",rule="tenant",result="over"} 1`, `weir_memory_keys{`, `# TYPE weir_requests_total counter`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// A registry: of one address, three probes pass and the fourth is denied, whatever it has asked before.
func TestProbesHaveALimitOfTheirOwnForAllProxies(t *testing.T) {
	const probing = `version: 1
client: {peer: true}
rules:
  - {name: requests, except: ["GET /v2/{$}", GET /healthz], key: address, limit: 1/day}
  - {name: probes, match: ["GET /v2/{$}", GET /healthz], key: address, limit: 3/day}
`
	const described = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: {unit: year, requests_per_unit: 1}
    descriptors:
      - {key: probe, value: /v2/, rate_limit: {unit: year, requests_per_unit: 3}}
`
	r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", probing), fileOf(t, "limits.yaml", described)}})
	envoy := authorization.NewAuthorizationClient(dialTo(t, r.grpc))
	ways := map[string]func(path string) (allowed bool){
		"a check over HTTP": func(path string) bool {
			of := func(h http.Header) { h.Set("X-Forwarded-Uri", path) }
			status, _ := ask(t, http.DefaultClient, "http://"+r.check+"/check", of)
			return status == 204
		},
		"ext_authz": func(path string) bool {
			address := &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: "198.51.100.8"}}
			of := &authorization.AttributeContext{
				Source: &authorization.AttributeContext_Peer{Address: &core.Address{Address: address}},
				Request: &authorization.AttributeContext_Request{Http: &authorization.AttributeContext_HttpRequest{
					Method: "GET", Path: path, Host: "shop.example", Scheme: "http", Protocol: "HTTP/1.1",
				}},
			}
			a, err := envoy.Check(t.Context(), &authorization.CheckRequest{Attributes: of})
			if err != nil {
				t.Fatal(err)
			}
			return a.GetStatus().GetCode() == 0
		},
		"JSON": func(path string) bool {
			probe := ""
			if path == "/v2/" || path == "/healthz" {
				probe = `,{"key":"probe","value":"/v2/"}`
			}
			entries := `[{"key":"remote_address","value":"203.0.113.7"}` + probe + `]`
			response, err := http.Post("http://"+r.check+"/json", "application/json",
				strings.NewReader(`{"domain":"shop","descriptors":[{"entries":`+entries+`}]}`))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			return response.StatusCode == 200
		},
	}
	for name, allowed := range ways {
		for i, c := range []struct {
			path string
			want bool
		}{
			{"/v2/app/manifests/1", true}, {"/v2/app/manifests/1", false},
			{"/v2/", true}, {"/healthz", true}, {"/v2/", true}, {"/v2/", false},
			{"/v2/app/manifests/1", false},
		} {
			if got := allowed(c.path); got != c.want {
				t.Errorf("%s: request %d, for %s: %v, want %v", name, i+1, c.path, got, c.want)
			}
		}
	}
}

func TestADeniedCheckIsReadByLibrariesOfBotsIfAskedFor(t *testing.T) {
	for _, bots := range []bool{false, true} {
		r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, Bots: bots})
		ask(t, http.DefaultClient, "http://"+r.check+"/check")
		request, _ := http.NewRequest("GET", "http://"+r.check+"/check", nil)
		request.Header = http.Header{
			"X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {"shop.example"},
			"X-Forwarded-Uri": {"/"}, "X-Forwarded-For": {"203.0.113.7"},
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			RetryAfter int `json:"retry_after"`
			Parameters *struct {
				RetryAfter int `json:"retry_after"`
			}
		}
		err = json.NewDecoder(response.Body).Decode(&body)
		response.Body.Close()
		if err != nil || response.StatusCode != 429 ||
			strconv.Itoa(body.RetryAfter) != response.Header.Get("Retry-After") ||
			(body.Parameters != nil) != bots || bots && body.Parameters.RetryAfter != body.RetryAfter {
			t.Errorf("bots %v: status %d, %+v, %v", bots, response.StatusCode, body, err)
		}
	}
}

func TestDeniedChecksAreToldTurnsIfAskedFor(t *testing.T) {
	slow := "version: 1\nrules: [{name: all, key: everybody, limit: token-bucket 1/1h burst 1}]\n"
	for reach, want := range map[time.Duration]int{0: 1, 12 * time.Hour: 2} {
		r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", slow)}, MaxPromise: reach})
		hours := 0
		for range 3 {
			request, _ := http.NewRequest("GET", "http://"+r.check+"/check", nil)
			request.Header = http.Header{
				"X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {"shop.example"},
				"X-Forwarded-Uri": {"/"}, "X-Forwarded-For": {"203.0.113.7"},
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
			hours = (seconds + 1800) / 3600
		}
		if hours != want {
			t.Errorf("%v: the second denial waits for %d hours, want %d", reach, hours, want)
		}
	}
}

func TestServicesOnOneRedisCountEachOther(t *testing.T) {
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	server := testrun.Command(t, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	for answers := false; !answers; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if answers = err == nil; answers {
			conn.Close()
		}
	}
	config := Config{
		Paths: []string{fileOf(t, "weir.yaml", rules), fileOf(t, "limits.yaml", byDescriptor)},
		Redis: "redis://" + address, Lease: time.Second, Heartbeat: true, // with leases, a service has two backends
	}
	for _, want := range []string{"1", "2"} {
		r, got := start(t, config), ""
		for got == "" { // until the first beat is answered
			_, metrics := get(t, "http://"+r.operator+"/metrics")
			_, got, _ = strings.Cut(metrics, `weir_instances{limiter="checks"} `)
			got, _, _ = strings.Cut(got, "\n")
		}
		if got != want {
			t.Errorf("service %s counts %s", want, got)
		}
	}
}

// The server wants a client's certificate, and a user whose password changes.
func TestRedisIsReachedByCertificatesAndAPasswordFile(t *testing.T) {
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	a := newAuthority(t)
	_, _, cert, key := sign(t, a, "redis")
	_, _, clientCert, clientKey := sign(t, a, "weir")
	ca := fileOf(t, "ca.pem", string(a.pem))
	const acl = "user default off\nuser weir on ~* &* +@all >first\n"
	accessList := fileOf(t, "users.acl", acl)
	server := testrun.Command(t, "redis-server", "--port", "0", "--tls-port", port, "--bind", "127.0.0.1",
		"--save", "", "--dir", t.TempDir(), "--tls-ca-cert-file", ca, "--tls-cert-file", fileOf(t, "cert.pem", string(cert)),
		"--tls-key-file", fileOf(t, "key.pem", string(key)), "--tls-auth-clients", "yes", "--aclfile", accessList)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	for answers := false; !answers; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if answers = err == nil; answers {
			conn.Close()
		}
	}
	password := fileOf(t, "password", "first\n")
	config := Config{
		Paths: []string{fileOf(t, "weir.yaml", rules)}, Redis: "rediss://weir@" + address, Budget: time.Minute,
		Access: RedisAccess{
			CA: ca, Cert: fileOf(t, "client.pem", string(clientCert)), Key: fileOf(t, "client.key", string(clientKey)),
			PasswordFile: password,
		},
	}
	access, err := config.Access.open(config.Redis)
	if err != nil {
		t.Fatal(err)
	}
	b, err := redisbackend.OpenAs(config.Redis, access, redisbackend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, err := redis.ParseURL(config.Redis)
	if err != nil {
		t.Fatal(err)
	}
	o.TLSConfig, o.Username, o.Password = access.TLS, "weir", "first"
	people := redis.NewClient(o)
	defer people.Close()
	if err := people.Do(t.Context(), "ACL", "SETUSER", "weir", "resetpass", ">second").Err(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(password, []byte("second\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// the connections that are there end, and the next has the new password
	if err := people.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	r := start(t, config)
	for _, want := range []int{204, 429} {
		if got, h := ask(t, http.DefaultClient, "http://"+r.check+"/check"); got != want {
			t.Errorf("%d, want %d, %v", got, want, h)
		}
	}
	r.end()
	if strings.Contains(r.log.String(), "Redis will not do") || strings.Contains(r.log.String(), "second\"") {
		t.Errorf("%s", r.log)
	}
	keys, err := people.DBSize(t.Context()).Result()
	if err != nil || keys == 0 {
		t.Errorf("%d keys, %v: the memory has counted", keys, err)
	}
	config.Access.Cert, config.Access.Key = "", ""
	access, _ = config.Access.open(config.Redis)
	without, err := redisbackend.OpenAs(config.Redis, access, redisbackend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if err := without.Check(t.Context()); err == nil {
		t.Error("Redis answers a client without a certificate")
	}
}

func TestWhatRedisIsReachedByIsCheckedBefore(t *testing.T) {
	for want, c := range map[string]Config{
		"are for Redis":        {Access: RedisAccess{PasswordFile: "p"}},
		"name both":            {Redis: "rediss://a", Access: RedisAccess{Cert: "c"}},
		"rediss://":            {Redis: "redis://a", Access: RedisAccess{CA: "c"}},
		"have a password each": {Redis: "redis://a:b@c", Access: RedisAccess{PasswordFile: "p"}},
	} {
		c.Check = ":8080"
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, a := range []RedisAccess{
		{CA: fileOf(t, "ca", "x")}, {CA: "/none"}, {Cert: "/none", Key: "/none"},
		{PasswordFile: "/none"}, {PasswordFile: fileOf(t, "empty", "\n")},
	} {
		if _, err := a.open("rediss://a"); err == nil {
			t.Errorf("%+v is no mistake", a)
		}
	}
}

func TestMetricsAreInTheFormatOfPrometheus(t *testing.T) {
	promtool := testrun.Program(t, "promtool")
	r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules), fileOf(t, "limits.yaml", byDescriptor)}})
	ask(t, http.DefaultClient, "http://"+r.check+"/check")
	_, metrics := get(t, "http://"+r.operator+"/metrics")
	cmd := testrun.Command(t, promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(metrics)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	w := new(recorder)
	metricsOf(func() []stats.Metric {
		return []stats.Metric{
			{
				Name:   "a",
				Labels: []string{"x"},
				Kind:   "counter",
				Help:   "one\ntwo",
				Series: []stats.Series{{Labels: []string{"q\"\\\n\xff"}, Value: 2}},
			},
			{
				Name: "h",
				Kind: "histogram",
				Series: []stats.Series{
					{
						Histogram: stats.Histogram{
							Bounds: []time.Duration{time.Second},
							Counts: []int64{1, 2},
							Sum:    5 * time.Second,
						},
					},
				},
			},
		}
	}).ServeHTTP(w, nil)
	const want = "# HELP a one\\ntwo\n# TYPE a counter\na{x=\"q\\\"\\\\\\n�\"} 2\n# HELP h \n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 3\nh_sum 5\nh_count 3\n"
	if got := w.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

type recorder struct{ bytes.Buffer }

func (*recorder) Header() http.Header { return http.Header{} }
func (*recorder) WriteHeader(int)     {}

func TestRequestsInFlightEndOrAreEnded(t *testing.T) {
	for _, drain := range []time.Duration{time.Hour, time.Millisecond} {
		r := start(t, Config{Paths: []string{fileOf(t, "limits.yaml", byDescriptor)}, Drain: drain})
		ctx, leave := context.WithCancel(t.Context())
		stream, err := healthpb.NewHealthClient(dialTo(t, r.grpc)).
			Watch(ctx, &healthpb.HealthCheckRequest{Service: "ratelimit"})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
			if status, err := stream.Recv(); err != nil && drain == time.Hour || err == nil && status.Status != want {
				t.Errorf("drain %v: %v, %v", drain, status, err)
			}
			r.stop()
		}
		if drain == time.Hour { // it waits for the stream, and tells of it
			if status, _ := get(t, "http://"+r.operator+"/readyz"); status != 503 {
				t.Errorf("ready: %d", status)
			}
			if status, _ := get(t, "http://"+r.operator+"/healthz"); status != 200 {
				t.Errorf("healthy: %d", status)
			}
		} else {
			defer leave()
			if err := r.end(); err != nil {
				t.Error(err)
			}
			continue
		}
		leave()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(r.log.String(), "serve: ended") {
			t.Errorf("the end is not logged:\n%s", r.log)
		}
	}
}

// What probes see comes first, so that no proxy asks a listener that has closed.
// The default command of the image names a directory.
func TestADirectoryMayHaveFilesOfBothKinds(t *testing.T) {
	for _, files := range []map[string]string{
		{"weir.yaml": rules}, {"limits.yaml": byDescriptor}, {"weir.yaml": rules, "limits.yaml": byDescriptor},
	} {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := start(t, Config{Paths: []string{dir}})
		want := 404
		if files["weir.yaml"] != "" {
			want = 204
		}
		if got, _ := ask(t, http.DefaultClient, "http://"+r.check+"/check"); got != want {
			t.Errorf("%v: a check is answered %d, want %d", files, got, want)
		}
		_, metrics := get(t, "http://"+r.operator+"/metrics")
		if got := strings.Contains(metrics, "weir_descriptor_"); got != (files["limits.yaml"] != "") {
			t.Errorf("%v: limits by descriptors: %v", files, got)
		}
	}
	all, err := sort([]string{fileOf(t, "broken.yaml", "rules: [\n")})
	if all.policy == "" || all.limits != nil || err != nil {
		t.Errorf("a policy that is not YAML: %+v, %v", all, err)
	}
}

// DNS rebinding: a page in a browser asks by a name of its own, which leads here.
func TestMetricsAreServedUnderNamesOfTheServiceAlone(t *testing.T) {
	r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, OperatorHosts: []string{"weir.internal"}})
	for _, one := range []struct {
		host          string
		metrics, page int
	}{
		{"localhost:6070", 200, 200}, {"weir.internal", 200, 200}, {"WEIR.internal:6070", 200, 200}, {"[::1]:6070", 200, 200},
		{"10.2.3.4:6070", 200, 421}, {"[2001:db8::1]", 200, 421},
		{"evil.example", 421, 421}, {"evil.example:6070", 421, 421}, {"127.0.0.1.evil.example", 421, 421},
	} {
		for path, want := range map[string]int{"/metrics": one.metrics, "/": one.page, "/readyz": 200} {
			q, err := http.NewRequest("GET", "http://"+r.operator+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Host = one.host
			response, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s of %s: %d, want %d", path, one.host, response.StatusCode, want)
			}
		}
	}
}

func TestAServiceIsNotReadyBeforeItsListenersClose(t *testing.T) {
	paths := []string{fileOf(t, "weir.yaml", "version: 1\nclient: {peer: true}\nrules:\n"+
		"  - {name: all, key: everybody, limit: 1000/day}\n"), fileOf(t, "limits.yaml", byDescriptor)}
	r := start(t, Config{Paths: paths, DrainDelay: time.Hour, Drain: time.Hour})
	stream, err := healthpb.NewHealthClient(dialTo(t, r.grpc)).
		Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := stream.Recv(); err != nil || status.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", status, err)
	}
	r.stop()
	if status, err := stream.Recv(); err != nil || status.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("%v, %v", status, err)
	}
	for url, want := range map[string]int{
		"http://" + r.operator + "/readyz": 503, "http://" + r.operator + "/healthz": 200,
		"http://" + r.check + "/healthcheck": 503,
	} {
		if got, _ := get(t, url); got != want {
			t.Errorf("%s: %d, want %d", url, got, want)
		}
	}
	for range 3 { // on new connections
		got, h := ask(t, http.DefaultClient, "http://"+r.check+"/check")
		if got != 204 {
			t.Errorf("a check is answered %d, %v", got, h)
		}
	}
	asked := &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "tenant", Value: "acme"}},
	}}}
	if _, err := ratelimit.NewRateLimitServiceClient(dialTo(t, r.grpc)).ShouldRateLimit(t.Context(), asked); err != nil {
		t.Error(err)
	}
	close(r.hurry)
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

func TestReloadPutsFilesIntoForceAtOnce(t *testing.T) {
	path, limits := fileOf(t, "weir.yaml", rules), fileOf(t, "limits.yaml", byDescriptor)
	r := start(t, Config{Paths: []string{path, limits}})
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, strings.Replace(rules, "1/day", "7/day", 1))
	write(limits, strings.Replace(byDescriptor, "unit: 1", "unit: 5", 1))
	for range 3 { // the second is handed on once the first is done, and the third received after that
		r.reload <- struct{}{}
	}
	_, h := ask(t, http.DefaultClient, "http://"+r.check+"/check")
	if !strings.Contains(h.Get("RateLimit-Policy"), "q=7") {
		t.Errorf("the policy was not applied: %v", h)
	}
	r.end()
	if n := strings.Count(r.log.String(), "policy: applied"); n != 1 {
		t.Errorf("the policy was applied %d times:\n%s", n, r.log)
	}
	if n := strings.Count(r.log.String(), "descriptors: applied"); n != 1 {
		t.Errorf("the limits were applied %d times:\n%s", n, r.log)
	}
}

func TestAClosedReloadChannelAsksForNothing(t *testing.T) {
	r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}})
	close(r.reload)
	ask(t, http.DefaultClient, "http://"+r.check+"/check")
	if err := r.end(); err != nil {
		t.Error(err)
	}
	log := strings.TrimSpace(r.log.String())
	if strings.Contains(log, "files are read again") {
		t.Errorf("a closed channel asks for files:\n%.2000s", log)
	}
	if last := log[strings.LastIndex(log, "\n")+1:]; !strings.Contains(last, "serve: ended") {
		t.Errorf("the last line is %s", last)
	}
}

func TestAChangedPolicyMustSuitTheService(t *testing.T) {
	path := fileOf(t, "weir.yaml", rules)
	s := &service{
		Config:   Config{Paths: []string{path}, Logger: slog.New(slog.DiscardHandler)},
		counters: stats.New(stats.Options{}),
	}
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		strings.Replace(rules, "1/day", "concurrent 3", 1):                                                                   "sees no end",
		strings.Replace(rules, "key: address", "key: route", 1) + "  - {name: r, route: /a, key: everybody, limit: 5/day}\n": "routes",
		strings.Replace(rules, "1/day", "7/day", 1):                                                                          "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := policy.Load(path, policy.Names[*http.Request]{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.apply(p); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestAUnixSocketIsUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	client := &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}, DisableKeepAlives: true},
	}
	for range 2 {
		r := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, Check: "unix:" + path})
		if got, _ := ask(t, client, "http://weir/check"); got != 204 {
			t.Errorf("%d", got)
		}
		if _, err := listen("unix:"+path, permissions{}); err == nil {
			t.Error("two processes listen on one socket")
		}
		r.end()
		left, err := net.Listen("unix", path) // as a process that was killed leaves it
		if err != nil {
			t.Fatal(err)
		}
		left.(*net.UnixListener).SetUnlinkOnClose(false)
		left.Close()
	}
	if _, err := listen("unix:"+fileOf(t, "notes.txt", "mine"), permissions{}); err == nil {
		t.Error("a file was removed")
	}
}

// A socket that refuses connections has no listener. Any other error says nothing of it.
func TestASocketThatAnotherProcessUsesStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.sock")
	other, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if l, err := listen("unix:"+path, permissions{}); err == nil {
		l.Close()
		t.Error("the socket of another process was removed")
	}
}

func TestASocketHasTheModeAndGroupOfTheFlags(t *testing.T) {
	group := strconv.Itoa(os.Getgid())
	for socket, want := range map[Socket]fs.FileMode{
		{Mode: "0600"}: 0o600, {Mode: "666"}: 0o666, {Group: group}: 0o660, {Mode: "0770", Group: group}: 0o770,
	} {
		path := filepath.Join(t.TempDir(), "weir.sock")
		start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, Check: "unix:" + path, Socket: socket})
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%+v: %v, want %v", socket, got, want)
		}
	}
	for _, socket := range []Socket{{Mode: "rw"}, {Mode: "01777"}, {Mode: "0"}, {Group: "no such group"}} {
		c := Config{Check: "unix:a", Socket: socket}
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), "--socket-") {
			t.Errorf("%+v: %v", socket, err)
		}
	}
	if err := (&Config{Check: ":8080", Socket: Socket{Mode: "0660"}}).validate(); err == nil {
		t.Error("a mode without a socket is no mistake")
	}
}

func TestTheOperatorsPageIsThereOverAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "operator.sock")
	start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, Operator: "unix:" + path})
	client := &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}, DisableKeepAlives: true},
	}
	for _, page := range []string{"/", "/metrics", "/healthz"} {
		response, err := client.Get("http://localhost" + page)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 {
			t.Errorf("%s: %d", page, response.StatusCode)
		}
	}
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := new(authority)
	a.cert, a.key, a.pem, _ = sign(t, nil, "authority")
	return a
}

// sign returns a certificate with its key, by a or by itself.
func sign(
	t *testing.T,
	a *authority,
	name string,
) (cert *x509.Certificate, key *ecdsa.PrivateKey, certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: a == nil, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
	}
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	der8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der8})
	return cert, key, certPEM, keyPEM
}

func TestClientsNeedACertificateIfAnAuthorityIsNamed(t *testing.T) {
	a := newAuthority(t)
	_, _, cert, key := sign(t, a, "weir")
	_, _, clientCert, clientKey := sign(t, a, "proxy")
	r := start(t, Config{
		Paths: []string{fileOf(t, "weir.yaml", rules)},
		TLS: TLS{
			Cert:     fileOf(t, "cert", string(cert)),
			Key:      fileOf(t, "key", string(key)),
			ClientCA: fileOf(t, "ca", string(a.pem)),
		},
	})
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	config := &tls.Config{RootCAs: roots}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	if response, err := client.Get("https://" + r.check + "/check"); err == nil {
		response.Body.Close()
		t.Error("a client without a certificate is answered")
	}
	pair, err := tls.X509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	config = config.Clone()
	config.Certificates = []tls.Certificate{pair}
	client = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	if got, _ := ask(t, client, "https://"+r.check+"/check"); got != 204 {
		t.Errorf("%d", got)
	}
	for _, one := range []*tls.Config{config, {RootCAs: roots}} {
		conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(credentials.NewTLS(one)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if want := one == config; (err == nil) != want {
			t.Errorf("gRPC, with a certificate %v: %v", want, err)
		}
	}
}

func TestCertificatesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		_, _, cert, key := sign(t, a, "one")
		files := TLS{Cert: fileOf(t, "cert", string(cert)), Key: fileOf(t, "key", string(key))}
		var log bytes.Buffer
		c, err := newCertificates(files, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.follow(ctx, nil)
		name := func() string {
			config, err := c.config().GetConfigForClient(nil)
			if err != nil {
				t.Fatal(err)
			}
			return config.Certificates[0].Leaf.Subject.CommonName
		}
		_, _, cert, key = sign(t, a, "two")
		os.WriteFile(files.Cert, cert, 0o600) // the key does not fit yet
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if name() != "one" || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s\n%s", name(), &log)
		}
		os.WriteFile(files.Key, key, 0o600)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if name() != "two" {
			t.Error(name())
		}
	})
}

func TestWhatCannotBeginSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good := fileOf(t, "weir.yaml", rules)
	for want, config := range map[string]Config{
		"both policy files":      {Paths: []string{good, fileOf(t, "b.yaml", rules)}, Check: "127.0.0.1:0"},
		"address already in use": {Paths: []string{good}, Check: taken.Addr().String()},
		"cert":                   {Paths: []string{good}, Check: "127.0.0.1:0", TLS: TLS{Cert: good, Key: good}},
		"proxies must name":      {Paths: []string{good}, Check: "127.0.0.1:0"},
		"redis":                  {Paths: []string{good}, Check: "127.0.0.1:0", Redis: "http://localhost"},
		"max keys: must":         {Paths: []string{good}, Check: "127.0.0.1:0", Redis: "redis://localhost", MaxKeys: -1},
	} {
		config.Logger = slog.New(slog.DiscardHandler)
		if err := Run(t.Context(), config); err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// serviceOf returns a service that has not loaded its files.
func serviceOf(path string, log slog.Handler) *service {
	config := Config{Paths: []string{path}, Logger: slog.New(log)}
	return &service{Config: config, counters: stats.New(stats.Options{})}
}

// A file that was named and one of a directory are of one kind.
func TestAFileIsOfOneKindWhereverItIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"domain: d\n": "", // limits that limit nothing
		"version: 1\nrulse:\n  - {name: a, key: everybody, limit: 1/s}\n": "write rules",
		"domain: d\nruels: []\nversion: 1\n":                              "write rules",
		"domain: d\nunknown: 1\n":                                         "there is no field \"unknown\"",
	} {
		file := fileOf(t, "one.yaml", text)
		for _, path := range []string{file, filepath.Dir(file)} {
			s := serviceOf(path, slog.DiscardHandler)
			err := s.load()
			if want == "" && (err != nil || s.limits == nil || s.policy != nil) ||
				want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%q at %s: %v, want %q", text, path, err, want)
			}
		}
	}
}

func TestAFileThatComesBesideAPolicyAloneIsLogged(t *testing.T) {
	dir := filepath.Dir(fileOf(t, "weir.yaml", rules))
	late := filepath.Join(dir, "limits.yaml")
	second := filepath.Join(dir, "second.yaml")
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s := serviceOf(dir, slog.NewTextHandler(&log, nil))
		if err := s.load(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		s.follow(ctx, &group)
		time.Sleep(5 * time.Second)
		os.WriteFile(late, []byte(byDescriptor), 0o600)
		os.WriteFile(second, []byte(rules), 0o600)
		time.Sleep(10 * time.Second)
		stop()
		group.Wait()
	})
	for _, want := range []string{
		"a file of limits is new", late, "restart", "a policy file is new", second,
	} {
		if got := log.String(); strings.Count(got, want) != 1 {
			t.Errorf("want one line with %q:\n%s", want, got)
		}
	}
	if strings.Count(log.String(), "level=WARN") != 2 {
		t.Error(log.String())
	}
}

// Prometheus answers a query for a name that is not there with nothing, which looks like a quiet service.
func TestTheDashboardAsksForWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../../../../dashboards/gateway.json")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Paths: []string{fileOf(t, "limits.yaml", byDescriptor)}})
	response, err := http.Post("http://"+r.check+"/json", "application/json",
		strings.NewReader(`{"domain":"shop","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	_, metrics := get(t, "http://"+r.operator+"/metrics")
	found := 0
	for _, name := range regexp.MustCompile(`weir_[a-z_]+`).FindAllString(string(text), -1) {
		found++
		if !strings.Contains(metrics, "\n"+name+"{") {
			t.Errorf("/metrics has no %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`([a-z]+)=~?\\"([a-z|]+)\\"`).FindAllStringSubmatch(string(text), -1) {
		for value := range strings.SplitSeq(m[2], "|") {
			if !strings.Contains(metrics, m[1]+`="`+value+`"`) {
				t.Errorf("/metrics has no %s=%q", m[1], value)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d names", found)
	}
}

// pipes is a listener of connections that its channel has.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestConnectionsThatSayNothingDelayNoEnd(t *testing.T) {
	for sent, most := range map[string]time.Duration{
		"": 0, "PRI * HTTP/2.0\r\n": 0, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 3 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{Config: Config{Logger: slog.New(slog.DiscardHandler)}}
			listener := make(pipes)
			one, err := s.grpc(listener)
			if err != nil {
				t.Fatal(err)
			}
			go one.serve()
			client, served := net.Pipe()
			listener <- served
			go io.Copy(io.Discard, client)
			io.WriteString(client, sent)
			synctest.Wait()
			close(listener)
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			one.end(ctx)
			if took := time.Since(begun); took > most {
				t.Errorf("%q: ended after %v, want %v", sent, took, most)
			}
		})
	}
}

func TestConnectionsThatSendNothingOrStopEnd(t *testing.T) {
	for sent, want := range map[string]time.Duration{
		"":                                     5 * time.Second,
		"GET /check HT":                        5 * time.Second,
		"GET / HTTP/1.1\r\nHost: weir\r\n\r\n": 2 * time.Minute, // idle after its answer
		"POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\nab": 10 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{Config: Config{Logger: slog.New(slog.DiscardHandler)}}
			listener := make(pipes)
			one := s.http(listener,
				http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) }), nil, 0)
			go one.serve()
			client, served := net.Pipe()
			listener <- served
			begun := time.Now()
			go io.WriteString(client, sent)
			io.Copy(io.Discard, client)
			if took := time.Since(begun).Truncate(time.Second); took != want {
				t.Errorf("%q: ended after %v, want %v", sent, took, want)
			}
			close(listener)
			one.end(t.Context())
		})
	}
}
