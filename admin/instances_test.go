package admin_test

import (
	"testing"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/nethttp"
)

func TestThePageHasTheNumberOfInstances(t *testing.T) {
	for _, n := range []int{0, 4} {
		s := newSite(t, admin.Options{})
		s.limit = nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{perClient(1)}, Instances: n, Observer: s.counts.Limiter("api"),
		})
		var v struct{ Limiters []struct{ Instances int } }
		s.ask("GET", "/api/snapshot", "", &v)
		if len(v.Limiters) != 1 || v.Limiters[0].Instances != n {
			t.Errorf("limiters %+v, want one of %d instances", v.Limiters, n)
		}
	}
}
