// Package outgoing sets up clients that follow the limits of servers.
package outgoing

import (
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/gofri/go-github-ratelimit/v2/github_ratelimit"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/weir-go/weir/client"
)

// Contestant wraps a transport in a client.
type Contestant struct {
	Name string
	Weir bool
	Wrap func(base http.RoundTripper) http.RoundTripper
}

// Contestants returns all of them, the peers first.
func Contestants() []Contestant {
	return []Contestant{
		{Name: "gofri/go-github-ratelimit", Wrap: func(base http.RoundTripper) http.RoundTripper {
			return github_ratelimit.New(base)
		}},
		{Name: "go-retryablehttp", Wrap: func(base http.RoundTripper) http.RoundTripper {
			c := retryablehttp.NewClient()
			c.HTTPClient = &http.Client{Transport: base}
			c.Logger = nil
			c.RetryWaitMin, c.RetryWaitMax = time.Second, 30*time.Second
			return &retryablehttp.RoundTripper{Client: c}
		}},
		{Name: "failsafe-go", Wrap: func(base http.RoundTripper) http.RoundTripper {
			return failsafehttp.NewRoundTripper(base, failsafehttp.NewRetryPolicyBuilder().Build())
		}},
		{Name: "weir", Weir: true, Wrap: func(base http.RoundTripper) http.RoundTripper {
			return client.MustNew(client.Options{Base: base})
		}},
		{Name: "weir, GitHub's dialect", Weir: true,
			Wrap: func(base http.RoundTripper) http.RoundTripper {
				return client.MustNew(client.Options{Base: base, Dialect: client.GitHub})
			}},
	}
}
