package policy_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/policy"
)

func TestTheAddressOfAToolStandsInForTheClientOfTheFile(t *testing.T) {
	p, err := policy.Parse("weir.yaml",
		[]byte(`{version: 1, client: {proxy-count: 2}, lists: {offices: [198.51.100.0/24]}, `+
			`rules: [{name: all, key: address, limit: 1/hour, except: list offices}]}`),
		policy.Names[*http.Request]{
			Address: func(r *http.Request) (netip.Addr, error) { return netip.ParseAddr(r.RemoteAddr) },
		})
	if err != nil {
		t.Fatal(err)
	}
	limiter := core.MustNew(core.Config[*http.Request]{Rules: p.Rules()})
	for _, c := range []struct {
		address string
		rules   int
	}{{"192.0.2.7", 1}, {"198.51.100.7", 0}} {
		o := limiter.Decide(t.Context(), &http.Request{RemoteAddr: c.address})
		if o.Len() != c.rules || o.Len() == 1 && o.At(0).Key != c.address {
			t.Errorf("%s: got %d rules, want %d", c.address, o.Len(), c.rules)
		}
		if why := p.WhyNot("all", &http.Request{RemoteAddr: c.address}); (why == "") != (c.rules == 1) {
			t.Errorf("%s: WhyNot says %q", c.address, why)
		}
	}
}
