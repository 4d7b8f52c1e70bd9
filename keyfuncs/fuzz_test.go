package keyfuncs_test

import (
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
)

// slowHop parses a hop by a grammar; the package parses it by hand.
func slowHop(s string) (netip.Addr, bool) {
	m := hopGrammar.FindStringSubmatch(s)
	if m == nil {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(m[1] + m[2] + m[3])
	if err != nil {
		return netip.Addr{}, false
	}
	addr = addr.Unmap()
	return addr, addr != netip.IPv4Unspecified() && addr != netip.IPv6Unspecified()
}

var hopGrammar = regexp.MustCompile(`(?s)^(?:([0-9.]+)(?::[0-9]{1,5})?` +
	`|\[([0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)(?:%[^\]]+)?\](?::[0-9]{1,5})?` +
	`|([0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)(?:%.+)?)$`)

// withPort matches the end of a RemoteAddr that nobody has overwritten.
var withPort = regexp.MustCompile(`(?s)^(?:[0-9.]+|\[.*\]):[0-9]{1,5}$`)

// slowClient walks a whole list, parsed beforehand.
func slowClient(
	peer string, hops []string, parse func(string) (netip.Addr, bool), trusted netip.Prefix,
) (netip.Addr, bool) {
	addr, ok := slowHop(peer)
	ok = ok && withPort.MatchString(peer)
	if ok && trusted.Contains(addr) && len(hops) == 0 {
		return netip.Addr{}, false
	}
	for ok && trusted.Contains(addr) && len(hops) > 0 { // of hops that are all trusted, the farthest
		last := len(hops) - 1
		addr, ok = parse(hops[last])
		hops = hops[:last]
	}
	return addr, ok
}

// wantSame compares a source with the model. Where the header is within the
// documented bounds they must agree; beyond, the source may fail.
func wantSame(t *testing.T, source keyfuncs.AddrSource, r *http.Request, want netip.Addr, ok, inBounds bool) {
	t.Helper()
	got, err := source(r)
	if err == nil && (!ok || got != want) {
		t.Errorf("got %v; want %v, %t", got, want, ok)
	}
	if err != nil && (ok && inBounds || got.IsValid()) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	wantCanonical(t, source, r)
}

// wantCanonical fails if the key is not the canonical text of an address or prefix:
// it may then be a client's text.
func wantCanonical(t *testing.T, source keyfuncs.AddrSource, r *http.Request) {
	t.Helper()
	key, err := keyfuncs.Address(source)(r)
	if err != nil {
		return
	}
	if prefix, err := netip.ParsePrefix(key); err == nil && prefix.Bits() == 64 && prefix.Masked().String() == key {
		return
	}
	if addr, err := netip.ParseAddr(key); err != nil || !addr.Is4() || addr.String() != key {
		t.Errorf("key %q is not canonical", key)
	}
}

func FuzzTrustedProxies(f *testing.F) {
	f.Add("10.0.0.1:80", "198.51.100.1, 203.0.113.7", "10.0.0.2")
	f.Add("[::ffff:10.0.0.1]:80", "[2001:db8::1]:80,", "::ffff:10.0.0.2")
	f.Add("203.0.113.7:80", "", "unknown")
	f.Add("10.0.0.1:80", "fe80::1%eth0", "10.0.0.2:1, 10.0.0.3 ")
	f.Add("@", "1.2.3.4%a:80", "0.0.0.0")
	f.Add("::f", "", "::ffff:10.0.0.2")
	f.Add("10.0.0.1", "192.0.2.1", "")
	f.Fuzz(checkXForwardedFor)
}

func checkXForwardedFor(t *testing.T, peer, line1, line2 string) {
	t.Helper()
	source, count := keyfuncs.MustTrustedProxies("10.0.0.0/8"), keyfuncs.MustProxyCount(2)
	trusted := netip.MustParsePrefix("10.0.0.0/8")
	r := request(peer)
	r.Header["X-Forwarded-For"] = []string{line1, line2}
	hops := strings.Split(line1+","+line2, ",")
	inBounds := len(hops) <= 64
	for i, hop := range hops {
		inBounds = inBounds && len(hop) <= 128
		hops[i] = strings.Trim(hop, " \t\r\n")
	}
	want, ok := slowClient(peer, hops, slowHop, trusted)
	wantSame(t, source, r, want, ok, inBounds)
	want, ok = slowHop(hops[len(hops)-2])
	wantSame(t, count, r, want, ok, inBounds)

	checkInstead(t, source, r)

	// Whatever a client sends, the address that a proxy appends decides.
	for _, lines := range [][]string{{line1, line2 + ", 203.0.113.7"}, {line1, line2, "203.0.113.7", "10.0.0.2"}} {
		r := request("10.0.0.1:80")
		r.Header["X-Forwarded-For"] = lines
		wantSame(t, source, r, netip.MustParseAddr("203.0.113.7"), true, true)
	}
}

// checkInstead compares OrPeer, OrShared and WithPeer with the result of source for r.
func checkInstead(t *testing.T, source keyfuncs.AddrSource, r *http.Request) {
	t.Helper()
	want, err := source(r)
	peer, peerErr := keyfuncs.Peer(r)
	orPeer, orPeerErr := keyfuncs.OrPeer(source)(r)
	if err == nil && (orPeer != want || orPeerErr != nil) || err != nil && (orPeer != peer || orPeerErr != peerErr) {
		t.Errorf("OrPeer: got %v, %v; the source has %v, %v, and the peer is %v, %v", orPeer, orPeerErr, want, err,
			peer, peerErr)
	}
	wantCanonical(t, keyfuncs.OrPeer(source), r)
	key, keyErr := keyfuncs.Address(source)(r)
	together, togetherErr := keyfuncs.OrShared(keyfuncs.Address(source))(r)
	if keyErr == nil && (together != key || togetherErr != nil) ||
		keyErr != nil && (together != "" || togetherErr != core.ErrAbsent) {
		t.Errorf("OrShared: got %q, %v; the key is %q, %v", together, togetherErr, key, keyErr)
	}
	moved := r.WithContext(r.Context())
	moved.RemoteAddr = "198.51.100.77"
	saved := func(*http.Request) string { return r.RemoteAddr }
	if got, gotErr := keyfuncs.WithPeer(saved, source)(moved); got != want || gotErr != err {
		t.Errorf("WithPeer: got %v, %v; want %v, %v", got, gotErr, want, err)
	}
}

// slowElements parses a line of Forwarded from the left by a grammar. An
// element is represented by its node; "" if it has none or has a parameter twice.
func slowElements(line string) (nodes []string, inBounds, ok bool) {
	inBounds = true
	line0 := line
	for {
		seen, twice, start := map[string]string{}, false, len(line)
		for {
			line = strings.TrimLeft(line, " \t")
			if line == "" || line[0] == ',' {
				break
			}
			if line[0] == ';' {
				line = line[1:]
				continue
			}
			m := pairGrammar.FindStringSubmatch(line)
			if m == nil {
				return nil, false, false
			}
			line = strings.TrimLeft(line[len(m[0]):], " \t")
			if line != "" && line[0] != ',' && line[0] != ';' {
				return nil, false, false
			}
			name := strings.ToLower(m[1])
			_, again := seen[name]
			twice = twice || again
			seen[name] = m[2]
		}
		inBounds = inBounds && start-len(line) <= 1024 && len(seen) <= 16
		node := seen["for"]
		if twice {
			node = ""
		}
		if len(strings.Trim(line0[len(line0)-start:len(line0)-len(line)], " \t")) == 0 {
			node = emptyElement
		}
		nodes = append(nodes, node)
		if line == "" {
			return nodes, inBounds && len(nodes) <= 32, true
		}
		line = line[1:]
	}
}

const emptyElement = "empty"

var pairGrammar = regexp.MustCompile("(?s)^([!#$%&'*+.^_`|~0-9A-Za-z-]+)=" + `("(?:[^"\\]|\\.)*"|[^"\\,; \t]*)`)

func slowNode(s string) (netip.Addr, bool) {
	if strings.HasPrefix(s, `"`) {
		s = escapes.ReplaceAllString(s[1:len(s)-1], "$1")
	}
	s = obfuscatedPort.ReplaceAllString(s, ":1")
	if !strings.HasPrefix(s, "[") && strings.Count(s, ":") > 1 {
		return netip.Addr{}, false
	}
	return slowHop(s)
}

var (
	escapes        = regexp.MustCompile(`(?s)\\(.)`)
	obfuscatedPort = regexp.MustCompile(`:_[A-Za-z0-9._-]+$`)
)

func FuzzForwarded(f *testing.F) {
	f.Add("10.0.0.1:80", `for=203.0.113.7;ext="a\", b", for=10.0.0.2`, `for="10.0.0.3:_x"`)
	f.Add("10.0.0.1:80", `for="203.0.113.7`, ",,;;for=10.0.0.2;")
	f.Add("10.0.0.1:80", `For="[2001:db8::1]:80" ; proto=http`, `by="\\";for="10\.0.0.1"`)
	f.Add("203.0.113.7:80", "for=unknown", "for=_hidden")
	f.Add("10.0.0.1:80", `for=a;for=b`, `"\`)
	f.Fuzz(checkForwarded)
}

func checkForwarded(t *testing.T, peer, line1, line2 string) {
	t.Helper()
	source, trusted := keyfuncs.MustForwarded("10.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")
	if strings.ContainsAny(line1+line2, "\r\n") {
		t.Skip("not a field value")
	}
	r := request(peer)
	r.Header["Forwarded"] = []string{line1, line2}
	nodes1, inBounds1, ok1 := slowElements(line1)
	nodes2, inBounds2, ok2 := slowElements(line2)
	if ok1 && ok2 {
		var nodes []string
		for _, node := range append(nodes1, nodes2...) {
			if node != emptyElement {
				nodes = append(nodes, node)
			}
		}
		want, ok := slowClient(peer, nodes, slowNode, trusted)
		wantSame(t, source, r, want, ok, inBounds1 && inBounds2)
	}
	wantCanonical(t, source, r)
	checkInstead(t, source, r)

	// Whatever a client sends, the element that a proxy appends decides.
	const element = `for="203.0.113.7:80";host="a, \"b\"";proto=https`
	for _, lines := range [][]string{
		{line1, line2 + ", " + element}, {line1, line2 + "," + element + ",for=10.0.0.2"},
		{line1, line2, element, "for=10.0.0.2"},
	} {
		r := request("10.0.0.1:80")
		r.Header["Forwarded"] = lines
		wantSame(t, source, r, netip.MustParseAddr("203.0.113.7"), true, true)
	}
}

// Fuzzing seldom finds headers that are nearly correct. These are.
func TestSourcesAgreeWithSlowReadersOnHeadersNearlyRight(t *testing.T) {
	addresses := []string{
		"10.0.0.2", "203.0.113.7", "::ffff:10.0.0.3", "2001:db8::1", "[2001:db8::1]", "[::ffff:10.0.0.3]", "fe80::1%x",
		"0.0.0.0", "unknown", "_x",
	}
	hop := append([]string{":80", ":", ",", ",", ", ", " ", "", ",,", ":123456"}, addresses...)
	pairs := append([]string{
		"for=", "for=", "For=", "by=", "x=", ";", ";", "; ", ",", ", ", "=", " ", `"`, `"`, `\"`, `\\`, `\`, ":80", ":_x",
		`for="10.0.0.2"`, `for="[2001:db8::1]:80"`, `x="\""`, `x=", for=1.1.1.1"`, `for="203\.0.113.7"`,
		"for=10.0.0.4;by=x",
	}, addresses...)
	random := testrun.Random(t)
	line := func(words []string) string {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(words[random.IntN(len(words))])
		}
		return b.String()
	}
	peers := []string{"10.0.0.1:80", "10.0.0.1:80", "10.0.0.1:80", "203.0.113.9:80", "@"}
	for range 30_000 {
		peer := peers[random.IntN(len(peers))]
		checkXForwardedFor(t, peer, line(hop), line(hop))
		checkForwarded(t, peer, line(pairs), line(pairs))
		if t.Failed() {
			return
		}
	}
}

