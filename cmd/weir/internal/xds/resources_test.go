package xds_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir/cmd/weir/internal/xds"
	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/gateway/envoy"
)

// benchmarks/between/envoy-gateway.sh has Envoy Gateway make testdata/envoy-gateway.json of
// envoy-gateway.yaml, and asks envoyproxy/ratelimit the requests of envoy-gateway.txt.
func TestLimitsOfEnvoyGatewayCountAsInTheOriginal(t *testing.T) {
	table, err := os.ReadFile("testdata/envoy-gateway.txt")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		service := descriptors.MustNew(descriptors.Awaited(), descriptors.Options{})
		client := xds.New(xds.Config{
			State: "testdata/envoy-gateway.json", Service: service, Logger: slog.New(slog.DiscardHandler),
		})
		<-client.Arrived()
		handler := envoy.JSON(service, envoy.RateLimitOptions{})
		asked, answers := "", 0
		for line := range strings.Lines(string(table)) {
			line = strings.TrimSpace(line)
			answer, isAnswer := strings.CutPrefix(line, "= ")
			if !isAnswer {
				asked = line
				continue
			}
			answers++
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(asked)))
			if got := answerOf(t, w); got != answer {
				t.Errorf("%s\ngot  %s\nwant %s", asked, got, answer)
			}
		}
		if answers < 30 {
			t.Errorf("the table has %d answers", answers)
		}
	})
}

// answerOf returns a status and an answer without the times until resets.
func answerOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	for _, status := range answer["statuses"].([]any) {
		delete(status.(map[string]any), "durationUntilReset")
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", w.Code, text)
}

// domainOf returns limits of the domain shop.
func domainOf(of ...*ratelimit.RateLimitDescriptor) *ratelimit.RateLimitConfig {
	return &ratelimit.RateLimitConfig{Name: "shop", Domain: "shop", Descriptors: of}
}

func aDay(requests uint32) *ratelimit.RateLimitPolicy {
	return &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY, RequestsPerUnit: requests}
}

func TestAFieldOfAMessageMeansWhatItMeansInAFile(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"team": "pay", "level": 3})
	if err != nil {
		t.Fatal(err)
	}
	unlimited := &ratelimit.RateLimitPolicy{Unlimited: true, Name: "free"}
	replacing := aDay(1)
	replacing.Replaces = []*ratelimit.RateLimitReplace{{Name: "free"}}
	bubble(t, func(t *testing.T, m *management) {
		a := ask(t, m, "")
		defer a.stop()
		m.set("1", domainOf(
			&ratelimit.RateLimitDescriptor{Key: "free", RateLimit: unlimited},
			&ratelimit.RateLimitDescriptor{Key: "none", RateLimit: aDay(0), ShadowMode: true},
			&ratelimit.RateLimitDescriptor{Key: "path", Value: "/a*", RateLimit: aDay(0), QuotaMode: true},
			&ratelimit.RateLimitDescriptor{Key: "path", Value: "/b", RateLimit: aDay(5), QuotaMode: true,
				DetailedMetric: true, Metadata: metadata},
			&ratelimit.RateLimitDescriptor{Key: "replacing", RateLimit: replacing},
		))
		explained := func(key string, values ...string) string {
			asked := &descriptors.Request{Domain: "shop"}
			for _, value := range values {
				asked.Descriptors = append(asked.Descriptors,
					descriptors.Descriptor{Entries: []descriptors.Entry{{Key: key, Value: value}}})
			}
			answer, err := a.service.Decide(t.Context(), asked)
			return fmt.Sprint(answer.Over, answer.Metadata, answer.Statuses[0].Limit != nil, err)
		}
		for _, of := range []struct{ got, want string }{
			{explained("free", "x"), "false map[] false <nil>"},
			{explained("none", "x"), "false map[] true <nil>"},
			{explained("replacing", "x"), "false map[] true <nil>"},
			{explained("path", "/abc", "/b"), "false map[level:3 team:pay] true <nil>"}, // a quota is left
			{explained("path", "/abc"), "true map[] true <nil>"},
			{explained("path", "/c"), "false map[] false <nil>"},
		} {
			if of.got != of.want {
				t.Errorf("got %s, want %s", of.got, of.want)
			}
		}
		detailed := false
		for _, metric := range a.service.Metrics() {
			for _, s := range metric.Series {
				detailed = detailed || strings.Contains(fmt.Sprint(s.Labels), "/b")
			}
		}
		if !detailed {
			t.Errorf("no metric has the value: %+v", a.service.Metrics())
		}
	})
}

