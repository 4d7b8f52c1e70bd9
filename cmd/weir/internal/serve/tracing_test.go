package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authorization "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir/internal/proof/freeport"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// receiver is a collector of OpenTelemetry, over gRPC and HTTP.
type receiver struct {
	otlp.UnimplementedTraceServiceServer
	grpc, http string        // URLs
	hold       chan struct{} // no answer comes before it is closed; nil: at once

	mu  sync.Mutex
	all []*spans.ResourceSpans
}

func newReceiver(t *testing.T, hold chan struct{}) *receiver {
	t.Helper()
	r := &receiver{hold: hold}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	otlp.RegisterTraceServiceServer(server, r)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	overHTTP := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, from *http.Request) {
		body, _ := io.ReadAll(from.Body)
		message := new(otlp.ExportTraceServiceRequest)
		if err := proto.Unmarshal(body, message); err != nil || from.URL.Path != "/v1/traces" {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		r.Export(from.Context(), message)
	}))
	t.Cleanup(overHTTP.Close)
	r.grpc, r.http = "http://"+l.Addr().String(), overHTTP.URL
	return r
}

// Export takes spans.
func (r *receiver) Export(
	ctx context.Context, message *otlp.ExportTraceServiceRequest,
) (*otlp.ExportTraceServiceResponse, error) {
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, message.ResourceSpans...)
	return new(otlp.ExportTraceServiceResponse), nil
}

// of returns the spans of a service.
func (r *receiver) of(service string) (all []*spans.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		for _, a := range one.Resource.Attributes {
			if a.Key == "service.name" && a.Value.GetStringValue() == service {
				for _, s := range one.ScopeSpans {
					all = append(all, s.Spans...)
				}
			}
		}
	}
	return all
}

// text returns the name of a span and its attributes, sorted, after its parent.
func textOf(s *spans.Span) string {
	all := []string{}
	for _, a := range s.Attributes {
		key := strings.TrimPrefix(a.Key, "weir.")
		value := a.Value.GetStringValue()
		if value == "" {
			value = fmt.Sprint(a.Value.GetIntValue())
		}
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return fmt.Sprintf("%x %s %s", s.ParentSpanId, s.Name, strings.Join(all, " "))
}

// parent returns the field of a parent whose number is n. Sampled says that it is part of its trace.
func parent(n int, sampled bool) string {
	flags := map[bool]string{true: "01", false: "00"}[sampled]
	return fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e4736-%016x-%s", n, flags)
}

const tracedRules = `version: 1
client: {peer: true}
rules:
  - {name: per-client, key: address, limit: 1/day}
  - {name: trial, mode: shadow, match: /trial, key: header X-Secret, limit: 1/day}
`

const tracedLimits = `domain: shop
descriptors:
  - {key: tenant, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}
`

// askedOf returns a request of Envoy's filter.
func askedOf(entries ...string) *ratelimit.RateLimitRequest {
	r := &ratelimit.RateLimitRequest{Domain: "shop"}
	for i := 0; i < len(entries); i += 2 {
		r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: entries[i], Value: entries[i+1]}},
		})
	}
	return r
}

// tracedCheck returns a check of ext_authz of a request with a field traceparent.
func tracedCheck(field string) *authorization.CheckRequest {
	check := checkFrom("198.51.100.7")
	from := check.Attributes.Request.Http
	from.Path, from.Headers = "/secret", map[string]string{"traceparent": field}
	return check
}

