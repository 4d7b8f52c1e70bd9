package keyfuncs_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// itself is the source of requests that are an address.
func itself(addr netip.Addr) (netip.Addr, error) { return addr, nil }

// isInside reports whether addr is inside ranges, and fails the test if Inside and
// Outside disagree about it.
func isInside(t *testing.T, ranges []string, addr netip.Addr) bool {
	t.Helper()
	key := func(netip.Addr) (string, error) { return "key", nil }
	return applies(t, keyfuncs.MustInside(itself, ranges, key), keyfuncs.MustOutside(itself, ranges, key), addr)
}

// applies reports whether inside applies to r. It fails the test unless outside is
// its opposite.
func applies[R any](t *testing.T, inside, outside func(R) (string, error), r R) bool {
	t.Helper()
	in, inErr := inside(r)
	out, outErr := outside(r)
	switch {
	case in == "key" && inErr == nil && out == "" && outErr == core.ErrDoesNotApply:
		return true
	case in == "" && inErr == core.ErrDoesNotApply && out == "key" && outErr == nil:
		return false
	}
	t.Fatalf("%v: Inside: %q, %v; Outside: %q, %v; want the key from one and core.ErrDoesNotApply from the other", r,
		in, inErr, out, outErr)
	return false
}

func TestARuleAppliesInsideOrOutsideNetworks(t *testing.T) {
	ranges := []string{"10.0.0.0/8", "203.0.113.7", "2001:db8:1::/48", "2001:db8:2::9"}
	for addr, want := range map[string]bool{
		"10.0.0.0": true, "10.255.255.255": true, "9.255.255.255": false, "11.0.0.0": false,
		"203.0.113.7": true, "203.0.113.6": false, "203.0.113.8": false,
		"2001:db8:1::": true, "2001:db8:1:ffff:ffff:ffff:ffff:ffff": true, "2001:db8:0:ffff:ffff:ffff:ffff:ffff": false,
		"2001:db8:2::9": true, "2001:db8:2::8": false, "2001:db8:2::a": false,
		"::a00:1": false, "255.255.255.255": false, "0.0.0.1": false, "::1": false, "ffff::": false,
	} {
		if got := isInside(t, ranges, netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: inside is %t, want %t", addr, got, want)
		}
	}
}

func TestNoNotationOfAnAddressLeavesANetwork(t *testing.T) {
	for _, c := range []struct {
		ranges, addr string
		want         bool
	}{
		{"10.0.0.0/8", "::ffff:10.0.0.1", true},
		{"10.0.0.0/8", "::ffff:a00:1", true},
		{"10.0.0.0/8", "::ffff:11.0.0.1", false},
		{"fe80::/10", "fe80::1%eth0", true},
		{"10.0.0.0/8", "::ffff:10.0.0.1%eth0", true},
		{"::ffff:10.0.0.0/104", "10.0.0.1", true},
		{"::ffff:10.0.0.0/104", "11.0.0.1", false},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"::ffff:0:0/96", "203.0.113.7", true},
		{"::ffff:0:0/96", "2001:db8::1", false},
		{"10.1.2.3/8", "10.9.9.9", true},
		{"2001:db8::1/32", "2001:db8:9::9", true},
		{"0.0.0.0/0", "203.0.113.7", true},
		{"0.0.0.0/0", "255.255.255.255", true},
		{"0.0.0.0/0", "::ffff:203.0.113.7", true},
		{"0.0.0.0/0", "2001:db8::1", false},
		{"::/0", "2001:db8::1", true},
		{"::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true},
		{"::/0", "203.0.113.7", false},
		{"::/0", "::ffff:203.0.113.7", false},
		{"::/0 2001:db8::/32 ffff::/16", "ffff:ffff::", true}, // there is no address after the last of ::/0
		{"0.0.0.0/0 10.0.0.0/8 255.0.0.0/8", "11.0.0.1", true},
		{"203.0.113.0/24", "64:ff9b::cb00:7107", false},
		{"64:ff9b::/96", "64:ff9b::cb00:7107", true},
		{"10.0.0.1 10.0.0.1 10.0.0.1/32", "10.0.0.1", true},
	} {
		if got := isInside(t, strings.Fields(c.ranges), netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: %s: inside is %t, want %t", c.ranges, c.addr, got, c.want)
		}
	}
}

func TestWithoutRangesNobodyIsInside(t *testing.T) {
	for _, ranges := range [][]string{nil, {}} {
		for _, addr := range []string{"10.0.0.1", "2001:db8::1"} {
			if isInside(t, ranges, netip.MustParseAddr(addr)) {
				t.Errorf("%s is inside", addr)
			}
		}
	}
}

