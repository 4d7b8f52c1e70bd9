package envoy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	weir "github.com/weir-go/weir/core"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/gateway/envoy"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
)

const file = `
domain: d
descriptors:
  - {key: k, metadata: {tier: gold}, rate_limit: {unit: year, requests_per_unit: 3, name: mine}}
  - {key: k, value: closed, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: u, rate_limit: {unlimited: true}}
`

func newService(t *testing.T, b backends.Backend) *descriptors.Service {
	t.Helper()
	config, err := descriptors.Parse(descriptors.File{Name: "d", Text: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	return descriptors.MustNew(config, descriptors.Options{Backend: b, Logger: slog.New(slog.DiscardHandler)})
}

// dial returns a connection to a server with what register adds.
func dial(t *testing.T, logger *slog.Logger, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(64 << 10)
	server := envoy.MustNewServer(envoy.ServerOptions{Logger: logger})
	register(server)
	go server.Serve(listener)
	conn, err := grpc.NewClient("passthrough:d",
		grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
	})
	return conn
}

func rateLimits(t *testing.T, service *descriptors.Service, o envoy.RateLimitOptions) ratelimit.RateLimitServiceClient {
	t.Helper()
	conn := dial(t, nil, func(s *grpc.Server) { envoy.RegisterRateLimits(s, service, o) })
	return ratelimit.NewRateLimitServiceClient(conn)
}

func of(pairs ...string) *common.RateLimitDescriptor {
	d := new(common.RateLimitDescriptor)
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func TestAMessageIsAnsweredWithAllThatItsDescriptorsComeTo(t *testing.T) {
	client := rateLimits(t, newService(t, nil), envoy.RateLimitOptions{})
	refunded, brought := of("k", "1"), of("k", "1")
	refunded.HitsAddend, refunded.IsNegativeHits = wrapperspb.UInt64(1), true
	brought.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 10, Unit: types.RateLimitUnit_YEAR}
	multiplied := of("k", "1")
	multiplied.Limit = &common.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: 10, Unit: types.RateLimitUnit_SECOND, UnitMultiplier: wrapperspb.UInt32(30),
	}
	check := of("k", "1")
	check.HitsAddend = wrapperspb.UInt64(0)
	for i, step := range []struct {
		r    *ratelimit.RateLimitRequest
		want string
	}{
		{&ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{of("k", "1"), of("u", "1"), of("x", "y")}, HitsAddend: 2}, "OK: OK 1 of 3/YEAR mine, OK 4294967295, OK 0"},
		{&ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{of("k", "1"), of("k", "1")}}, "OVER_LIMIT: OK 0 of 3/YEAR mine, OVER_LIMIT 0 of 3/YEAR mine"},
		{&ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{check}}, "OVER_LIMIT: OVER_LIMIT 0 of 3/YEAR mine"},
		{&ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{refunded}}, "OK: OK 0 of 3/YEAR mine"},
		{&ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{brought}}, "OK: OK 6 of 10/YEAR "},
		{&ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{multiplied}}, "OK: OK 9 of 10/30SECOND "},
	} {
		response, err := client.ShouldRateLimit(t.Context(), step.r)
		if err != nil {
			t.Fatal(i, err)
		}
		var all []string
		for _, s := range response.Statuses {
			text := fmt.Sprintf("%v %d", s.Code, s.LimitRemaining)
			if l := s.CurrentLimit; l != nil {
				many := ""
				if l.UnitMultiplier != nil {
					many = fmt.Sprint(l.UnitMultiplier.GetValue())
				}
				text += fmt.Sprintf(" of %d/%s%v %s", l.RequestsPerUnit, many, l.Unit, l.Name)
				if reset := s.DurationUntilReset.AsDuration(); reset <= 0 || reset > 366*24*time.Hour ||
					reset%time.Second != 0 {
					t.Errorf("step %d: reset %v", i, reset)
				}
			}
			all = append(all, text)
		}
		if got := fmt.Sprintf("%v: %s", response.OverallCode, strings.Join(all, ", ")); got != step.want {
			t.Errorf("step %d:\ngot  %s\nwant %s", i, got, step.want)
		}
		if response.DynamicMetadata != nil || response.ResponseHeadersToAdd != nil {
			t.Errorf("step %d: metadata %v, fields %v", i, response.DynamicMetadata, response.ResponseHeadersToAdd)
		}
	}
}