// Each span has its parent, the rule, the verdict and the source, and nothing of the request.
func TestEachCheckIsASpanWithoutItsKey(t *testing.T) {
	for _, by := range []string{"grpc", "http/protobuf"} {
		t.Run(by, func(t *testing.T) {
			to := newReceiver(t, nil)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", map[bool]string{true: to.grpc, false: to.http}[by == "grpc"])
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", by)
			t.Setenv("OTEL_SERVICE_NAME", "limits")
			r := start(t, Config{Drain: time.Second, DeniedStatus: 403, Version: "v9", Paths: []string{
				fileOf(t, "weir.yaml", tracedRules), fileOf(t, "limits.yaml", tracedLimits)}})
			sendEach(t, r)
			if err := r.end(); err != nil {
				t.Error(err)
			}
			got := []string{}
			for _, s := range to.of("limits") {
				got = append(got, textOf(s))
			}
			const (
				check = " GET /check "
				asked = " envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit backend.name=memory "
				auth  = " envoy.service.auth.v3.Authorization/Check backend.name=memory "
				json  = " POST /json backend.name=memory "
				http  = " http.request.method=GET http.response.status_code="
				route = " http.route=/check "
				grpc  = " rpc.method=envoy.service."
				limit = grpc + "ratelimit.v3.RateLimitService/ShouldRateLimit rpc.response.status_code=OK rpc.system.name=grpc "
				authz = grpc + "auth.v3.Authorization/Check rpc.response.status_code=OK rpc.system.name=grpc "
				path  = "url.path=/check url.scheme=http verdict="
				mem   = "backend.name=memory decision.source=primary"
			)
			want := []string{
				"0000000000000001" + check + mem + http + "204" + route + "policy_rule.name=per-client " + path + "allowed",
				"0000000000000002" + check + mem + http + "403" + route + "policy_rule.name=per-client " + path + "denied",
				"0000000000000003" + check + mem + http + "204" + route + "policy_rule.name=per-client " + path + "allowed",
				"0000000000000004" + check + strings.TrimPrefix(http, " ") + "503" + route + path + "refused",
				"0000000000000005" + auth + "decision.source=primary policy_rule.name=per-client" + authz + "verdict=allowed",
				"0000000000000006" + auth + "decision.source=primary policy_rule.name=per-client" + authz + "verdict=denied",
				"0000000000000007" + asked + "decision.source=primary descriptor.domain=shop policy_rule.name=tenant" +
					limit + "verdict=allowed",
				"0000000000000008" + asked + "decision.source=primary descriptor.domain=shop policy_rule.name=tenant" +
					limit + "verdict=denied",
				"0000000000000009" + asked + "decision.source=primary descriptor.domain=shop policy_rule.name=trial" +
					limit + "verdict=shadow",
				"000000000000000a" + json + "decision.source=primary descriptor.domain=shop http.request.method=POST " +
					"http.response.status_code=429 http.route=/json policy_rule.name=tenant " +
					"url.path=/json url.scheme=http verdict=denied",
				"000000000000000b" + strings.Replace(asked, " backend.name=memory ", "", 1) +
					strings.Replace(limit, "=OK", "=INVALID_ARGUMENT", 1) + "verdict=invalid",
				" GET /check " + mem + http + "204" + route + "policy_rule.name=trial " + path + "shadow",
			}
			slices.Sort(got)
			slices.Sort(want)
			for i := range max(len(got), len(want)) {
				var g, w string
				if i < len(got) {
					g = got[i]
				}
				if i < len(want) {
					w = want[i]
				}
				if g != w {
					t.Errorf("\ngot  %s\nwant %s", g, w)
				}
			}
			text := fmt.Sprint(to.all)
			for _, secret := range []string{"203.0.113", "198.51.100", "acme", "secret", "shop.example", "127.0.0.1"} {
				if strings.Contains(text, secret) {
					t.Errorf("spans have %q", secret)
				}
			}
			if !strings.Contains(text, `"v9"`) || !strings.Contains(text, "telemetry.sdk.language") {
				t.Errorf("%.500s", text)
			}
		})
	}
}

