package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v88/github"
	weirclient "github.com/weir-go/weir/client"
)

// newInstallation returns a client of GitHub for an installation of an App.
func newInstallation(base http.RoundTripper, app, installation int64, key []byte) (*github.Client, error) {
	limited := weirclient.MustNew(weirclient.Options{
		Base: base, Dialect: weirclient.GitHub, MaxWait: 10 * time.Minute, Observe: show,
		Bucket: func(r *http.Request) string { // not by the token, which changes each hour
			if strings.HasPrefix(r.URL.Path, "/app/") {
				return "app" // asks for a token, and has a limit of its own
			}
			return "installation"
		},
	})
	signed, err := ghinstallation.New(limited, app, installation, key)
	if err != nil {
		return nil, err
	}
	return github.NewClient(github.WithTransport(signed), github.WithDisableRateLimitCheck())
}