func FuzzJoin(f *testing.F) {
	f.Add("a_b", "c", "a", "b_c")
	f.Add("1:a", "", "", "1:a")
	f.Add("", "0:", "0:", "")
	join := keyfuncs.Join(first, second)
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		p, q := pair{a, b}, pair{c, d}
		one, err1 := join(p)
		other, err2 := join(q)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if (p == q) != (one == other) {
			t.Errorf("%q and %q have the keys %q and %q", p, q, one, other)
		}
		if nested, _ := keyfuncs.Join(join, second)(p); nested == one {
			t.Errorf("%q: a nested join has the same key %q", p, one)
		}
	})
}

func FuzzCookie(f *testing.F) {
	f.Add("sid", `sid="a"; sid=b`, "x; sid=c", ";", uint16(0))
	f.Add("a", ` a =b;a="`, `a=\`, "a=b;", uint16(2))
	f.Add("a", "x", "a=b", "y;", uint16(2996))
	f.Add("a", "x", "a=b", "y;", uint16(2997))
	f.Add("a", "x", "a=b", "y;", uint16(2998))
	f.Add("a", "x", "a=b", ";", uint16(9999))
	f.Add("a", "x;", "a=b", "y;", uint16(47))
	f.Fuzz(func(t *testing.T, name, line1, line2, more string, times uint16) {
		key := keyfuncs.Cookie(name)
		if key == nil || len(more) > 100 {
			t.Skip()
		}
		r := request("")
		r.Header["Cookie"] = []string{line1, strings.Repeat(more, int(times)), line2}
		wantSameCookie(t, key, r, name)
	})
}

func FuzzBasicAuthUser(f *testing.F) {
	f.Add("Basic YWxpY2U6cGFzc3dvcmQ=")
	f.Add("basic OnA=")
	f.Add("Basic YTpi!")
	f.Fuzz(func(t *testing.T, value string) {
		r := request("")
		r.Header["Authorization"] = []string{value}
		user, _, ok := r.BasicAuth()
		key, err := keyfuncs.BasicAuthUser(r)
		if len(key) > 71 {
			t.Errorf("the key has %d bytes", len(key))
		}
		if ok && user != "" && len(user) <= 64 && key != user {
			t.Errorf("got %q, %v; want %q", key, err, user)
		}
	})
}

func FuzzHost(f *testing.F) {
	f.Add("API.example.:80")
	f.Add("[::1]:80")
	f.Fuzz(func(t *testing.T, host string) {
		r := request("")
		r.Host = host
		key, err := keyfuncs.Host(r)
		if err != nil || len(key) > 253 {
			t.Errorf("got %q, %v", key, err)
		}
		if strings.ContainsAny(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			t.Errorf("%q has capitals", key)
		}
	})
}
