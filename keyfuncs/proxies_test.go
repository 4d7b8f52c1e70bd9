package keyfuncs_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

const xff = "X-Forwarded-For"

func TestTheRightmostUntrustedHopIsTheClient(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8", "192.0.2.1", "2001:db8:f::/48")
	for _, c := range []hopCase{
		{"one proxy", "10.0.0.1:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"three proxies", "10.0.0.1:80", []string{"203.0.113.7, 192.0.2.1, 10.0.0.2"}, "203.0.113.7"},
		{"no white space", "10.0.0.1:80", []string{"203.0.113.7,192.0.2.1,10.0.0.2"}, "203.0.113.7"},
		{"tabs", "10.0.0.1:80", []string{"\t203.0.113.7\t,\t10.0.0.2\t"}, "203.0.113.7"},
		{"several lines", "10.0.0.1:80", []string{"203.0.113.7", "192.0.2.1", "10.0.0.2"}, "203.0.113.7"},
		{"IPv6 proxy", "[2001:db8:f::1]:80", []string{"2001:db8:1::1, 2001:db8:f::2"}, "2001:db8:1::1"},
		{"IPv6 in brackets", "10.0.0.1:80", []string{"[2001:db8:1::1]"}, "2001:db8:1::1"},
		{"ports", "10.0.0.1:80", []string{"203.0.113.7:4711, 10.0.0.2:4712"}, "203.0.113.7"},
		{"IPv6 with port", "10.0.0.1:80", []string{"[2001:db8:1::1]:4711"}, "2001:db8:1::1"},
		{"a port is not an address", "10.0.0.1:80", []string{"203.0.113.7, 4711"}, ""},
	} {
		c.run(t, source, xff)
	}
}

func TestALeftmostForgedHopIsNeverBelieved(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8")
	for _, c := range []hopCase{
		{"in the same line", "10.0.0.1:80", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		{"in a line of its own", "10.0.0.1:80", []string{"198.51.100.1", "203.0.113.7"}, "203.0.113.7"},
		{"a trusted address", "10.0.0.1:80", []string{"10.9.9.9, 203.0.113.7"}, "203.0.113.7"},
		{"loopback", "10.0.0.1:80", []string{"127.0.0.1", "203.0.113.7"}, "203.0.113.7"},
		{"garbage", "10.0.0.1:80", []string{"'; DROP TABLE --, 203.0.113.7"}, "203.0.113.7"},
		{"empty hops", "10.0.0.1:80", []string{",,,, 203.0.113.7"}, "203.0.113.7"},
		{"an empty line", "10.0.0.1:80", []string{"", "203.0.113.7"}, "203.0.113.7"},
	} {
		c.run(t, source, xff)
	}
}

func TestAnUntrustedPeerIsTheClientWhateverItSends(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8")
	for _, c := range []hopCase{
		{"no header", "203.0.113.7:80", nil, "203.0.113.7"},
		{"another address", "203.0.113.7:80", []string{"198.51.100.1"}, "203.0.113.7"},
		{"trusted addresses", "203.0.113.7:80", []string{"198.51.100.1, 10.0.0.1"}, "203.0.113.7"},
		{"garbage", "203.0.113.7:80", []string{"garbage"}, "203.0.113.7"},
	} {
		c.run(t, source, xff)
	}
}

// nginx with real_ip_recursive, Express and Rails answer the same. The sender is the owner of the proxies,
// such as curl on the machine of one.
func TestWhereEveryHopIsTrustedTheFarthestIsTheClient(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8", "127.0.0.1", "::1")
	for _, c := range []hopCase{
		{"curl through a proxy on the same machine", "127.0.0.1:80", []string{"127.0.0.1"}, "127.0.0.1"},
		{"the same over IPv6", "[::1]:80", []string{"::1"}, "::1"},
		{"one hop", "10.0.0.1:80", []string{"10.0.0.2"}, "10.0.0.2"},
		{"two hops", "10.0.0.1:80", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"several lines", "10.0.0.1:80", []string{"10.0.0.4, 10.0.0.3", "10.0.0.2"}, "10.0.0.4"},
		{"a mapped hop with a port", "10.0.0.1:80", []string{"[::ffff:10.0.0.3]:4711, 10.0.0.2"}, "10.0.0.3"},
		{"64 hops", "10.0.0.1:80", []string{"10.0.0.9" + strings.Repeat(",10.0.0.2", 63)}, "10.0.0.9"},
		{"65 hops", "10.0.0.1:80", []string{"10.0.0.9" + strings.Repeat(",10.0.0.2", 64)}, ""},
	} {
		c.run(t, source, xff)
		for i := range c.lines { // as elements of Forwarded
			hops := strings.Split(c.lines[i], ",")
			for j, hop := range hops {
				if hop = strings.TrimSpace(hop); hop == "::1" {
					hop = "[::1]"
				}
				hops[j] = `for="` + hop + `"`
			}
			c.lines[i] = strings.Join(hops, ", ")
		}
		c.name += ", Forwarded"
		c.run(t, keyfuncs.MustForwarded("10.0.0.0/8", "127.0.0.1", "::1"), "Forwarded")
	}

	overUnix := request("@", xff+": 127.0.0.1")
	overUnix = overUnix.WithContext(
		context.WithValue(overUnix.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/app", Net: "unix"}))
	wantKey(t, keyfuncs.Address(keyfuncs.MustTrustedProxies("unix", "127.0.0.1")), overUnix, "127.0.0.1")

	user := func(*http.Request) (string, error) { return "", core.ErrAbsent }
	wantKey(t, keyfuncs.First(user, keyfuncs.Address(source)), request("127.0.0.1:80", xff+": 127.0.0.1"),
		"1:127.0.0.1")
	wantKey(t, keyfuncs.FirstNamed(keyfuncs.Named("user", user), keyfuncs.Named("address", keyfuncs.Address(source))),
		request("127.0.0.1:80", xff+": 127.0.0.1"), "address:127.0.0.1")
}

// A client outside the ranges gains nothing by claiming addresses inside them, since a proxy appends its own.
func TestOnlyWhoIsTrustedReachesTheFarthestHop(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8", "127.0.0.1")
	for _, forged := range []string{
		"127.0.0.1", "10.0.0.9", "10.0.0.9, 127.0.0.1", "::ffff:10.0.0.9", "10.0.0.9:80,10.0.0.8", "",
	} {
		for _, proxies := range []string{"203.0.113.7", "203.0.113.7, 10.0.0.2", "203.0.113.7, 10.0.0.3, 10.0.0.2"} {
			hopCase{forged + " in front of " + proxies, "10.0.0.1:80", []string{forged + ", " + proxies},
				"203.0.113.7"}.run(t, source, xff)
			hopCase{forged + " in a line before " + proxies, "10.0.0.1:80", []string{forged, proxies},
				"203.0.113.7"}.run(t, source, xff)
		}
		hopCase{forged + ", without a proxy", "203.0.113.7:80", []string{forged}, "203.0.113.7"}.run(t, source, xff)
	}
}

func TestATrustedProxyThatContradictsItsDescriptionIsAnError(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8")
	for _, c := range []hopCase{
		{name: "no header", remote: "10.0.0.1:80"},
		{name: "an empty header", remote: "10.0.0.1:80", lines: []string{""}},
		{name: "unknown", remote: "10.0.0.1:80", lines: []string{"203.0.113.7, unknown"}},
		{name: "garbage left of a trusted hop", remote: "10.0.0.1:80",
			lines: []string{"203.0.113.7, garbage, 10.0.0.2"}},
		{name: "an empty hop", remote: "10.0.0.1:80", lines: []string{"203.0.113.7, , 10.0.0.2"}},
		{name: "a comma at the end", remote: "10.0.0.1:80", lines: []string{"203.0.113.7,"}},
		{name: "an empty line at the end", remote: "10.0.0.1:80", lines: []string{"203.0.113.7", ""}},
		{name: "unspecified", remote: "10.0.0.1:80", lines: []string{"203.0.113.7, 0.0.0.0"}},
		{name: "two addresses in a hop", remote: "10.0.0.1:80", lines: []string{"203.0.113.7 203.0.113.8"}},
		{name: "a quoted hop", remote: "10.0.0.1:80", lines: []string{`"203.0.113.7"`}},
		{name: "leading zeros", remote: "10.0.0.1:80", lines: []string{"203.0.113.007"}},
	} {
		c.run(t, source, xff)
	}
}

func TestAnErrorSaysWhatToLookFor(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8")
	for want, r := range map[string]*http.Request{
		"the peer has no IP address":                          request("@"),
		"the forwarding header is missing":                    request("10.0.0.1:80"),
		"a hop of the forwarding header is not an IP address": request("10.0.0.1:80", xff+": unknown"),
		"the forwarding header has too many hops": request("10.0.0.1:80",
			xff+": "+strings.Repeat("10.0.0.2,", 99)+"10.0.0.2"),
		"the address is missing, unspecified or invalid": request("10.0.0.1:80", xff+": 0.0.0.0"),
	} {
		if _, err := source(r); err == nil || err.Error() != "keyfuncs: cannot tell who sent the request: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// netip.Prefix.Contains is false for mapped and zoned addresses.
func TestAHopCannotDodgeTheTrustListByItsNotation(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8", "fe80::/10")
	for _, c := range []hopCase{
		{"mapped hop", "10.0.0.1:80", []string{"203.0.113.7, ::ffff:10.0.0.2"}, "203.0.113.7"},
		{"mapped hop in hexadecimal", "10.0.0.1:80", []string{"203.0.113.7, ::ffff:a00:2"}, "203.0.113.7"},
		{"mapped peer", "[::ffff:10.0.0.1]:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"zoned hop", "10.0.0.1:80", []string{"203.0.113.7, fe80::2%eth0"}, "203.0.113.7"},
		{"zoned peer", "[fe80::1%eth0]:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"mapped client", "10.0.0.1:80", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
	} {
		c.run(t, source, xff)
	}
}

func TestARangeMayBeWrittenInManyWays(t *testing.T) {
	for _, text := range []string{
		"10.0.0.0/8", "10.1.2.3/8", "10.0.0.1", "10.0.0.1/32", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1",
	} {
		source := keyfuncs.MustTrustedProxies(text)
		hopCase{text, "10.0.0.1:80", []string{"203.0.113.7"}, "203.0.113.7"}.run(t, source, xff)
	}
}

func TestEveryMistakeInTheRangesIsReported(t *testing.T) {
	const text = `keyfuncs: Forwarded: range "": must be a CIDR range, an IP address without zone, or "unix"
keyfuncs: Forwarded: range "10.0.0.0/33": must be a CIDR range, an IP address without zone, or "unix"
keyfuncs: Forwarded: range "proxy.example": must be a CIDR range, an IP address without zone, or "unix"
keyfuncs: Forwarded: range "fe80::1%eth0": must be a CIDR range, an IP address without zone, or "unix"
keyfuncs: Forwarded: range "0.0.0.0/0": trusts every address: list only the addresses of your proxies
keyfuncs: Forwarded: range "::/0": trusts every address: list only the addresses of your proxies
keyfuncs: Forwarded: range "::ffff:0:0/96": trusts every address: list only the addresses of your proxies
keyfuncs: Forwarded: range "::ffff:0:0/90": covers more than the IPv4 addresses mapped into IPv6: write an IPv4 range`
	source, err := keyfuncs.Forwarded("", "10.0.0.0/8", "10.0.0.0/33", "proxy.example", "fe80::1%eth0",
		"0.0.0.0/0", "::/0", "::ffff:0:0/96", "::ffff:0:0/90")
	if source != nil || err == nil || err.Error() != text {
		t.Errorf("got\n%v\nwant\n%s", err, text)
	}
}

func TestWithoutProxiesThePeerIsTheClientWhateverItSends(t *testing.T) {
	for name, source := range map[string]keyfuncs.AddrSource{
		"TrustedProxies":             keyfuncs.MustTrustedProxies(),
		"TrustedProxies, empty list": keyfuncs.MustTrustedProxies([]string{}...),
		"Forwarded":                  keyfuncs.MustForwarded(),
	} {
		for _, c := range []hopCase{
			{"a client", "203.0.113.7:80", nil, "203.0.113.7"},
			{"a header", "203.0.113.7:80", []string{"198.51.100.1"}, "203.0.113.7"},
			{"a header from the loopback", "127.0.0.1:80", []string{"198.51.100.1"}, "127.0.0.1"},
			{"a unix socket", "@", []string{"198.51.100.1"}, ""},
			{"an overwritten peer", "203.0.113.7", []string{"198.51.100.1"}, ""},
			{"no peer", "", []string{"198.51.100.1"}, ""},
		} {
			c.name = name + ", " + c.name
			c.run(t, source, xff)
			if c.lines != nil {
				c.lines = []string{"for=198.51.100.1"}
				c.run(t, source, "Forwarded")
			}
		}
	}
	// An empty text is not an empty list: strings.Split("") returns one empty text.
	if source, err := keyfuncs.TrustedProxies(""); source != nil || err == nil {
		t.Errorf("got %v", err)
	}
}

func TestMustPanicsAtStartUp(t *testing.T) {
	for name, f := range map[string]func(){
		"MustTrustedProxies": func() { keyfuncs.MustTrustedProxies("x") },
		"MustForwarded":      func() { keyfuncs.MustForwarded("x") },
		"MustProxyCount":     func() { keyfuncs.MustProxyCount(0) },
		"MustSingleHeader":   func() { keyfuncs.MustSingleHeader("Forwarded") },
		"MustAddressPrefix":  func() { keyfuncs.MustAddressPrefix(keyfuncs.AddrSource(nil), 64) },
		"MustInside":         func() { keyfuncs.MustInside(keyfuncs.Peer, []string{"x"}, keyfuncs.Path) },
		"MustOutside":        func() { keyfuncs.MustOutside(keyfuncs.Peer, []string{"x"}, keyfuncs.Path) },
	} {
		func() {
			defer func() {
				if _, ok := recover().(error); !ok {
					t.Errorf("%s did not panic with an error", name)
				}
			}()
			f()
		}()
	}
}

func TestTheNthHopFromTheRightIsTheClient(t *testing.T) {
	one, two := keyfuncs.MustProxyCount(1), keyfuncs.MustProxyCount(2)
	hopCase{"one proxy", "@", []string{"203.0.113.7"}, "203.0.113.7"}.run(t, one, xff)
	hopCase{"one proxy, forged hops", "@", []string{"198.51.100.1, 10.0.0.1, 203.0.113.7"}, "203.0.113.7"}.run(t, one,
		xff)
	hopCase{"one proxy, a forged line", "@", []string{"198.51.100.1", "203.0.113.7"}, "203.0.113.7"}.run(t, one, xff)
	hopCase{"two proxies", "@", []string{"203.0.113.7, 10.0.0.1"}, "203.0.113.7"}.run(t, two, xff)
	hopCase{"two proxies, two lines", "@", []string{"203.0.113.7", "10.0.0.1"}, "203.0.113.7"}.run(t, two, xff)
	hopCase{"two proxies, forged hops", "@", []string{"198.51.100.1, 203.0.113.7", "10.0.0.1"}, "203.0.113.7"}.run(t,
		two, xff)
	hopCase{"the hop right of the client is not read", "@", []string{"203.0.113.7, unknown"}, "203.0.113.7"}.run(t, two,
		xff)
	hopCase{"the client may be private", "@", []string{"192.168.1.2"}, "192.168.1.2"}.run(t, one, xff)

	hopCase{name: "no header", remote: "203.0.113.7:80"}.run(t, one, xff)
	hopCase{name: "too few hops", remote: "203.0.113.7:80", lines: []string{"203.0.113.7"}}.run(t, two, xff)
	hopCase{name: "an empty header", remote: "203.0.113.7:80", lines: []string{""}}.run(t, one, xff)
	hopCase{name: "an empty hop counts", remote: "203.0.113.7:80", lines: []string{"203.0.113.7,,"}}.run(t, two, xff)
	hopCase{name: "an endless hop on the way", remote: "@",
		lines: []string{"203.0.113.7, " + strings.Repeat("1", 1000)}}.run(t, two, xff)
	hopCase{name: "garbage at the place", remote: "203.0.113.7:80", lines: []string{"203.0.113.7, x, 10.0.0.1"}}.run(t,
		two, xff)
}

func TestANumberOfProxiesOutOfRangeIsAMistake(t *testing.T) {
	for _, n := range []int{-1, 0, 65} {
		if source, err := keyfuncs.ProxyCount(n); source != nil || err == nil {
			t.Errorf("%d: got no error", n)
		}
	}
	r := request("@", xff+": 203.0.113.7"+strings.Repeat(", 10.0.0.1", 63))
	if got, err := keyfuncs.MustProxyCount(64)(r); err != nil || got.String() != "203.0.113.7" {
		t.Errorf("64 proxies: got %v, %v", got, err)
	}
}

func TestTheWalkEndsWhoeverWroteTheHeader(t *testing.T) {
	source := keyfuncs.MustTrustedProxies("10.0.0.0/8")
	hopCase{"63 trusted hops", "10.0.0.1:80", []string{"203.0.113.7" + strings.Repeat(",10.0.0.1", 63)},
		"203.0.113.7"}.run(t, source, xff)
	hopCase{"64 trusted hops", "10.0.0.1:80", []string{"203.0.113.7" + strings.Repeat(",10.0.0.1", 64)}, ""}.run(t,
		source, xff)
	hopCase{"64 lines", "10.0.0.1:80",
		append([]string{"203.0.113.7"}, strings.Fields(strings.Repeat("10.0.0.1 ", 64))...), ""}.run(t, source, xff)
	hopCase{"an endless hop", "10.0.0.1:80", []string{strings.Repeat("1", 1<<20)}, ""}.run(t, source, xff)
	hopCase{"endless white space", "10.0.0.1:80", []string{"203.0.113.7" + strings.Repeat(" ", 1<<20)}, ""}.run(t,
		source, xff)
	hopCase{"an endless hop left of the client", "10.0.0.1:80", []string{strings.Repeat("1", 1<<20) + ", 203.0.113.7"},
		"203.0.113.7"}.run(t, source, xff)
	hopCase{"an endless zone", "10.0.0.1:80", []string{"fe80::1%" + strings.Repeat("z", 1<<20)}, ""}.run(t, source, xff)
}

// The longest element is read wherever it stands, and a longer one nowhere. White space counts.
func TestTheBoundOfAnElementIsExact(t *testing.T) {
	padded := func(length int, element string) string {
		return strings.Repeat(" ", length-len(element)) + element
	}
	for _, c := range []struct {
		header, element string
		source          keyfuncs.AddrSource
		longest         int
	}{
		{"X-Forwarded-For", "203.0.113.7", keyfuncs.MustTrustedProxies("10.0.0.0/8"), 128},
		{"X-Forwarded-For", "203.0.113.7", keyfuncs.MustProxyCount(1), 128},
		{"Forwarded", "for=203.0.113.7", keyfuncs.MustForwarded("10.0.0.0/8"), 1024},
	} {
		for length, want := range map[int]string{
			c.longest - 1: "203.0.113.7", c.longest: "203.0.113.7", c.longest + 1: "",
		} {
			element := padded(length, c.element)
			for where, line := range map[string]string{
				"alone": element, "behind a comma": "," + element, "behind a hop": "for=192.0.2.1," + element,
			} {
				hopCase{fmt.Sprintf("%s of %d bytes %s", c.header, length, where), "10.0.0.1:80",
					[]string{line}, want}.run(t, c.source, c.header)
			}
		}
	}
}

func TestAUnixPeerFailsClosedUnlessItIsTrusted(t *testing.T) {
	overUnix := func(r *http.Request) *http.Request {
		return r.WithContext(
			context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/app", Net: "unix"}))
	}
	forwarded := []string{xff + ": 203.0.113.7", "Forwarded: for=203.0.113.7", "X-Real-Ip: 203.0.113.7"}
	for name, constructor := range map[string]func(...string) (keyfuncs.AddrSource, error){
		"TrustedProxies": keyfuncs.TrustedProxies,
		"Forwarded":      keyfuncs.Forwarded,
		"SingleHeader": func(ranges ...string) (keyfuncs.AddrSource, error) {
			return keyfuncs.SingleHeader("X-Real-IP", ranges...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			without, err := constructor("10.0.0.0/8")
			if err != nil {
				t.Fatal(err)
			}
			with, err := constructor("10.0.0.0/8", "unix")
			if err != nil {
				t.Fatal(err)
			}
			for _, remote := range []string{"@", "", "/run/client", "10.0.0.1", "198.51.100.1:80"} {
				wantKey(t, keyfuncs.Address(with), overUnix(request(remote, forwarded...)), "203.0.113.7")
			}
			wantUnidentified(t, keyfuncs.Address(without), overUnix(request("@", forwarded...)))
			// Not over a unix socket.
			wantUnidentified(t, keyfuncs.Address(with), request("@", forwarded...))
			wantUnidentified(t, keyfuncs.Address(with), request("pipe", forwarded...))
			wantKey(t, keyfuncs.Address(with), request("198.51.100.1:80", forwarded...), "198.51.100.1")
			wantUnidentified(t, keyfuncs.Address(with), overUnix(request("@")))
		})
	}
}

func TestARealUnixSocketIsRecognised(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	type answer struct {
		addr netip.Addr
		err  error
	}
	answers := make(chan [3]answer, 1)
	sources := [3]keyfuncs.AddrSource{
		keyfuncs.Peer, keyfuncs.MustTrustedProxies("127.0.0.0/8"), keyfuncs.MustTrustedProxies("unix"),
	}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var a [3]answer
		for i, source := range sources {
			a[i].addr, a[i].err = source(r)
		}
		answers <- a
	})}
	go server.Serve(listener)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}
	r, err := http.NewRequest(http.MethodGet, "http://app/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(xff, "203.0.113.7")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	got := <-answers
	if got[0].err == nil || got[1].err == nil {
		t.Errorf("without trust: got %v and %v, want errors", got[0].addr, got[1].addr)
	}
	if got[2].err != nil || got[2].addr.String() != "203.0.113.7" {
		t.Errorf("with trust: got %v, %v; want 203.0.113.7", got[2].addr, got[2].err)
	}
}

func TestASingleHeaderIsBelievedOnlyIfItIsSingle(t *testing.T) {
	source := keyfuncs.MustSingleHeader("x-real-ip")
	for _, c := range []hopCase{
		{"IPv4", "@", []string{"203.0.113.7"}, "203.0.113.7"},
		{"with port", "@", []string{"203.0.113.7:4711"}, "203.0.113.7"},
		{"IPv6", "@", []string{"2001:db8::1"}, "2001:db8::1"},
		{"IPv6 in brackets with port", "@", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"white space", "@", []string{" 203.0.113.7\t"}, "203.0.113.7"},
		{"mapped", "@", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},

		{"two lines", "@", []string{"198.51.100.1", "203.0.113.7"}, ""},
		{"two equal lines", "@", []string{"203.0.113.7", "203.0.113.7"}, ""},
		{"a list", "@", []string{"198.51.100.1, 203.0.113.7"}, ""},
		{"no header: the peer is no substitute", "203.0.113.9:80", nil, ""},
		{"an empty header", "203.0.113.9:80", []string{""}, ""},
		{"garbage", "203.0.113.9:80", []string{"garbage"}, ""},
		{"unspecified", "203.0.113.9:80", []string{"::"}, ""},
		{"endless", "203.0.113.9:80", []string{strings.Repeat("2", 1<<20)}, ""},
	} {
		c.run(t, source, "X-Real-Ip")
	}
}

func TestASingleHeaderMayBeGatedOnThePeer(t *testing.T) {
	source := keyfuncs.MustSingleHeader("CF-Connecting-IP", "192.0.2.0/24")
	for _, c := range []hopCase{
		{"a trusted peer", "192.0.2.1:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a mapped trusted peer", "[::ffff:192.0.2.1]:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a peer that goes around the proxy", "198.51.100.1:80", []string{"203.0.113.7"}, "198.51.100.1"},
		{"the same, with garbage", "198.51.100.1:80", []string{"garbage"}, "198.51.100.1"},
		{"the same, without header", "198.51.100.1:80", nil, "198.51.100.1"},
		{"a trusted peer without header", "192.0.2.1:80", nil, ""},
		{"no peer", "@", []string{"203.0.113.7"}, ""},
	} {
		c.run(t, source, "Cf-Connecting-Ip")
	}
}

func TestASingleHeaderIsNeverAList(t *testing.T) {
	for _, name := range []string{
		"X-Forwarded-For", "x-forwarded-for", "Forwarded", "FORWARDED", "Host", "", "X Real IP", "X-Real-IP:",
	} {
		if source, err := keyfuncs.SingleHeader(name); source != nil || err == nil {
			t.Errorf("%q: got no error", name)
		}
	}
	_, err := keyfuncs.SingleHeader("Forwarded", "nonsense")
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v, want two mistakes", err)
	}
}
