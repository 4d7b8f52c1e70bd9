package client_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestEveryWaitSaysWhatAskedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
			Name: "all", Limit: limits.TokenBucket(limits.PerSecond(1000), 20),
			Key: keyfuncs.Constant[*http.Request]("all"),
		}}})
		base, stop := serve(limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		})))
		defer stop()
		c := newClient(t, base, client.Options{Observe: func(e client.Event) {
			if e.Wait > 0 && e.Source == "" {
				t.Errorf("%v for %v: no source", e.Kind, e.Wait)
			}
		}})
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				for range 5 {
					response, err := c.RoundTrip(request(t, "GET", "http://a.example/", nil))
					if err != nil {
						t.Error(err)
						return
					}
					response.Body.Close()
				}
			})
		}
		all.Wait()
	})
}
