package headers_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

func TestClientsLearnNothingOfShadows(t *testing.T) {
	key := func(s string) (string, error) { return s, nil }
	rules := []core.Rule[string]{
		{Name: "next", Limit: limits.FixedWindow(limits.PerDay(1)), Key: key, Mode: core.Shadow},
		{Name: "now", Limit: limits.FixedWindow(limits.PerDay(2)), Key: key},
	}
	limiter := core.MustNew(core.Config[string]{Rules: rules})
	all := []headers.Format{headers.IETF, headers.Draft6, headers.GitHub}
	for _, field := range []string{"", "x-shadow-denied"} {
		w, err := headers.New(headers.Options{Formats: all, ShadowField: field}, rules)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			o := limiter.Decide(context.Background(), "ann"+field)
			h := http.Header{}
			w.Write(h, &o)
			for name, values := range h {
				if text := strings.Join(values, ","); strings.Contains(text, "next") && name != "X-Shadow-Denied" {
					t.Errorf("request %d: %s: %s", i, name, text)
				}
			}
			if got, want := h.Get("X-Shadow-Denied"), `"next"`; field != "" && (got == want) != (i > 0) ||
				field == "" && got != "" {
				t.Errorf("request %d: X-Shadow-Denied: %q", i, got)
			}
			if got := h.Get("X-RateLimit-Limit"); got != "2" {
				t.Errorf("request %d: X-RateLimit-Limit: %q", i, got)
			}
		}
	}
}

func TestAShadowFieldHasTheNameOfAField(t *testing.T) {
	for _, name := range []string{"a b", "a:b", "ä", "Retry-After", "ratelimit-policy", "X-RateLimit-Limit"} {
		if err := headers.Validate[string](headers.Options{ShadowField: name}, nil); err == nil ||
			!strings.Contains(err.Error(), "shadow field") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