// Neither an allow list nor a deny list may be chosen by an address that cannot be
// known.
func TestWhoHasNoAddressIsNeitherInsideNorOutside(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", core.ErrDoesNotApply)
	known := netip.MustParseAddr("10.0.0.1")
	for name, c := range map[string]struct {
		addr netip.Addr
		err  error
		want error
	}{
		"an error":                {netip.Addr{}, errBroken, errBroken},
		"an error and an address": {known, errBroken, errBroken},
		"absent":                  {netip.Addr{}, core.ErrAbsent, core.ErrAbsent},
		"does not apply":          {netip.Addr{}, core.ErrDoesNotApply, core.ErrDoesNotApply},
		"a wrapped error":         {known, wrapped, wrapped},
		"no address":              {netip.Addr{}, nil, keyfuncs.ErrUnidentified},
		"unspecified":             {netip.IPv4Unspecified(), nil, keyfuncs.ErrUnidentified},
		"unspecified, IPv6":       {netip.IPv6Unspecified(), nil, keyfuncs.ErrUnidentified},
		"unspecified, mapped":     {netip.MustParseAddr("::ffff:0.0.0.0"), nil, keyfuncs.ErrUnidentified},
		"unspecified, with zone":  {netip.IPv6Unspecified().WithZone("a"), nil, keyfuncs.ErrUnidentified},
	} {
		source := func(pair) (netip.Addr, error) { return c.addr, c.err }
		key := func(pair) (string, error) {
			t.Errorf("%s: the key function was called", name)
			return "key", nil
		}
		for _, ranges := range [][]string{nil, {"10.0.0.0/8"}, {"0.0.0.0/0", "::/0"}} {
			for _, f := range []func(pair) (string, error){
				keyfuncs.MustInside(source, ranges, key), keyfuncs.MustOutside(source, ranges, key),
			} {
				got, err := f(pair{})
				if got != "" || err != c.want && (c.want != keyfuncs.ErrUnidentified || !errors.Is(err, c.want)) {
					t.Errorf("%s, %v: got %q, %v; want %v", name, ranges, got, err, c.want)
				}
			}
		}
	}
}

// brokenHeaders are what a client can send to make a proxy's header useless.
var brokenHeaders = []string{"unknown", "203.0.113.7,", "0.0.0.0", "x", "::", "198.51.100.1, x"}

func TestABrokenHeaderChoosesNoList(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8")
	networks := []string{"10.0.0.0/8", "198.51.100.0/24"}
	for _, header := range brokenHeaders {
		r := request("10.0.0.1:80", "X-Forwarded-For: "+header)
		wantUnidentified(t, keyfuncs.MustInside(source, networks, keyfuncs.Address(source)), r)
		wantUnidentified(t, keyfuncs.MustOutside(source, networks, keyfuncs.Address(source)), r)
	}
	r := request("10.0.0.1:80", "X-Forwarded-For: 10.0.0.2, 198.51.100.1, 203.0.113.7")
	wantKey(t, keyfuncs.MustOutside(source, networks, keyfuncs.Address(source)), r, "203.0.113.7")
}

func TestUnknownAddressesMayCountTogetherInsideAndOutside(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8")
	networks := []string{"10.0.0.0/8", "198.51.100.0/24"}
	inside := keyfuncs.OrShared(keyfuncs.MustInside(source, networks, keyfuncs.Address(source)))
	outside := keyfuncs.OrShared(keyfuncs.MustOutside(source, networks, keyfuncs.Address(source)))
	for _, header := range brokenHeaders {
		r := request("10.0.0.1:80", "X-Forwarded-For: "+header)
		wantAbsent(t, inside, r)
		wantAbsent(t, outside, r)
	}
	listed := request("10.0.0.1:80", "X-Forwarded-For: 198.51.100.1")
	wantKey(t, inside, listed, "198.51.100.1")
	if key, err := outside(listed); key != "" || err != core.ErrDoesNotApply {
		t.Errorf("got %q, %v; want core.ErrDoesNotApply", key, err)
	}
}

// The documentation of Outside warns of this.
func TestWithOrPeerABrokenHeaderHasTheListOfTheProxy(t *testing.T) {
	source := keyfuncs.OrPeer(keyfuncs.MustTrustedProxies("10.0.0.0/8"))
	key := func(*http.Request) (string, error) { return "key", nil }
	for _, header := range brokenHeaders {
		r := request("10.0.0.1:80", "X-Forwarded-For: "+header)
		for network, want := range map[string]bool{"10.0.0.0/8": true, "203.0.113.0/24": false} {
			ranges := []string{network}
			got := applies(t, keyfuncs.MustInside(source, ranges, key), keyfuncs.MustOutside(source, ranges, key), r)
			if got != want {
				t.Errorf("%s, %s: inside is %t, want %t", header, network, got, want)
			}
		}
	}
	// Without a peer there is no address either.
	wantUnidentified(t, keyfuncs.MustOutside(source, []string{"10.0.0.0/8"}, key), request("@"))
}

