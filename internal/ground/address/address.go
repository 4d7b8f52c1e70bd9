// Package address reads IP addresses as proxies, servers and logs write them. The same functions
// read header fields and access logs, so a client has one name in both.
package address

import (
	"errors"
	"net/netip"
	"strings"
)

var (
	// ErrSyntax is the error for a text that is not the address of one host.
	ErrSyntax = errors.New("address: not an IP address")

	// ErrUnspecified is the error for 0.0.0.0, ::, and the zero netip.Addr.
	ErrUnspecified = errors.New("address: missing, unspecified or invalid")
)

// Parse reads an address as proxies write it into X-Forwarded-For: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1] or [2001:db8::1]:80. hasPort reports that a port follows. The port of
// an IPv6 address needs brackets: in 2001:db8::1:8080 the last group is a part of the address. The
// address is cleaned by [Clean].
func Parse(s string) (addr netip.Addr, hasPort bool, err error) {
	host, port, bare, ok := cutPort(s)
	if !ok || !bare && !isPort(port) {
		return netip.Addr{}, false, ErrSyntax
	}
	addr, err = parseHost(host, s[0] == '[')
	return addr, !bare, err
}

// IPv4 is [Parse] for the texts 192.0.2.1 and 192.0.2.1:80, in a third of the time. host is the
// length of the address in s, or 0 if Parse must read s.
func IPv4(s string) (addr netip.Addr, host int) {
	var bytes [4]byte
	for part := range bytes {
		start, n := host, 0
		for ; host < len(s) && '0' <= s[host] && s[host] <= '9'; host++ {
			if n = 10*n + int(s[host]-'0'); n > 255 {
				return netip.Addr{}, 0
			}
		}
		if host == start || s[start] == '0' && host > start+1 {
			return netip.Addr{}, 0
		}
		if bytes[part] = byte(n); part == len(bytes)-1 {
			break
		}
		if host == len(s) || s[host] != '.' {
			return netip.Addr{}, 0
		}
		host++
	}
	if bytes == [4]byte{} || host < len(s) && (s[host] != ':' || !isPort(s[host+1:])) {
		return netip.Addr{}, 0
	}
	return netip.AddrFrom4(bytes), host
}

// ParseNode reads the address of a node of RFC 7239 (section 6). It differs from [Parse] in two
// ways: a port may be obfuscated, and an IPv6 address needs brackets.
func ParseNode(s string) (netip.Addr, error) {
	host, port, bare, ok := cutPort(s)
	if !ok || !bare && !isPort(port) && !isObfuscated(port) {
		return netip.Addr{}, ErrSyntax
	}
	bracketed := s[0] == '['
	if !bracketed && strings.IndexByte(host, ':') >= 0 {
		return netip.Addr{}, ErrSyntax
	}
	return parseHost(host, bracketed)
}

// ParseWithPort reads a text that should end in a port, such as the column client:port of AWS. So
// in 2001:db8::1:8080 the last group is the port, with or without brackets. A text that cannot end
// in a port goes to [Parse].
func ParseWithPort(s string) (netip.Addr, error) {
	if colon := strings.LastIndexByte(s, ':'); colon > 0 && s[0] != '[' && isPort(s[colon+1:]) {
		if addr, err := parseHost(s[:colon], false); err != ErrSyntax {
			return addr, err
		}
	}
	addr, _, err := Parse(s)
	return addr, err
}

// Clean returns addr without a zone, and an IPv4-mapped address as IPv4. The result can be compared
// with ranges, masked and printed.
func Clean(addr netip.Addr) (netip.Addr, error) {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() || addr.IsUnspecified() {
		return netip.Addr{}, ErrUnspecified
	}
	return addr, nil
}

// AppendKey appends the text under which addr, a result of [Clean], counts: an IPv4 address as
// a whole, an IPv6 address by its first ipv6Bits bits, such as 2001:db8:1:2::/64.
func AppendKey(b []byte, addr netip.Addr, ipv6Bits int) []byte {
	if addr.Is6() && ipv6Bits < 128 {
		prefix, _ := addr.Prefix(ipv6Bits) // no error: address and bits are valid
		return prefix.AppendTo(b)
	}
	return addr.AppendTo(b)
}

// MaxKey is the length of the longest text that AppendKey appends.
const MaxKey = maxText + len("/128")

// cutPort splits host[:port] and removes the brackets of host. bare reports that there is no port.
// A text with two colons and no brackets is a host without a port.
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

// parseHost parses an address without a port. It removes the zone first: netip keeps every zone
// that it parses in memory for ever, and a client may have written this text.
func parseHost(host string, bracketed bool) (netip.Addr, error) {
	host, zone, zoned := strings.Cut(host, "%")
	if len(host) > maxText {
		return netip.Addr{}, ErrSyntax
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Is4() && (bracketed || zoned) || zoned && zone == "" {
		return netip.Addr{}, ErrSyntax
	}
	return Clean(addr)
}

// maxText is the length of the longest text of an IP address:
// ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255.
const maxText = 45

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
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '.' && c != '_' &&
			c != '-' {
			return false
		}
	}
	return true
}