// Envoy Gateway sends the range twice if a policy has both limits, and the original refuses all.
func TestARangeMayHaveALimitAndItsClientsAnother(t *testing.T) {
	const of = "masked_remote_address"
	each := &ratelimit.RateLimitDescriptor{Key: of, Value: "10.0.0.0/8", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Key: "remote_address", RateLimit: aDay(2)}}}
	all := &ratelimit.RateLimitDescriptor{Key: of, Value: "10.0.0.0/8", RateLimit: aDay(100)}
	for _, both := range [][]*ratelimit.RateLimitDescriptor{{each, all}, {all, each}} {
		bubble(t, func(t *testing.T, m *management) {
			a := ask(t, m, "")
			defer a.stop()
			m.set("1", domainOf(both...))
			answer, err := a.service.Decide(t.Context(), &descriptors.Request{Domain: "shop", Descriptors: []descriptors.Descriptor{
				{Entries: []descriptors.Entry{{Key: of, Value: "10.0.0.0/8"}, {Key: "remote_address", Value: "10.0.0.7"}}},
				{Entries: []descriptors.Entry{{Key: of, Value: "10.0.0.0/8"}}},
			}})
			if err != nil || answer.Statuses[0].Remaining != 1 || answer.Statuses[1].Remaining != 99 {
				t.Errorf("%+v, %v\n%s", answer, err, a.log)
			}
		})
	}
}

func TestMistakesInMessagesAreTold(t *testing.T) {
	deep := &ratelimit.RateLimitDescriptor{Key: "k"}
	for range 40 {
		deep = &ratelimit.RateLimitDescriptor{Key: "k", Descriptors: []*ratelimit.RateLimitDescriptor{deep}}
	}
	other := domainOf()
	other.Name = "other"
	for _, of := range []struct {
		sent []types.Resource
		want string
	}{
		{[]types.Resource{domainOf(
			&ratelimit.RateLimitDescriptor{Key: "k", RateLimit: aDay(1)},
			&ratelimit.RateLimitDescriptor{Key: "k", RateLimit: aDay(2)})},
			`shop: rule "k": this descriptor is here twice: remove one`},
		{[]types.Resource{domainOf(&ratelimit.RateLimitDescriptor{Key: "k", RateLimit: aDay(4_000_000_000)})},
			`requests_per_unit must be a whole number, 0 to 499999999 (got "4000000000")`},
		{[]types.Resource{domainOf(&ratelimit.RateLimitDescriptor{RateLimit: aDay(1)})},
			"key must be a text that is not empty"},
		{[]types.Resource{domainOf(&ratelimit.RateLimitDescriptor{Key: "k", RateLimit: &ratelimit.RateLimitPolicy{}})},
			`rule "k": unit is required`},
		{[]types.Resource{domainOf(&ratelimit.RateLimitDescriptor{Key: "k",
			RateLimit: &ratelimit.RateLimitPolicy{Unlimited: true, Unit: ratelimit.RateLimitUnit_WEEK}})},
			"unlimited has no unit"},
		{[]types.Resource{domainOf(deep)}, "shop: lists and maps are more than 40 deep"},
		{[]types.Resource{domainOf(), other}, `shop: domain "shop" is also in other`},
	} {
		bubble(t, func(t *testing.T, m *management) {
			a := ask(t, m, "")
			m.set("1", of.sent...)
			if _, _, mistake := m.last(); !strings.Contains(mistake, of.want) {
				t.Errorf("refused by %q, want %q", mistake, of.want)
			}
			a.has("shop", "unavailable")
			a.stop()
		})
	}
}
