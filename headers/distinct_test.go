package headers_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// The units that are left are new values: three in ten minutes. The client has the first one again.
func TestTheAnswersOfADistinctLimit(t *testing.T) {
	now := time.Unix(1795262415, 0)
	names := core.Rule[string]{
		Name: "login", Limit: limits.Distinct(limits.Per(3, 10*time.Minute)),
		Key:   func(string) (string, error) { return "client", nil },
		Value: func(name string) (string, error) { return name, nil },
	}
	found := names
	found.Limit = limits.Limit{}
	found.LimitFor = func(string, string) (limits.Limit, error) { return names.Limit, nil }
	for _, rule := range []core.Rule[string]{names, found} {
		limiter := core.MustNew(core.Config[string]{
			Rules:   []core.Rule[string]{rule},
			Backend: memory.MustNew(memory.Options{MaxKeys: 1, Clock: func() time.Time { return now }}),
		})
		for _, step := range []struct {
			name, quota string
			more        []string
		}{
			{"ann", `"login";r=2;t=400`, nil},
			{"bob", `"login";r=1;t=200`, nil},
			{"cat", `"login";r=0;t=580`, nil},
			{"ann", `"login";r=0;t=580`, nil},
			{"dan", `"login";r=0;t=570`, []string{"Retry-After: 570"}},
		} {
			o := limiter.Decide(context.Background(), step.name)
			policies := []published{{Name: "login", Limit: rule.Limit}}
			lines := append([]string{
				`RateLimit-Policy: "login";q=3;qu="distinct-values";w=600`, "RateLimit: " + step.quota,
			}, step.more...)
			options := headers.Options{Formats: []headers.Format{headers.IETF}}
			want(t, written(t, options, policies, &o), lines...)
			now = now.Add(10 * time.Second)
		}
	}
}