// sendEach asks r for all that can be asked. Each request has a parent of its own number.
func sendEach(t *testing.T, r *running) {
	t.Helper()
	url := "http://" + r.check + "/check"
	http1 := func(n int, fields ...string) {
		t.Helper()
		ask(t, http.DefaultClient, url, func(h http.Header) {
			if n > 0 {
				h.Set("traceparent", parent(n, true))
			}
			for i := 0; i < len(fields); i += 2 {
				h.Set(fields[i], fields[i+1])
			}
		})
	}
	http1(1)
	http1(2)
	const trial = "/trial"
	http1(3, "X-Forwarded-Uri", trial, "X-Secret", "secret", "X-Forwarded-For", "203.0.113.8")
	http1(0, "X-Forwarded-Uri", trial, "X-Secret", "secret", "X-Forwarded-For", "203.0.113.9")
	http1(4, "X-Forwarded-Host", "")

	conn := dialTo(t, r.grpc)
	with := func(n int) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent(n, true))
	}
	auth := authorization.NewAuthorizationClient(conn)
	if _, err := auth.Check(with(5), tracedCheck(parent(99, true))); err != nil { // Envoy's own span is nearer
		t.Fatal(err)
	}
	if _, err := auth.Check(t.Context(), tracedCheck(parent(6, true))); err != nil {
		t.Fatal(err)
	}
	limits := ratelimit.NewRateLimitServiceClient(conn)
	for n, entries := range [][]string{{"tenant", "acme"}, {"tenant", "acme"}, {"trial", "acme", "trial", "acme"}} {
		if _, err := limits.ShouldRateLimit(with(7+n), askedOf(entries...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := limits.ShouldRateLimit(with(11), askedOf()); err == nil {
		t.Error("a message without descriptors is answered")
	}
	request, _ := http.NewRequest("POST", "http://"+r.check+"/json", strings.NewReader(
		`{"domain":"shop","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`))
	request.Header.Set("traceparent", parent(10, true))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

func TestAParentOrTheSamplerDecidesWhatIsTraced(t *testing.T) {
	for _, c := range []struct {
		sampler, arg string
		want         string // parents of what is traced; 0: it has no parent
	}{
		{"", "", "[0 1]"}, {"parentbased_always_on", "", "[0 1]"}, {"always_on", "", "[0 1 2]"},
		{"always_off", "", "[]"}, {"parentbased_always_off", "", "[1]"},
		{"parentbased_traceidratio", "0", "[1]"}, {"traceidratio", "0", "[]"}, {"traceidratio", "1", "[0 1 2]"},
	} {
		t.Run(c.sampler+c.arg, func(t *testing.T) {
			to := newReceiver(t, nil)
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", to.http+"/v1/traces")
			if c.sampler != "" {
				t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			}
			if c.arg != "" {
				t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
			}
			r := start(t, Config{Drain: time.Second, Paths: []string{fileOf(t, "limits.yaml", tracedLimits)}})
			client := ratelimit.NewRateLimitServiceClient(dialTo(t, r.grpc))
			for n, field := range []string{"", parent(1, true), parent(2, false)} {
				ctx := t.Context()
				if n > 0 {
					ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", field)
				}
				if _, err := client.ShouldRateLimit(ctx, askedOf("tenant", "acme")); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
			parents := []int{}
			for _, s := range to.of("weir") {
				n := 0
				if len(s.ParentSpanId) > 0 {
					n = int(s.ParentSpanId[7])
				}
				parents = append(parents, n)
			}
			slices.Sort(parents)
			if got := fmt.Sprint(parents); got != c.want {
				t.Errorf("parents %s, want %s", got, c.want)
			}
		})
	}
}

// No check waits for a collector that takes spans and never answers, or for one that is away. The log
// says once a minute that spans are lost, and the end of the service waits no longer than it is told.
func TestACollectorThatIsAwayDelaysNoCheck(t *testing.T) {
	away, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	hangs := newReceiver(t, hold)
	t.Cleanup(func() { close(hold) })
	for _, c := range []struct{ by, url string }{
		{"grpc", hangs.grpc}, {"http/protobuf", hangs.http},
		{"grpc", "http://" + away}, {"http/protobuf", "http://" + away},
	} {
		t.Run(c.by+" "+map[bool]string{true: "away", false: "hangs"}[strings.HasSuffix(c.url, away)], func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.url)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", c.by)
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
			t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "100")
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "32")
			r := start(t, Config{Drain: time.Second, Paths: []string{fileOf(t, "limits.yaml", tracedLimits)}})
			client := ratelimit.NewRateLimitServiceClient(dialTo(t, r.grpc))
			for range 1000 { // far more than the queue holds
				if _, err := client.ShouldRateLimit(t.Context(), askedOf("tenant", "acme")); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
			// The last ones have a line of their own.
			if n := strings.Count(r.log.String(), "spans are lost"); n == 0 || n > 2 {
				t.Errorf("%d lines:\n%s", n, r.log)
			}
		})
	}
}

// A second signal ends the service at once, whatever the collector does.
func TestTheLastSpansWaitForNoSecondSignal(t *testing.T) {
	hold := make(chan struct{})
	to := newReceiver(t, hold)
	t.Cleanup(func() { close(hold) })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.http)
	r := start(t, Config{Drain: time.Hour, Paths: []string{fileOf(t, "limits.yaml", tracedLimits)}})
	client := ratelimit.NewRateLimitServiceClient(dialTo(t, r.grpc))
	if _, err := client.ShouldRateLimit(t.Context(), askedOf("tenant", "acme")); err != nil {
		t.Fatal(err)
	}
	close(r.hurry)
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.log.String(), "the last spans are lost") {
		t.Error(r.log)
	}
}