func TestAKeyInsideANetworkFailsAsItsKeyDoes(t *testing.T) {
	anywhere := func(pair) (netip.Addr, error) { return netip.MustParseAddr("10.0.0.1"), nil }
	for _, c := range []struct {
		key  func(pair) (string, error)
		want error
	}{
		{none, core.ErrAbsent}, {broken, errBroken},
		{core.When(func(pair) bool { return false }, first), core.ErrDoesNotApply},
	} {
		if key, err := keyfuncs.MustInside(anywhere, []string{"10.0.0.1"}, c.key)(pair{}); key != "" || err != c.want {
			t.Errorf("Inside: got %q, %v; want %v itself", key, err, c.want)
		}
		if key, err := keyfuncs.MustOutside(anywhere, nil, c.key)(pair{}); key != "" || err != c.want {
			t.Errorf("Outside: got %q, %v; want %v itself", key, err, c.want)
		}
	}
}

func TestEveryMistakeInTheNetworksIsReported(t *testing.T) {
	const text = `keyfuncs: Inside: source must not be nil
keyfuncs: Inside: key must not be nil
keyfuncs: Inside: range "": must be a CIDR range or an IP address without zone
keyfuncs: Inside: range "10.0.0.0/33": must be a CIDR range or an IP address without zone
keyfuncs: Inside: range " 10.0.0.1": must be a CIDR range or an IP address without zone
keyfuncs: Inside: range "unix": must be a CIDR range or an IP address without zone
keyfuncs: Inside: range "fe80::1%eth0": must be a CIDR range or an IP address without zone
keyfuncs: Inside: range "fe80::%eth0/10": must be a CIDR range or an IP address without zone
keyfuncs: Inside: range "::ffff:0:0/95": covers more than the IPv4 addresses mapped into IPv6: write an IPv4 range`
	ranges := []string{
		"", "10.0.0.0/33", "10.0.0.0/8", " 10.0.0.1", "unix", "fe80::1%eth0", "fe80::%eth0/10", "::ffff:0:0/95",
	}
	if key, err := keyfuncs.Inside[pair](nil, ranges, nil); key != nil || err == nil || err.Error() != text {
		t.Errorf("got\n%v\nwant\n%s", err, text)
	}
	want := strings.ReplaceAll(text, "Inside", "Outside")
	if key, err := keyfuncs.Outside[pair](nil, ranges, nil); key != nil || err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	// A source or key that could not be made is a mistake at any depth.
	if key, err := keyfuncs.Outside(keyfuncs.OrPeer(nil), nil, keyfuncs.Header("Host")); key != nil || err == nil ||
		strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v, want two mistakes", err)
	}
}

func TestNetworksKeepTheirArguments(t *testing.T) {
	ranges := []string{"10.0.0.0/8"}
	key := keyfuncs.MustInside(keyfuncs.Peer, ranges, keyfuncs.Address(keyfuncs.Peer))
	ranges[0] = "192.0.2.0/24"
	wantKey(t, key, request("10.0.0.1:80"), "10.0.0.1")
}

func TestAnExemptNetworkIsLeftOutOfTheOutcome(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("192.0.2.1")
	limiter := core.MustNew(core.Config[*http.Request]{Rules: []core.Rule[*http.Request]{{
		Name:  "per-client",
		Limit: limits.SlidingWindow(limits.PerMinute(1)),
		Key:   keyfuncs.MustOutside(source, []string{"10.0.0.0/8"}, keyfuncs.Address(source)),
	}}})
	for _, c := range []struct {
		step  string
		r     *http.Request
		want  core.Verdict
		rules int
	}{
		{"outside", request("203.0.113.7:80"), core.Allowed, 1},
		{"outside again", request("203.0.113.7:80"), core.Denied, 1},
		{"inside", request("10.0.0.1:80"), core.Allowed, 0},
		{"inside again", request("10.0.0.1:80"), core.Allowed, 0},
		{"unknown", request("192.0.2.1:80", "X-Forwarded-For: unknown"), core.Unavailable, 1},
	} {
		outcome := limiter.Decide(t.Context(), c.r)
		if outcome.Verdict() != c.want || outcome.Len() != c.rules {
			t.Errorf("%s: got %v by %d rules, want %v by %d", c.step, outcome.Verdict(), outcome.Len(), c.want, c.rules)
		}
	}
}
