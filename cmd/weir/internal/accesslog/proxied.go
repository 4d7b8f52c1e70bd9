package accesslog

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/ground/address"
)

// survey is what the first lines tell of the addresses in their columns.
type survey struct {
	clients map[netip.Addr]bool
	lines   int
	columns map[string]*addresses // besides the client's
}

// addresses are those in one column.
type addresses struct {
	lines, public int
	seen          map[netip.Addr]bool
}

// add counts the addresses of an entry and its line.
func (s *survey) add(p parser, line []byte, e *Entry) {
	s.lines++
	if e.Address.IsValid() {
		s.clients[e.Address] = true
	}
	p.others(line, func(name string, text []byte) {
		if !isAddressList(text) {
			return
		}
		addr, _, err := address.Parse(lastOf(text))
		if err != nil || addr == e.Address {
			return
		}
		c := s.columns[name]
		if c == nil {
			c = &addresses{seen: make(map[netip.Addr]bool)}
			s.columns[name] = c
		}
		c.lines++
		c.seen[addr] = true
		if !isPrivate(addr) {
			c.public++
		}
	})
}

// column returns the column with the most public addresses that differ from the client's, and how
// many there are. It returns "" if fewer than half of the lines have one.
func (s *survey) column() (name string, n int) {
	for other, c := range s.columns {
		if c.public*2 < s.lines {
			continue
		}
		if k := len(c.seen); k > n || k == n && other < name {
			name, n = other, k
		}
	}
	return name, n
}

// origins tell where the clients of a log come from.
type origins struct {
	private, proxy, public bool
}

// add adds a client. Once there is a public one, it is done.
func (o *origins) add(addr netip.Addr) {
	switch {
	case o.public:
	case isPrivate(addr):
		o.private = true
	case isCloudflare(addr):
		o.proxy = true
	default:
		o.public = true
	}
}

// note says that the clients are those of a proxy, if the addresses tell it, or "".
func (s *survey) note(o origins) string {
	column, n := s.column()
	hint := ""
	if column != "" {
		hint = fmt.Sprintf(" The column %s has others, %d in the first %d lines: if your proxy "+
			"writes it, count by it with --field address=%s.", column, n, s.lines, column)
	}
	have := ""
	switch {
	case o.public && n >= 4*len(s.clients):
		few := "one address counts as the client"
		if k := len(s.clients); k > 1 {
			few = fmt.Sprintf("%d addresses count as clients", k)
		}
		return fmt.Sprintf("In the first %d lines %s, such as those of a proxy.", s.lines, few) + hint
	case o.public || !o.private && !o.proxy:
		if c := s.columns["vhost"]; c != nil && c.lines*2 >= s.lines {
			return "The lines begin with two addresses. The second counts as the client: to count " +
				"by the first, use --field address=vhost."
		}
		return ""
	case o.private && o.proxy:
		have = "private, or those of Cloudflare"
	case o.private:
		have = "private, such as those of a proxy"
	default:
		have = "those of Cloudflare"
	}
	if hint == "" {
		hint = " If clients come through a proxy, have the server log what it says of them."
	}
	return "All addresses of clients are " + have + "." + hint
}

// isPrivate reports whether addr is not of the public Internet: private, local, or of a carrier
// (RFC 6598).
func isPrivate(addr netip.Addr) bool {
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() ||
		carrier.Contains(addr)
}

var carrier = netip.MustParsePrefix("100.64.0.0/10")

func isCloudflare(addr netip.Addr) bool {
	return slices.ContainsFunc(cloudflare, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// cloudflare are the ranges of https://www.cloudflare.com/ips, of 2026-11-29.
var cloudflare = func() (prefixes []netip.Prefix) {
	for text := range strings.FieldsSeq(`103.21.244.0/22 103.22.200.0/22 103.31.4.0/22 104.16.0.0/13
		104.24.0.0/14 108.162.192.0/18 131.0.72.0/22 141.101.64.0/18 162.158.0.0/15 172.64.0.0/13
		173.245.48.0/20 188.114.96.0/20 190.93.240.0/20 197.234.240.0/22 198.41.128.0/17
		2400:cb00::/32 2606:4700::/32 2803:f800::/32 2405:b500::/32 2405:8100::/32 2a06:98c0::/29
		2c0f:f248::/32`) {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	return prefixes
}()
