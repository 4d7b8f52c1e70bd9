package agents_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

// Hosts of pages and of dynamic names give a stranger any number of subdomains for nothing.
func TestSubdomainsThatCostNothingAreOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for url, want := range map[string]string{
			"https://a.github.io":                           "unlisted:github.io",
			"https://b.github.io/jwks":                      "unlisted:github.io",
			"https://x.a.workers.dev":                       "unlisted:workers.dev",
			"https://bucket.s3.amazonaws.com":               "unlisted:amazonaws.com",
			"https://x.ec2.eu-west-1.compute.amazonaws.com": "unlisted:amazonaws.com",
			"https://a.blogspot.co.uk":                      "unlisted:blogspot.co.uk",
			"https://a.b.bot.example":                       "unlisted:bot.example",
			"https://a.bot.co.uk":                           "unlisted:bot.co.uk",
			"https://a.b.ck":                                "unlisted:a.b.ck",
			"https://github.io":                             "unlisted:github.io",
			"https://a.www.ck":                              "unlisted:www.ck",
		} {
			bot := agentstest.New(url)
			s := newSite(t, func(c *agents.Config) { c.Transport, c.Unlisted = agentstest.Transport(bot), 10 })
			wantAgent(t, s.Verifier, signed(bot), want)
		}
	})
}

// slow is a transport that answers nothing for the hosts of strangers.
type slow struct{ http.RoundTripper }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Host, "slow") {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	return s.RoundTripper.RoundTrip(r)
}

// Directories that were named in one instant, and never asked, keep no place from others.
func TestAnUnlistedDirectoryThatWasNeverAskedMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := agentstest.New("https://good.example")
		s := newSite(t, func(c *agents.Config) { c.Transport, c.Unlisted = slow{agentstest.Transport(good)}, 1000 })
		flood := agentstest.New("")
		for i := range 1000 {
			flood.Directory = fmt.Sprintf("https://slow%d.example", i)
			s.Signed(signed(flood))
		}
		time.Sleep(time.Minute)
		wantAgent(t, s.Verifier, signed(good), "unlisted:good.example")
	})
}

// One domain with a wildcard in the DNS can have any number of directories, each with keys.
func TestTheSubdomainsOfOneDomainKeepNoPlaceFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []*agentstest.Signer{agentstest.New("https://good.example"), agentstest.New("https://fine.example")}
		for i := range 30 {
			all = append(all, agentstest.New(fmt.Sprintf("https://a%d.many.example", i)))
		}
		s := newSite(t, func(c *agents.Config) { c.Transport, c.Unlisted = agentstest.Transport(all...), 20 })
		flood := func() (verified int) {
			for _, one := range all[2:] {
				if s.Signed(signed(one)) {
					verified++
				}
			}
			return verified
		}
		if got := flood(); got != 20 {
			t.Errorf("%d directories of one domain have room, want all 20", got)
		}
		for range 3 {
			wantAgent(t, s.Verifier, signed(all[0]), "unlisted:good.example")
			wantAgent(t, s.Verifier, signed(all[1]), "unlisted:fine.example")
			flood()
		}
	})
}
