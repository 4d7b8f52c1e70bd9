package keyfuncs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
)

var (
	errNoRange   = errors.New("must be a CIDR range or an IP address without zone")
	errWideRange = errors.New("covers more than the IPv4 addresses mapped into IPv6: write an " +
		"IPv4 range")
)

// parseRange parses a CIDR range or a single IP address. It clears the host bits. A
// range of IPv4-mapped addresses becomes a range of IPv4 addresses.
func parseRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, errNoRange
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if addr := prefix.Addr(); addr.Is4In6() {
		if prefix.Bits() < 96 {
			return netip.Prefix{}, errWideRange
		}
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}

// rangeSet is a set of addresses. The zero value is empty. Spans are sorted and
// disjoint, so a look-up is a binary search. They are numbers rather than netip.Addr:
// with 100,000 ranges a look-up takes at least a quarter less time, and the garbage
// collector has nothing to scan.
type rangeSet struct {
	ipv4, ipv6 []span
}

// span is the addresses from first to last, inclusive.
type span struct{ first, last number }

// number is an address as an integer. An IPv4 address has 32 bits, all in low.
type number struct{ high, low uint64 }

// parseRanges returns the set of the addresses in texts. It reports every text that
// parse refuses under the name of constructor.
func parseRanges(
	constructor string, texts []string, parse func(string) (netip.Prefix, error),
) (rangeSet, error) {
	var set rangeSet
	var errs []error
	for _, text := range texts {
		prefix, err := parse(text)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("keyfuncs: %s: range %q: %w", constructor, text, err))
		case prefix.Addr().Is4():
			set.ipv4 = append(set.ipv4, spanOf(prefix))
		default:
			set.ipv6 = append(set.ipv6, spanOf(prefix))
		}
	}
	set.ipv4, set.ipv6 = outermost(set.ipv4), outermost(set.ipv6)
	return set, errors.Join(errs...)
}

// contains reports whether the set has addr, a result of clean.
func (s *rangeSet) contains(addr netip.Addr) bool {
	spans := s.ipv6
	if addr.Is4() {
		spans = s.ipv4
	}
	n := numberOf(addr)
	after := sort.Search(len(spans), func(i int) bool { return n.less(spans[i].first) })
	return after > 0 && !spans[after-1].last.less(n)
}

func spanOf(prefix netip.Prefix) span {
	addr := prefix.Addr()
	first := numberOf(addr)
	// A shift by 64 or more is 0 in Go, so these are the host bits of any prefix.
	hostBits := addr.BitLen() - prefix.Bits()
	last := number{
		high: first.high | (1<<max(0, hostBits-64) - 1),
		low:  first.low | (1<<hostBits - 1),
	}
	return span{first, last}
}

// outermost returns, sorted, the spans that no other span contains. The spans of two prefixes are
// disjoint, or one contains the other.
func outermost(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(a.first.compare(b.first), b.last.compare(a.last))
	})
	kept := spans[:0]
	for _, s := range spans {
		if n := len(kept); n == 0 || kept[n-1].last.less(s.last) {
			kept = append(kept, s)
		}
	}
	return slices.Clone(kept) // spans may have a much larger capacity
}

func numberOf(addr netip.Addr) number {
	if addr.Is4() {
		b := addr.As4()
		return number{low: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := addr.As16()
	return number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (n number) less(other number) bool {
	return n.high < other.high || n.high == other.high && n.low < other.low
}

func (n number) compare(other number) int {
	return cmp.Or(cmp.Compare(n.high, other.high), cmp.Compare(n.low, other.low))
}