func TestMessagesThatBreakTheProtocolAreInvalid(t *testing.T) {
	client := rateLimits(t, newService(t, nil), envoy.RateLimitOptions{})
	unknown := of("k", "1")
	unknown.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 10, Unit: 99}
	for name, r := range map[string]*ratelimit.RateLimitRequest{
		"nothing":         {},
		"no descriptors":  {Domain: "d"},
		"no entries":      {Domain: "d", Descriptors: []*common.RateLimitDescriptor{{}}},
		"no domain":       {Descriptors: []*common.RateLimitDescriptor{of("k", "1")}},
		"an unknown unit": {Domain: "d", Descriptors: []*common.RateLimitDescriptor{unknown}},
		"too many":        {Domain: "d", Descriptors: make([]*common.RateLimitDescriptor, 65)},
	} {
		for i := range r.Descriptors {
			if r.Descriptors[i] == nil {
				r.Descriptors[i] = of("k", "1")
			}
		}
		if _, err := client.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := &ratelimit.RateLimitRequest{
		Domain:      "d",
		Descriptors: []*common.RateLimitDescriptor{of("k", strings.Repeat("v", 5<<20))},
	}
	if _, err := client.ShouldRateLimit(t.Context(), long); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a long message: %v", err)
	}
}

// raw is a codec that sends the bytes that it is given.
type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}
func (raw) Name() string { return "proto" }

// Envoy puts the bytes of a header field into a text as they are.
func TestTextsThatAreNotUTF8AreCounted(t *testing.T) {
	service := newService(t, nil)
	conn := dial(t, nil, func(s *grpc.Server) { envoy.RegisterRateLimits(s, service, envoy.RateLimitOptions{}) })
	ask := func(value string) *ratelimit.RateLimitResponse {
		t.Helper()
		marked := strings.Repeat("@", len(value))
		message, err := proto.Marshal(&ratelimit.RateLimitRequest{
			Domain: "d", Descriptors: []*common.RateLimitDescriptor{of("k", marked), of("u", "é")}, HitsAddend: 3,
		})
		if err != nil {
			t.Fatal(err)
		}
		message = bytes.Replace(message, []byte(marked), []byte(value), 1)
		answer := new(ratelimit.RateLimitResponse)
		if err := conn.Invoke(t.Context(), ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, message, answer,
			grpc.ForceCodecV2(raw{})); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for _, step := range []struct {
		value string
		want  ratelimit.RateLimitResponse_Code
	}{
		{"a\xff", ratelimit.RateLimitResponse_OK}, {"a\xff", ratelimit.RateLimitResponse_OVER_LIMIT},
		{"a\xfe", ratelimit.RateLimitResponse_OK}, {"closed\xff", ratelimit.RateLimitResponse_OK},
		{"é\xc3\xc3é", ratelimit.RateLimitResponse_OK},
	} {
		if got := ask(step.value); got.OverallCode != step.want || len(got.Statuses) != 2 ||
			got.Statuses[0].CurrentLimit.GetName() != "mine" {
			t.Errorf("%q: %v", step.value, got)
		}
	}
	answer := new(ratelimit.RateLimitResponse)
	for _, message := range []string{"\xff", "\x0a\x05d", "\x12\x02\x0a\x09"} { // no messages
		if err := conn.Invoke(t.Context(), ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, []byte(message),
			answer, grpc.ForceCodecV2(raw{})); status.Code(err) != codes.Internal {
			t.Errorf("%q: %v", message, err)
		}
	}
}

// Each level of a message inside others would cost a copy of all that is in it.
func TestReadingTextsCopiesAMessageOnce(t *testing.T) {
	text := strings.Repeat("\xff", 1<<20)
	marked := strings.Repeat("a", len(text))
	value := structpb.NewStringValue(marked)
	for range 45 { // two messages each
		value = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{value}})
	}
	message, err := proto.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	message = bytes.Replace(message, []byte(marked), []byte(text), 1)
	read := new(structpb.Value)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = envoy.Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, read)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	for range 45 {
		read = read.GetListValue().Values[0]
	}
	if got := read.GetStringValue(); got != strings.Repeat("ÿ", len(text)) {
		t.Errorf("a text of %d bytes is not the one in Latin-1", len(got))
	}
	times := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(message))
	if times > 12 {
		t.Errorf("%.1f times the bytes of the message are allocated, want at most 12", times)
	}
}

