package headers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

func TestThePolicyShowsTheBurstBesideTheRate(t *testing.T) {
	for _, tt := range []struct {
		limit limits.Limit
		want  string
	}{
		{limits.TokenBucket(limits.PerMinute(100), 1000), "q=100;w=60;burst=1000"},
		{limits.LeakyBucket(limits.PerHour(5), 5), "q=5;w=3600;burst=5"},
		{limits.LeakyQueue(limits.PerSecond(10), 50), "q=10;w=1;burst=50"},
		{limits.TokenBucket(limits.PerMinute(600), 60), "q=60;w=6;burst=60"},
		{limits.TokenBucket(limits.Per(1, 100*time.Millisecond), 20), "q=20;w=2;burst=20"},
		{limits.FixedWindow(limits.PerMinute(10)), "q=10;w=60"},
		{limits.SlidingLog(limits.PerMinute(10)), "q=10;w=60"},
		{limits.Concurrent(10), `q=10;qu="concurrent-requests"`},
	} {
		for _, policies := range [][]published{{{Name: "p", Limit: tt.limit}}, {{Name: "p"}}} {
			if policies[0].Limit == (limits.Limit{}) && tt.limit.Algorithm().Holds() {
				continue // a rule tells by its limit that it counts concurrent requests
			}
			h := fields()
			o := decided(t, []published{{Name: "p", Limit: tt.limit}}, allowed(1, time.Second, time.Second))
			writer(t, headers.Options{BurstParameter: "burst"}, policies...).Write(h, o)
			if got := h.Get("RateLimit-Policy"); got != `"p";`+tt.want {
				t.Errorf("%v: got %s, want %s", tt.limit, got, tt.want)
			}
		}
	}
}

func TestTheBurstOfAPolicyChangesNothingElse(t *testing.T) {
	policies := []published{{Name: "p", Limit: limits.TokenBucket(limits.PerMinute(100), 1000)}}
	formats := []headers.Format{headers.IETF, headers.Draft6, headers.GitHub}
	o := decided(t, policies, allowed(900, 540*time.Second, time.Minute))
	plain := written(t, headers.Options{Formats: formats}, policies, o)
	h := fields()
	writer(t, headers.Options{Formats: formats, BurstParameter: "acme-burst"}, policies...).Write(h, o)
	if got := h.Get("RateLimit-Policy"); got != `"p";q=100;w=60;acme-burst=1000` {
		t.Errorf("got %s", got)
	}
	h.Set("RateLimit-Policy", plain.Get("RateLimit-Policy"))
	for name := range plain {
		if h.Get(name) != plain.Get(name) {
			t.Errorf("%s: got %q, want %q", name, h.Get(name), plain.Get(name))
		}
	}
}

func TestANameThatIsNoParameterIsRefused(t *testing.T) {
	for name, want := range map[string]string{
		"burst": "", "acme-burst": "", "a1_-.*": "",
		"Burst": "must be lower-case letters", "1burst": "must be lower-case letters",
		"bur st": "must be lower-case letters", "*burst": "must be lower-case letters",
		"q": "is a parameter of the draft", "w": "is a parameter of the draft",
		"qu": "is a parameter of the draft", "pk": "is a parameter of the draft",
		"a": "is a parameter of the draft", "c": "is a parameter of the draft",
	} {
		_, err := headers.New[string](headers.Options{BurstParameter: name}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", name, err, want)
		}
	}
}

func TestADraftWithOtherNamesIsOneTable(t *testing.T) {
	policies := []published{perMinute}
	h := fields()
	w := headers.NewDraft12(headers.Options{PartitionKey: headers.Digest, CostParameter: "c"}, policies)
	w.Write(h, decided(t, policies, allowed(50, 30*time.Second, time.Minute)))
	want(t, h, `RateLimit: "default";a=50;w=30;c=1;pk=:lI/mA/YdwDY=:`, `RateLimit-Policy: "default";q=100;w=60`)
}
