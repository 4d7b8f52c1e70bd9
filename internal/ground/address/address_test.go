package address_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/ground/address"
)

// table is what the readers of header fields and of logs agree by: an address as a hop of
// X-Forwarded-For and in logs, as a node of Forwarded, and in a column that always has a port.
// "" is an error.
var table = []struct{ text, hop, node, withPort string }{
	{"192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.1"},
	{"192.0.2.1:80", "192.0.2.1", "192.0.2.1", "192.0.2.1"},
	{"192.0.2.1:65536", "192.0.2.1", "192.0.2.1", "192.0.2.1"}, // five digits are a port
	{"192.0.2.1:123456", "", "", ""},
	{"192.0.2.1:", "", "", ""},
	{"192.0.2.1:http", "", "", ""},
	{"192.0.2.1:_hidden", "", "192.0.2.1", ""},
	{"192.0.2.01", "", "", ""},
	{"[192.0.2.1]", "", "", ""},
	{"[192.0.2.1]:80", "", "", ""},
	{"192.0.2.1%eth0", "", "", ""},

	{"2001:db8::1", "2001:db8::1", "", "2001:db8::1"},
	{"[2001:db8::1]", "2001:db8::1", "2001:db8::1", "2001:db8::1"},
	{"[2001:db8::1]:80", "2001:db8::1", "2001:db8::1", "2001:db8::1"},
	{"[2001:db8::1]:_hidden", "", "2001:db8::1", ""},
	{"[2001:db8::1", "", "", ""},
	{"[2001:db8::1]80", "", "", ""},
	{"[2001:db8::1]:", "", "", ""},
	{"2001:DB8::A", "2001:db8::a", "", "2001:db8::a"},

	// Four digits may be a group of the address, or a port.
	{"2001:db8::1:8080", "2001:db8::1:8080", "", "2001:db8::1"},
	{"2001:db8:1:2::1:4711", "2001:db8:1:2:0:0:1:4711", "", "2001:db8:1:2::1"},
	{"2001:db8::3:4:5:6:4711", "2001:db8:0:3:4:5:6:4711", "", "2001:db8::3:4:5:6"}, // in another /64
	{"::1:8080", "::1:8080", "", "::1"},
	{"2001:db8::abcd", "2001:db8::abcd", "", "2001:db8::abcd"}, // no port
	{"2001:db8::1:54321", "", "", "2001:db8::1"},
	{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2:3:4:5:6"}, // seven groups and a port would be none
	{"2001:db8:1:2:3:4:5:6:4711", "", "", "2001:db8:1:2:3:4:5:6"},
	{"2001:db8:1:2:3:4:5:6:54321", "", "", "2001:db8:1:2:3:4:5:6"},
	{"1::2", "1::2", "", "1::2"},

	{"::ffff:192.0.2.1", "192.0.2.1", "", "192.0.2.1"},
	{"::ffff:c000:201", "192.0.2.1", "", "::ffff:c000"}, // 201 is the port
	{"[::ffff:192.0.2.1]:80", "192.0.2.1", "192.0.2.1", "192.0.2.1"},
	{"::ffff:192.0.2.1:8080", "", "", "192.0.2.1"},

	{"fe80::1%eth0", "fe80::1", "", "fe80::1"},
	{"[fe80::1%eth0]:80", "fe80::1", "fe80::1", "fe80::1"},
	{"fe80::1%3", "fe80::1", "", "fe80::1"},
	{"fe80::1%", "", "", ""},

	{"0.0.0.0", "", "", ""},
	{"::", "", "", ""},
	{"[::]:80", "", "", ""},
	{"::ffff:0.0.0.0", "", "", ""},
	{"0.0.0.0:80", "", "", ""},

	{"", "", "", ""},
	{"-", "", "", ""},
	{"unknown", "", "", ""},
	{"localhost:80", "", "", ""},
	{" 192.0.2.1", "", "", ""},
	{"192.0.2.1, 192.0.2.2", "", "", ""},
	{strings.Repeat("1", 100), "", "", ""},
}

func TestAddressesAreReadAsTheyAreWritten(t *testing.T) {
	for _, row := range table {
		hop, _, hopErr := address.Parse(row.text)
		node, nodeErr := address.ParseNode(row.text)
		withPort, portErr := address.ParseWithPort(row.text)
		for _, c := range []struct {
			reader string
			got    netip.Addr
			err    error
			want   string
		}{{"Parse", hop, hopErr, row.hop}, {"ParseNode", node, nodeErr, row.node}, {"ParseWithPort", withPort, portErr,
			row.withPort}} {
			want := netip.Addr{}
			if c.want != "" {
				want = netip.MustParseAddr(c.want)
			}
			if c.got != want || (c.err == nil) != want.IsValid() {
				t.Errorf("%s(%q): got %v, %v; want %q", c.reader, row.text, c.got, c.err, c.want)
			}
		}
	}
}

func TestPlainIPv4IsReadAsByParse(t *testing.T) {
	plain := 0
	for _, row := range table {
		got, host := address.IPv4(row.text)
		if host == 0 {
			continue
		}
		plain++
		want, hasPort, err := address.Parse(row.text)
		if err != nil || got != want || row.text[:host] != want.String() ||
			hasPort != (host < len(row.text)) {
			t.Errorf("%s: got %v and %d bytes; Parse: %v, %v, %v", row.text, got, host, want, hasPort, err)
		}
	}
	if plain < 3 {
		t.Errorf("the table has %d plain IPv4 addresses, want 3 or more", plain)
	}
}

func TestAPortIsTold(t *testing.T) {
	for text, want := range map[string]bool{
		"192.0.2.1": false, "192.0.2.1:80": true, "2001:db8::1": false, "[2001:db8::1]": false, "[2001:db8::1]:80": true,
		"2001:db8::1:80": false,
	} {
		if _, got, err := address.Parse(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestKeysOfAddresses(t *testing.T) {
	for _, c := range []struct {
		text string
		bits int
		want string
	}{
		{"192.0.2.1", 64, "192.0.2.1"},
		{"2001:db8:1:2:3::4", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3::4", 48, "2001:db8:1::/48"},
		{"2001:db8:1:2:3::4", 128, "2001:db8:1:2:3::4"},
	} {
		if got := string(address.AppendKey(nil, netip.MustParseAddr(c.text), c.bits)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

// A text that each writer makes is read as the address that it was made of.
func FuzzParse(f *testing.F) {
	f.Add([]byte{192, 0, 2, 1}, uint16(80))
	f.Add(netip.MustParseAddr("2001:db8::1").AsSlice(), uint16(8080))
	f.Add(netip.MustParseAddr("2001:db8::3:4:5:6").AsSlice(), uint16(4711))
	f.Add(netip.MustParseAddr("::ffff:192.0.2.1").AsSlice(), uint16(9999))
	f.Fuzz(func(t *testing.T, bytes []byte, port uint16) {
		addr, ok := netip.AddrFromSlice(bytes)
		if !ok || addr.IsUnspecified() || addr.Unmap().IsUnspecified() {
			t.Skip()
		}
		want := addr.Unmap()
		endpoint := netip.AddrPortFrom(want, port).String()
		for _, text := range []string{addr.String(), endpoint} {
			if got, _, err := address.Parse(text); err != nil || got != want {
				t.Errorf("Parse(%s): got %v, %v", text, got, err)
			}
			got, host := address.IPv4(text)
			if plain := want.Is4() && text[0] != ':'; (host > 0) != plain || plain && got != want {
				t.Errorf("IPv4(%s): got %v and %d bytes", text, got, host)
			}
		}
		bare := want.String() + endpoint[strings.LastIndexByte(endpoint, ':'):]
		for _, text := range []string{endpoint, bare} {
			if got, err := address.ParseWithPort(text); err != nil || got != want {
				t.Errorf("ParseWithPort(%s): got %v, %v; want %v", text, got, err, want)
			}
		}
	})
}