func TestFieldsAndMetadataAreOptions(t *testing.T) {
	client := rateLimits(t, newService(t, nil), envoy.RateLimitOptions{Fields: true, Metadata: true})
	r := &ratelimit.RateLimitRequest{
		Domain:      "d",
		Descriptors: []*common.RateLimitDescriptor{of("k", "1"), of("k", "closed")},
	}
	response, err := client.ShouldRateLimit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	fields := make(map[string]string)
	for _, f := range response.ResponseHeadersToAdd {
		fields[f.Key] = f.Value
	}
	if fields["RateLimit-Limit"] != "0" || fields["RateLimit-Remaining"] != "0" || fields["Retry-After"] == "" ||
		fields["Retry-After"] != fields["RateLimit-Reset"] {
		t.Errorf("%v", fields)
	}
	got, _ := json.Marshal(response.DynamicMetadata.AsMap())
	if string(got) != `{"domain":"d","metadata":{"tier":"gold"},"source":"backend"}` {
		t.Errorf("%s", got)
	}
}

func TestTheFieldsHaveNamesOfOnesOwn(t *testing.T) {
	client := rateLimits(t, newService(t, nil), envoy.RateLimitOptions{
		Fields: true, Names: gateway.MustNewNames("X-Quota", "X-Quota-Left", "X-Quota-Reset"),
	})
	response, err := client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
		Domain: "d", Descriptors: []*common.RateLimitDescriptor{of("k", "closed")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range response.ResponseHeadersToAdd {
		got = append(got, f.Key)
	}
	if want := "X-Quota X-Quota-Left X-Quota-Reset Retry-After"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// One in ten minutes, in a memory whose time stands still: the turns are ten and twenty minutes away.
func TestTheFieldsTellTurns(t *testing.T) {
	text := "domain: d\ndescriptors:\n  - {key: k, rate_limit: {algorithm: token-bucket 6/hour burst 1}}\n"
	config, err := descriptors.Parse(descriptors.File{Name: "d", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := memory.MustNew(memory.Options{Clock: func() time.Time { return noon }})
	client := rateLimits(t, descriptors.MustNew(config, descriptors.Options{Backend: clock, MaxPromise: time.Hour}),
		envoy.RateLimitOptions{Fields: true})
	got := ""
	for range 3 {
		response, err := client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
			Domain: "d", Descriptors: []*common.RateLimitDescriptor{of("k", "1")},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range response.ResponseHeadersToAdd {
			if f.Key != "RateLimit-Limit" && f.Key != "RateLimit-Remaining" {
				got += f.Key + " " + f.Value + ", "
			}
		}
		for _, s := range response.Statuses {
			got += s.DurationUntilReset.AsDuration().String() + "; "
		}
	}
	want := "RateLimit-Reset 600, 10m0s; RateLimit-Reset 600, Retry-After 600, 10m0s; " +
		"RateLimit-Reset 1200, Retry-After 1200, 10m0s; "
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAGlobalShadowAnswersOK(t *testing.T) {
	client := rateLimits(t, newService(t, nil), envoy.RateLimitOptions{Shadow: true, Fields: true})
	response, err := client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
		Domain: "d", Descriptors: []*common.RateLimitDescriptor{of("k", "closed")},
	})
	if err != nil || response.OverallCode != ratelimit.RateLimitResponse_OK ||
		response.Statuses[0].Code != ratelimit.RateLimitResponse_OVER_LIMIT {
		t.Errorf("%v, %v", response, err)
	}
	for _, f := range response.GetResponseHeadersToAdd() {
		if f.Key == "Retry-After" {
			t.Error("a request that passes is told to come again")
		}
	}
}

// broken is a backend that fails.
type broken struct{ backends.Backend }

func (broken) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return io.ErrUnexpectedEOF
}

func TestAFallbackIsToldInMetadata(t *testing.T) {
	client := rateLimits(t, newService(t, broken{memory.MustNew(memory.Options{})}), envoy.RateLimitOptions{})
	response, err := client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
		Domain: "d", Descriptors: []*common.RateLimitDescriptor{of("k", "1")},
	})
	if err != nil || response.DynamicMetadata.AsMap()["source"] != "fallback" {
		t.Errorf("%v, %v", response, err)
	}
}

