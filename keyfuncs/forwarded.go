package keyfuncs

import (
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/weir-go/weir/internal/ground/token"
)

var forwarded = &forwardList{
	header:    "Forwarded",
	lastComma: lastUnquotedComma,
	parse:     parseElement,
	skipEmpty: true, // RFC 9110, section 5.6.1.2
}

// Forwarded returns the [AddrSource] for servers behind proxies of known addresses that
// append to the standard Forwarded header (RFC 7239). It reads the for parameters as
// [TrustedProxies] reads the hops of X-Forwarded-For, and takes the same ranges.
// Without ranges it is [Peer].
//
// The source fails where TrustedProxies fails. It also fails if an element that it has
// to read is malformed, has a parameter twice, has no for parameter, or hides the
// address ("unknown" or an obfuscated name). IPv6 needs brackets, as the standard says.
// The source reads at most 1024 bytes of an element.
//
// Another address costs a client another machine or network, as long as every proxy in
// ranges appends the address of its own peer and quotes what it copies from the
// request. A proxy that copies the Host header without quotes lets clients write
// elements of their own.
func Forwarded(ranges ...string) (AddrSource, error) {
	return trustedList("Forwarded", forwarded, ranges)
}

// MustForwarded is [Forwarded] for use at start-up. It panics on an error.
func MustForwarded(ranges ...string) AddrSource { return must(Forwarded(ranges...)) }

// lastUnquotedComma splits lists with quoted strings (RFC 9110, section 5.6.4), from the right. It
// does not read the left part of s, which a client may have written. The right end of a line is
// outside quotes. Each quote that no backslash escapes opens or closes a string, and in a
// well-formed element nothing else does. The elements that proxies appended are therefore split
// correctly whatever precedes them, even an open quote.
func lastUnquotedComma(s string) (int, error) {
	from := max(0, len(s)-maxElementText-1) // the comma before the longest element
	quoted := false
	for i := len(s) - 1; i >= from; i-- {
		switch s[i] {
		case ',':
			if !quoted {
				return i, nil
			}
		case '"':
			if !escaped(s[from:i]) {
				quoted = !quoted
			} else if !quoted {
				return 0, errHop
			}
		}
	}
	if quoted || len(s) > maxElementText {
		return 0, errHop
	}
	return -1, nil
}

// escaped reports whether the byte after s is escaped: s ends in an odd number of backslashes.
func escaped(s string) bool {
	backslashes := len(s) - len(strings.TrimRight(s, `\`))
	return backslashes%2 == 1
}

// maxParameters bounds the parameters of an element. Four are registered.
const maxParameters = 16

// parseElement returns the address in the for parameter of an element of
// Forwarded (RFC 7239, section 4).
func parseElement(s string) (netip.Addr, error) {
	var names [maxParameters]string
	var node string
	n, found := 0, false
	for s = textproto.TrimString(s); s != ""; s = textproto.TrimString(s) {
		if s[0] == ';' {
			s = s[1:]
			continue
		}
		name, value, ok := strings.Cut(s, "=")
		if !ok || !token.Is(name) || n == maxParameters || containsFold(names[:n], name) {
			return netip.Addr{}, errHop
		}
		names[n] = name
		n++
		value, s, ok = cutValue(value)
		if !ok {
			return netip.Addr{}, errHop
		}
		if strings.EqualFold(name, "for") {
			node, found = value, true
		}
	}
	if !found {
		return netip.Addr{}, errHop
	}
	if node = unquote(node); node == "" {
		return netip.Addr{}, errHop
	}
	return parseNode(node)
}

// cutValue cuts the value of a parameter, with its quotes, from the rest, which begins
// with a semicolon or is empty. An unquoted value may contain more than the token of
// the standard: ports and hosts are often written without quotes, and nothing is
// ambiguous about them.
func cutValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		end := strings.IndexByte(s, ';')
		if end < 0 {
			end = len(s)
		}
		value = strings.TrimRight(s[:end], " \t")
		return value, s[end:], !strings.ContainsAny(value, "\"\\ \t")
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			rest = textproto.TrimString(s[i+1:])
			return s[:i+1], rest, rest == "" || rest[0] == ';'
		}
	}
	return "", "", false
}

// unquote removes quotes and backslashes from a node. It returns "" for a node that is
// too long to be an address. No address needs a backslash, so the allocation is rare,
// and it is small.
func unquote(s string) string {
	if s == "" || s[0] != '"' {
		return s
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	if len(s) > 2*maxHopText {
		return ""
	}
	unquoted := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		unquoted = append(unquoted, s[i])
	}
	return string(unquoted)
}

func containsFold(names []string, name string) bool {
	for _, other := range names {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}
