package tracing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/stats"
)

func TestOneWhoNamesNoCollectorGetsNoTracer(t *testing.T) {
	const collector = "http://collector:4318"
	for _, c := range []struct {
		variables []string
		want      bool
	}{
		{nil, false},
		{[]string{endpoint, collector}, true},
		{[]string{tracesEndpoint, collector}, true},
		{[]string{exporters, "otlp"}, true},
		{[]string{endpoint, collector, exporters, "none"}, false},
		{[]string{endpoint, collector, disabled, "True"}, false},
		{[]string{sampler, "always_on"}, false},
		{[]string{protocol, "no protocol"}, false},
	} {
		for i := 0; i < len(c.variables); i += 2 {
			t.Setenv(c.variables[i], c.variables[i+1])
		}
		tracer, err := New(Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil || (tracer != nil) != c.want {
			t.Errorf("%q: %v, %v", c.variables, tracer != nil, err)
		}
		tracer.Close(t.Context())
		for i := 0; i < len(c.variables); i += 2 {
			t.Setenv(c.variables[i], "")
		}
	}
}

func TestEachMistakeInTheEnvironmentIsReported(t *testing.T) {
	for _, c := range []struct {
		variables []string
		want      string
	}{
		{[]string{endpoint, "http://collector:4318", samplerArg, "many"}, ""},
		{[]string{endpoint, "https://collector/otlp", sampler, "TraceIDRatio", samplerArg, "0.01"}, ""},
		{[]string{endpoint, "collector:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT must be a URL such as http://collector:4318, " +
			"or port 4317 with OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		{[]string{tracesEndpoint, "http://"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be a URL"},
		{[]string{exporters, "zipkin"}, `OTEL_TRACES_EXPORTER must be otlp, or none for no spans (got "zipkin")`},
		{[]string{exporters, "otlp", protocol, "thrift"},
			`OTEL_EXPORTER_OTLP_PROTOCOL must be one of http/protobuf, grpc, http/json (got "thrift")`},
		{[]string{exporters, "otlp", protocol, "thrift", tracesProtocol, "http/json"}, ""},
		{[]string{exporters, "otlp", tracesProtocol, "udp"}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL must be"},
		{[]string{exporters, "otlp", sampler, "jaeger_remote"}, "OTEL_TRACES_SAMPLER must be one of always_on, "},
		{[]string{exporters, "otlp", sampler, "traceidratio", samplerArg, "2"},
			`OTEL_TRACES_SAMPLER_ARG must be a share from 0 to 1, such as 0.01 (got "2")`},
		{[]string{exporters, "otlp", sampler, "parentbased_traceidratio", samplerArg, "NaN"},
			"OTEL_TRACES_SAMPLER_ARG must be"},
		{[]string{exporters, "console", sampler, "no", protocol, "no"},
			"OTEL_TRACES_EXPORTER must be|OTEL_EXPORTER_OTLP_PROTOCOL must be|OTEL_TRACES_SAMPLER must be"},
	} {
		all := make(map[string]string)
		for i := 0; i < len(c.variables); i += 2 {
			all[c.variables[i]] = c.variables[i+1]
		}
		err := environment(func(name string) string { return all[name] }).validate()
		if c.want == "" {
			if err != nil {
				t.Errorf("%q: %v", c.variables, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q: no mistake, want %s", c.variables, c.want)
			continue
		}
		lines, wants := strings.Split(err.Error(), "\n"), strings.Split(c.want, "|")
		for i := range max(len(lines), len(wants)) {
			if i >= len(lines) || i >= len(wants) || !strings.HasPrefix(lines[i], wants[i]) {
				t.Fatalf("%q: %v, want %s", c.variables, err, c.want)
			}
		}
	}
}

func TestANilTracerAddsNothing(t *testing.T) {
	var none *Tracer
	next, observer := http.NewServeMux(), stats.New(stats.Options{}).Limiter("checks")
	if none.Handler("/check", next) != http.Handler(next) || none.Observer(observer) != core.Observer(observer) ||
		none.Observe() != nil || none.ServerOptions() != nil {
		t.Error("a nil Tracer wraps something")
	}
}

func TestASecretInAHeaderThatCannotBeReadIsNotLogged(t *testing.T) {
	for _, headers := range []string{"secret", "api-key=%secret", "a b=secret"} {
		var log bytes.Buffer
		t.Setenv(exporters, "otlp")
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
		tracer, err := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		tracer.Close(t.Context())
		if !strings.Contains(log.String(), "serve: OpenTelemetry: ") || strings.Contains(log.String(), "secret") {
			t.Errorf("%s: %s", headers, &log)
		}
	}
}

// away is an exporter whose collector is away while err is set.
type away struct{ err error }

func (a *away) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return a.err }
func (a *away) Shutdown(context.Context) error                        { return nil }

func TestTheLogTellsOnceAMinuteThatSpansAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := new(away)
		r := &reporting{SpanExporter: a, logger: slog.New(slog.NewTextHandler(&log, nil))}
		export := func(n int, err error, want string) {
			t.Helper()
			a.err = err
			log.Reset()
			if err := r.ExportSpans(t.Context(), make([]sdk.ReadOnlySpan, n)); err != nil {
				t.Error(err)
			}
			if want == "" && log.Len() > 0 || !strings.Contains(log.String(), want) {
				t.Errorf("%q, want %q", &log, want)
			}
		}
		refused := errors.New("connection refused")
		export(9, nil, "")
		export(3, refused, "spans=3 error=\"connection refused\"")
		export(4, refused, "")
		time.Sleep(time.Minute)
		export(1, refused, "spans=5")
		export(1, nil, "spans are sent again")
		export(1, nil, "")
		export(2, refused, "") // the minute is not over
		time.Sleep(time.Minute)
		export(1, refused, "spans=3")
	})
}

func TestAMethodThatAClientMakesUpIsNoNameOfASpan(t *testing.T) {
	for method, want := range map[string]string{"GET": "GET", "BREW": "_OTHER", "get": "_OTHER"} {
		if got := methodOf(httptest.NewRequest(method, "/check", nil)); got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
}

// What a check over HTTP costs without a tracer, with one that does not sample it, and as a span.
func BenchmarkCheck(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	}))
	defer collector.Close()
	for _, c := range []struct{ name, endpoint, sampler string }{
		{"off", "", ""}, {"not sampled", collector.URL, "always_off"}, {"sampled", collector.URL, "always_on"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.Setenv(endpoint, c.endpoint)
			if c.sampler != "" {
				b.Setenv(sampler, c.sampler)
			}
			tracer, err := New(Config{Backend: "memory", Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer tracer.Close(b.Context())
			limiter := nethttp.MustNew(nethttp.Config{
				Rules: []nethttp.Rule{{
					Name: "per-client", Limit: limits.SlidingWindow(limits.PerSecond(1e9)), Key: keyfuncs.Address(keyfuncs.Peer),
				}},
				Observer: tracer.Observer(stats.New(stats.Options{}).Limiter("checks")),
			})
			handler := tracer.Handler("/check", gateway.MustNew(limiter, []string{"192.0.2.1"}, gateway.Options{}))
			r := httptest.NewRequest("GET", "/check", nil)
			r.Header = http.Header{
				"X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {"shop.example"}, "X-Forwarded-Uri": {"/"},
				"X-Forwarded-For": {"203.0.113.7"}, "Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			}
			b.ReportAllocs()
			for b.Loop() {
				w := answer{make(http.Header)}
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// answer is a response that no one reads.
type answer struct{ header http.Header }

func (a answer) Header() http.Header         { return a.header }
func (a answer) Write(p []byte) (int, error) { return len(p), nil }
func (a answer) WriteHeader(int)             {}
