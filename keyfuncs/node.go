package keyfuncs

import (
	"net/netip"
	"strings"
)

// parseHop parses an IP address as proxies write it into X-Forwarded-For: 192.0.2.1,
// 192.0.2.1:80, 2001:db8::1, [2001:db8::1] or [2001:db8::1]:80. It drops the zone of an
// IPv6 address.
func parseHop(s string) (netip.Addr, error) {
	host, port, bare, ok := cutPort(s)
	if !ok || !bare && !isPort(port) {
		return netip.Addr{}, errHop
	}
	return parseHost(host, s[0] == '[')
}

// parseNode parses the IP address of an RFC 7239 node (section 6). A node differs from
// a hop in two ways: its port may be obfuscated, and an IPv6 address needs brackets,
// without which its last group could be a port.
func parseNode(s string) (netip.Addr, error) {
	host, port, bare, ok := cutPort(s)
	if !ok || !bare && !isPort(port) && !isObfuscated(port) {
		return netip.Addr{}, errHop
	}
	bracketed := s[0] == '['
	if !bracketed && strings.IndexByte(host, ':') >= 0 {
		return netip.Addr{}, errHop
	}
	return parseHost(host, bracketed)
}

// cutPort cuts host[:port] in two and removes the brackets of host. bare reports that
// there is no port. A text with two colons and no brackets is all host.
func cutPort(s string) (host, port string, bare, ok bool) {
	if s == "" {
		return "", "", false, false
	}
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false, false
		}
		host, s = s[1:end], s[end+1:]
		if s == "" {
			return host, "", true, true
		}
		return host, s[1:], false, s[0] == ':'
	}
	colon := strings.IndexByte(s, ':')
	if colon < 0 || strings.IndexByte(s[colon+1:], ':') >= 0 {
		return s, "", true, true
	}
	return s[:colon], s[colon+1:], false, true
}

// parseHost parses an address without a port. It removes the zone before parsing,
// because netip keeps every zone it parses in memory, and a client may have written
// this text.
func parseHost(host string, bracketed bool) (netip.Addr, error) {
	host, zone, zoned := strings.Cut(host, "%")
	if len(host) > maxAddrText {
		return netip.Addr{}, errHop
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Is4() && (bracketed || zoned) || zoned && zone == "" {
		return netip.Addr{}, errHop
	}
	return clean(addr)
}

// maxAddrText is the length of the longest text of an IP address:
// ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255.
const maxAddrText = 45

// clean returns addr in the form that can be compared with ranges, masked and printed:
// IPv4 is not mapped into IPv6, and there is no zone.
func clean(addr netip.Addr) (netip.Addr, error) {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() || addr.IsUnspecified() {
		return netip.Addr{}, errAddress
	}
	return addr, nil
}

// isPort reports whether s is 1*5DIGIT (RFC 7239, section 6).
func isPort(s string) bool {
	if s == "" || len(s) > 5 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// isObfuscated reports whether s is an obfport (RFC 7239, section 6).
func isObfuscated(s string) bool {
	if len(s) < 2 || s[0] != '_' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