func TestJSONIsTheSameMessage(t *testing.T) {
	handler := envoy.JSON(newService(t, nil), envoy.RateLimitOptions{})
	for i, step := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"1"}]}],"hits_addend":3}`, 200, `"overallCode":"OK"`},
		{`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"1"}],"hitsAddend":"1"}]}`, 429, `"code":"OVER_LIMIT"`},
		{`{"domain":"d","descriptors":[{"entries":[{"key":"u"}]}]}`, 200, `"limitRemaining":4294967295`},
		{`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"caf` + "\xe9" + `"}]}],"hits_addend":3}`, 200, `"name":"mine"`},
		{`{"domain":"d"}`, 400, "rate limit descriptor list must not be empty"},
		{`{"domain":5}`, 400, "the body is no RateLimitRequest"},
		{`{"domain":"` + strings.Repeat("d", 5<<20) + `"}`, 400, "the body is too long"},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(step.body)))
		if body := strings.ReplaceAll(w.Body.String(), " ", ""); w.Code != step.status ||
			!strings.Contains(body, strings.ReplaceAll(step.want, " ", "")) {
			t.Errorf("step %d: %d %s", i, w.Code, w.Body)
		}
	}
}

// checkOf returns a check as Envoy sends it.
func checkOf(method, host, path, peer string, fields ...string) *auth.CheckRequest {
	h := make(map[string]string)
	for i := 0; i < len(fields); i += 2 {
		h[fields[i]] = fields[i+1]
	}
	return &auth.CheckRequest{Attributes: &auth.AttributeContext{
		Source: &auth.AttributeContext_Peer{
			Address: &core.Address{
				Address: &core.Address_SocketAddress{
					SocketAddress: &core.SocketAddress{
						Address:       peer,
						PortSpecifier: &core.SocketAddress_PortValue{PortValue: 9},
					},
				},
			},
		},
		Request: &auth.AttributeContext_Request{
			Http: &auth.AttributeContext_HttpRequest{Method: method, Host: host, Path: path, Headers: h},
		},
	}}
}

func newLimiter(seen *http.Request, limit limits.Limit) *nethttp.Limiter {
	return nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "mine", Limit: limit,
		Key: func(r *http.Request) (string, error) {
			*seen = *r
			if r.URL.Path == "/panic" {
				panic("boom")
			}
			return keyfuncs.Address(keyfuncs.Peer)(r)
		},
	}}, Logger: slog.New(slog.DiscardHandler)})
}

func authorization(t *testing.T, limiter *nethttp.Limiter) auth.AuthorizationClient {
	t.Helper()
	return auth.NewAuthorizationClient(dial(t, nil, func(s *grpc.Server) {
		envoy.RegisterAuthorization(s, limiter, envoy.AuthorizationOptions{Logger: slog.New(slog.DiscardHandler)})
	}))
}

func fieldsOf(options []*core.HeaderValueOption) http.Header {
	h := make(http.Header)
	for _, o := range options {
		h.Add(o.Header.Key, o.Header.Value)
	}
	return h
}

func TestACheckIsDecidedAsTheRequestThatEnvoyDescribes(t *testing.T) {
	var seen http.Request
	client := authorization(t, newLimiter(&seen, limits.SlidingWindow(limits.PerHour(1))))
	check := checkOf("POST", "shop.example", "/login?next=%2F", "203.0.113.7",
		":path", "/login", "x-tenant", "acme", "x-forwarded-for", "198.51.100.1")
	allowed, err := client.Check(t.Context(), check)
	if err != nil || allowed.Status.Code != 0 ||
		fieldsOf(allowed.GetOkResponse().GetResponseHeadersToAdd()).Get("RateLimit") == "" {
		t.Fatalf("%v, %v", allowed, err)
	}
	if seen.Method != "POST" || seen.Host != "shop.example" || seen.URL.Path != "/login" ||
		seen.URL.RawQuery != "next=%2F" ||
		seen.RemoteAddr != "203.0.113.7:0" ||
		seen.Header.Get("X-Tenant") != "acme" ||
		seen.Header.Get("X-Forwarded-For") != "198.51.100.1" ||
		len(seen.Header) != 2 {
		t.Errorf("%s %s %s from %s, %v", seen.Method, seen.Host, seen.RequestURI, seen.RemoteAddr, seen.Header)
	}
	denied, err := client.Check(t.Context(), check)
	if err != nil {
		t.Fatal(err)
	}
	answer := denied.GetDeniedResponse()
	h := fieldsOf(answer.GetHeaders())
	var problem struct {
		Status   int
		Violated []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(answer.GetBody()), &problem); err != nil {
		t.Fatal(err)
	}
	if codes.Code(denied.Status.Code) != codes.ResourceExhausted || answer.GetStatus().GetCode() != 429 ||
		problem.Status != 429 ||
		len(problem.Violated) != 1 ||
		h.Get("Retry-After") == "" ||
		h.Get("RateLimit") == "" ||
		h.Get("Content-Type") != "application/problem+json" ||
		h.Get("Content-Length") != "" {
		t.Errorf("%v", denied)
	}
}

func TestADeniedCallOfGRPCHasItsCode(t *testing.T) {
	limit := newLimiter(new(http.Request), limits.SlidingLog(limits.PerHour(1)))
	client := authorization(t, limit)
	fields := []string{"content-type", "application/grpc+proto", "grpc-timeout", "1M"}
	for i := range 2 {
		check := checkOf("POST", "shop.example", "/a.B/C", "203.0.113.7", fields...)
		answer, err := client.Check(t.Context(), check)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		denied := answer.GetDeniedResponse()
		h := fieldsOf(denied.GetHeaders())
		if codes.Code(answer.Status.Code) != codes.ResourceExhausted || denied.GetStatus().GetCode() != 429 ||
			denied.GetBody() != "" ||
			h.Get("grpc-status") != "8" ||
			!strings.HasPrefix(h.Get("grpc-message"), "Too many requests: retry in ") ||
			h.Get("grpc-retry-pushback-ms") != "-1" ||
			h.Get("content-type") != "application/grpc" {
			t.Errorf("%v", answer)
		}
	}
	broken := authorization(t, nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "broken", Limit: limits.SlidingLog(limits.PerHour(1)),
		Key: func(*http.Request) (string, error) { return "", io.ErrUnexpectedEOF },
	}}, Logger: slog.New(slog.DiscardHandler)}))
	answer, err := broken.Check(t.Context(), checkOf("POST", "shop.example", "/a.B/C", "203.0.113.7", fields...))
	if err != nil {
		t.Fatal(err)
	}
	denied := answer.GetDeniedResponse()
	h := fieldsOf(denied.GetHeaders())
	if denied.GetStatus().GetCode() != 503 || h.Get("grpc-status") != "14" ||
		h.Get("grpc-retry-pushback-ms") != "1000" {
		t.Errorf("%v", answer)
	}
}

func TestRawLinesOfAHeaderStayLines(t *testing.T) {
	var seen http.Request
	client := authorization(t, newLimiter(&seen, limits.SlidingWindow(limits.PerHour(9))))
	check := checkOf("GET", "shop.example", "/", "203.0.113.7")
	check.Attributes.Request.Http.HeaderMap = &core.HeaderMap{Headers: []*core.HeaderValue{
		{
			Key:      "x-tenant",
			RawValue: []byte("a"),
		}, {Key: "x-tenant", RawValue: []byte("b\xff")}, {Key: ":method", RawValue: []byte("GET")},
	}}
	if _, err := client.Check(t.Context(), check); err != nil ||
		fmt.Sprintf("%q", seen.Header) != `map["X-Tenant":["a" "b\xff"]]` {
		t.Errorf("%q, %v", seen.Header, err)
	}
}

func TestACheckThatCannotBeReadLetsNothingPass(t *testing.T) {
	var seen http.Request
	client := authorization(t, newLimiter(&seen, limits.SlidingWindow(limits.PerHour(9))))
	for name, check := range map[string]*auth.CheckRequest{
		"nothing":    {},
		"no path":    checkOf("CONNECT", "shop.example:443", "", "203.0.113.7"),
		"no host":    checkOf("GET", "", "/", "203.0.113.7"),
		"no method":  checkOf("", "shop.example", "/", "203.0.113.7"),
		"no address": checkOf("GET", "shop.example", "/", "unix"),
		"a panic":    checkOf("GET", "shop.example", "/panic", "203.0.113.7"), // of a rule's function: unavailable
	} {
		response, err := client.Check(t.Context(), check)
		if err != nil || codes.Code(response.Status.Code) != codes.Unavailable ||
			response.GetDeniedResponse().GetStatus().GetCode() != 503 {
			t.Errorf("%s: %v, %v", name, response, err)
		}
	}
}

// panicking is a service that panics.
type panicking struct {
	auth.UnimplementedAuthorizationServer
}

func (panicking) Check(context.Context, *auth.CheckRequest) (*auth.CheckResponse, error) {
	panic("a secret")
}

func TestAPanicDoesNotEndTheProcess(t *testing.T) {
	var log bytes.Buffer
	client := auth.NewAuthorizationClient(dial(t, slog.New(slog.NewTextHandler(&log, nil)), func(s *grpc.Server) {
		auth.RegisterAuthorizationServer(s, panicking{})
	}))
	for range 3 {
		if _, err := client.Check(t.Context(), &auth.CheckRequest{}); status.Code(err) != codes.Internal {
			t.Error(err)
		}
	}
	if strings.Count(log.String(), "panicked") != 1 || strings.Contains(log.String(), "secret") {
		t.Errorf("%s", &log)
	}
}

func TestACallerThatHasLeftGetsItsOwnError(t *testing.T) {
	var seen http.Request
	client := authorization(t, newLimiter(&seen, limits.SlidingWindow(limits.PerHour(9))))
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, err := client.Check(ctx, checkOf("GET", "shop.example", "/", "203.0.113.7"))
	if status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}

func TestHealthIsToldForTheServerAndForRatelimit(t *testing.T) {
	var health *envoy.Health
	client := healthpb.NewHealthClient(dial(t, nil, func(s *grpc.Server) { health = envoy.RegisterHealth(s) }))
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		for _, service := range []string{"", "ratelimit"} {
			if response, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service}); err != nil ||
				response.Status != want {
				t.Errorf("%q: %v, %v", service, response, err)
			}
		}
		health.Shutdown()
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
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func TestAConnectionThatSendsNothingEndsAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		server := envoy.MustNewServer(envoy.ServerOptions{})
		go server.Serve(listener)
		client, served := net.Pipe()
		listener <- served
		begun := time.Now()
		if _, err := io.Copy(io.Discard, client); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begun); waited != 10*time.Second {
			t.Errorf("ended after %v", waited)
		}
		close(listener)
		server.Stop()
	})
}

// What a client can bring about is denied in each failure mode of Envoy, and so is what fails closed.
func TestOnlyAFailureOfTheServiceIsAnErrorResponse(t *testing.T) {
	hour := limits.SlidingWindow(limits.PerHour(9))
	away := broken{memory.MustNew(memory.Options{})}
	anyone := func(*http.Request) (string, error) { return "k", nil }
	for name, c := range map[string]struct {
		rule    nethttp.Rule
		isError bool
	}{
		"the fallback fails":             {nethttp.Rule{Limit: hour, Key: anyone}, true},
		"a rule that fails closed":       {nethttp.Rule{Limit: hour, Key: anyone, OnFailure: weir.FailClosed}, false},
		"a key that is not found":        {nethttp.Rule{Limit: hour, Key: noKey}, false},
		"a limit that is not found":      {nethttp.Rule{LimitFor: noLimit, Key: anyone}, true},
		"the same that fails closed":     {nethttp.Rule{LimitFor: noLimit, Key: anyone, OnFailure: weir.FailClosed}, false},
		"a limit whose function panics":  {nethttp.Rule{LimitFor: panicLimit, Key: anyone}, false},
		"an open one, and then a closed": {nethttp.Rule{LimitFor: noLimit, Key: anyone, OnFailure: weir.FailOpen}, false},
	} {
		c.rule.Name = "mine"
		rules := []nethttp.Rule{c.rule, {Name: "then", Limit: hour, Key: anyone, OnFailure: weir.FailClosed}}
		if c.isError {
			rules = rules[:1]
		}
		client := authorization(t, nethttp.MustNew(nethttp.Config{
			Rules: rules, Backend: away, Fallback: away, Logger: slog.New(slog.DiscardHandler),
		}))
		response, err := client.Check(t.Context(), checkOf("GET", "shop.example", "/", "203.0.113.7"))
		if err != nil {
			t.Fatal(err)
		}
		answer := response.GetDeniedResponse()
		if c.isError {
			answer = response.GetErrorResponse()
		}
		if codes.Code(response.Status.Code) != codes.Unavailable || answer.GetStatus().GetCode() != 503 ||
			fieldsOf(answer.GetHeaders()).Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", name, response)
		}
	}
}

func noKey(*http.Request) (string, error) { return "", io.ErrUnexpectedEOF }

func noLimit(*http.Request, string) (limits.Limit, error) { return limits.Limit{}, io.ErrUnexpectedEOF }

func panicLimit(*http.Request, string) (limits.Limit, error) { panic("boom") }

// farewell is the client's end of a connection. It counts the frames of type GOAWAY.
type farewell struct {
	net.Conn
	head    []byte // of the frame that is read now
	left    int    // bytes of its payload
	goAways atomic.Int32
}

// Read reads from the connection (RFC 9113, section 4.1). One goroutine calls it.
func (f *farewell) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	for b := p[:n]; len(b) > 0; {
		if f.left > 0 {
			skipped := min(f.left, len(b))
			f.left, b = f.left-skipped, b[skipped:]
			continue
		}
		f.head, b = append(f.head, b[0]), b[1:]
		if len(f.head) == 9 {
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			if f.head[3] == 7 {
				f.goAways.Add(1)
			}
			f.head = f.head[:0]
		}
	}
	return n, err
}

func TestAnOldConnectionEndsAndLosesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		server := envoy.MustNewServer(envoy.ServerOptions{MaxConnectionAge: time.Minute})
		envoy.RegisterAuthorization(server, nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
			{Name: "slow", Limit: limits.LeakyQueue(limits.PerSecond(1), 4), Key: keyfuncs.Address(keyfuncs.Peer)},
		}}), envoy.AuthorizationOptions{})
		go server.Serve(listener)
		var farewells []*farewell
		conn, err := grpc.NewClient("passthrough:d",
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				client, served := net.Pipe()
				listener <- served
				f := &farewell{Conn: client}
				farewells = append(farewells, f)
				return f, nil
			}),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		client := auth.NewAuthorizationClient(conn)
		var calls sync.WaitGroup
		call := func() {
			response, err := client.Check(t.Context(), checkOf("GET", "shop.example", "/", "203.0.113.7"))
			if err != nil || response.Status.Code != 0 {
				t.Errorf("a call is lost: %v, %v", response, err)
			}
		}
		calls.Go(call)
		calls.Go(call)
		for range 300 { // each waits for the two before, so there is always one in flight
			calls.Go(call)
			time.Sleep(time.Second)
		}
		calls.Wait()
		if n := len(farewells); n < 5 || n > 6 { // 54 to 66 s each
			t.Errorf("%d connections in 300 s", n)
		}
		for _, f := range farewells[:len(farewells)-1] {
			if f.goAways.Load() == 0 {
				t.Error("a connection ended without GOAWAY")
			}
		}
		conn.Close()
		close(listener)
		server.Stop()
	})
}
