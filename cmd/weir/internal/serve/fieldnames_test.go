package serve

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authorization "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/weir-go/weir/gateway/envoy"
)

func TestFieldsHaveTheNamesOfTheFlags(t *testing.T) {
	r := start(t, Config{
		Paths:       []string{fileOf(t, "weir.yaml", rules), fileOf(t, "limits.yaml", byDescriptor)},
		Descriptors: envoy.RateLimitOptions{Fields: true},
		FieldNames:  FieldNames{Limit: "X-Quota", Remaining: "X-Quota-Left"},
	})
	compare := func(what string, h http.Header, isDenied bool) {
		t.Helper()
		if h.Get("X-Quota") != "1" || h.Get("X-Quota-Left") != "0" || h.Get("RateLimit-Reset") == "" ||
			(h.Get("Retry-After") != "") != isDenied {
			t.Errorf("%s: %v", what, h)
		}
		for _, other := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining"} {
			if h.Get(other) != "" {
				t.Errorf("%s: has %s, too: %v", what, other, h)
			}
		}
	}
	for _, want := range []int{204, 429} {
		status, h := ask(t, http.DefaultClient, "http://"+r.check+"/check")
		if status != want {
			t.Errorf("a check: %d, want %d", status, want)
		}
		compare("a check", h, want == 429)
	}
	answer, err := authorization.NewAuthorizationClient(dialTo(t, r.grpc)).Check(t.Context(), checkFrom("203.0.113.7"))
	if err != nil {
		t.Fatal(err)
	}
	h := make(http.Header)
	for _, one := range answer.GetDeniedResponse().GetHeaders() {
		h.Add(one.Header.Key, one.Header.Value)
	}
	compare("ext_authz", h, true)
	for _, want := range []int{200, 429} {
		response, err := http.Post("http://"+r.check+"/json", "application/json",
			strings.NewReader(`{"domain":"shop","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			ResponseHeadersToAdd []struct{ Key, Value string }
		}
		err = json.NewDecoder(response.Body).Decode(&body)
		response.Body.Close()
		if err != nil || response.StatusCode != want {
			t.Errorf("descriptors: %d, want %d, %v", response.StatusCode, want, err)
		}
		h := make(http.Header)
		for _, one := range body.ResponseHeadersToAdd {
			h.Add(one.Key, one.Value)
		}
		compare("descriptors", h, want == 429)
	}
}

// checkFrom returns the check of a request of an address.
func checkFrom(address string) *authorization.CheckRequest {
	return &authorization.CheckRequest{Attributes: &authorization.AttributeContext{
		Source: &authorization.AttributeContext_Peer{
			Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
				Address: address, PortSpecifier: &core.SocketAddress_PortValue{PortValue: 9},
			}}},
		},
		Request: &authorization.AttributeContext_Request{Http: &authorization.AttributeContext_HttpRequest{
			Method: "GET", Host: "shop.example", Path: "/",
		}},
	}}
}

func TestNamesOfFieldsAreCheckedBefore(t *testing.T) {
	limits := fileOf(t, "limits.yaml", byDescriptor)
	for want, config := range map[string]Config{
		"has another meaning": {FieldNames: FieldNames{Limit: "Content-Length"}},
		"is the name of another": {
			FieldNames: FieldNames{Limit: "X-A", Reset: "x-a"}, Descriptors: envoy.RateLimitOptions{Fields: true},
		},
		"with --fields alone": {FieldNames: FieldNames{Limit: "X-A"}},
	} {
		config.Paths, config.Check = []string{limits}, "127.0.0.1:0"
		config.Logger = slog.New(slog.DiscardHandler)
		if err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