func TestWithoutAnEndpointNothingIsTraced(t *testing.T) {
	r := start(t, Config{Drain: time.Second, Paths: []string{fileOf(t, "limits.yaml", tracedLimits)}})
	if err := r.end(); err != nil || bytes.Contains(r.log.Bytes(), []byte("span")) {
		t.Errorf("%v\n%s", err, r.log)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")
	t.Setenv("OTEL_TRACES_SAMPLER", "sometimes")
	err := Run(t.Context(), Config{Check: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Paths: []string{fileOf(t, "limits.yaml", tracedLimits)}})
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT must be a URL") ||
		!strings.Contains(err.Error(), "OTEL_TRACES_SAMPLER must be one of") {
		t.Error(err)
	}
}

// Envoy tells weir its own span, by both filters: the spans of weir hang below those of Envoy, in the
// trace of the client.
func TestARealEnvoyIsTheParentOfItsChecks(t *testing.T) {
	path := testrun.Program(t, "envoy")
	to := newReceiver(t, nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.http)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	s := setUp(t, 0, "weir.yaml", "limits.yaml")
	const before = "                normalize_path: true"
	_, lines, _ := strings.Cut(s.files["tracing.yaml"], "\n")
	traced := "                " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n                ") + "\n"
	text := s.files["envoy.yaml"]
	if lines == "" || !strings.Contains(text, before) {
		t.Fatalf("the guide shows\n%s", lines)
	}
	cluster := text[strings.Index(text, "    - name: weir\n"):]
	s.files["envoy.yaml"] = strings.Replace(text, before, traced+before, 1) +
		strings.NewReplacer("weir", "collector", "8081", portOf(to.grpc)).Replace(cluster) +
		"layered_runtime: {layers: [{name: now, static_layer: {tracing.opentelemetry.min_flush_spans: 1}}]}\n"
	s.run(path, "-c", s.config("envoy.yaml"), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error")
	r, _ := http.NewRequest("GET", s.url+"/", nil)
	r.Header.Set("traceparent", parent(1, true))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Error(response.StatusCode)
	}
	of := func(service string) map[string]*spans.Span {
		all := make(map[string]*spans.Span)
		for _, s := range to.of(service) {
			all[string(s.SpanId)] = s
		}
		return all
	}
	for end := time.Now().Add(time.Minute); len(of("weir")) < 2 || len(of("envoy")) < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d spans of weir and %d of Envoy", len(of("weir")), len(of("envoy")))
		}
	}
	envoys := of("envoy")
	for _, s := range of("weir") {
		above := envoys[string(s.ParentSpanId)]
		if above == nil || !bytes.Equal(above.TraceId, s.TraceId) ||
			fmt.Sprintf("%x", s.TraceId) != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("%v hangs below %v", s, above)
		}
	}
}

func TestASpanSaysWhetherRedisDecided(t *testing.T) {
	redis := redisServer(t)
	to := newReceiver(t, nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.http)
	r := start(t, Config{Drain: time.Second, Redis: redis, Budget: time.Minute, Paths: []string{
		fileOf(t, "weir.yaml", tracedRules), fileOf(t, "limits.yaml", tracedLimits)}})
	client := ratelimit.NewRateLimitServiceClient(dialTo(t, r.grpc))
	for n := range 3 {
		ask(t, http.DefaultClient, "http://"+r.check+"/check")
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent(n+1, true))
		if _, err := client.ShouldRateLimit(ctx, askedOf("tenant", "acme")); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	got := make(map[string]int)
	for _, s := range to.of("weir") {
		one := ""
		for _, name := range []string{"policy_rule.name", "verdict", "decision.source", "backend.name"} {
			_, rest, _ := strings.Cut(textOf(s)+" ", " "+name+"=")
			value, _, _ := strings.Cut(rest, " ")
			one += value + " "
		}
		got[one]++
	}
	want := map[string]int{}
	for _, rule := range []string{"per-client", "tenant"} {
		want[rule+" allowed primary redis "] = 1
		want[rule+" denied primary redis "] = 1
		want[rule+" denied denial-cache redis "] = 1
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
