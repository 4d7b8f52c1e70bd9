package keyfuncs_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs"
)

// slowInside compares addr with one range after the other.
func slowInside(ranges []netip.Prefix, addr netip.Addr) bool {
	for _, r := range ranges {
		if r.Contains(addr) {
			return true
		}
	}
	return false
}

// checkRanges compares Inside, Outside and TrustedProxies with slowInside, for addrs
// and for the addresses at both ends of every range.
func checkRanges(t *testing.T, ranges []netip.Prefix, addrs []netip.Addr) {
	t.Helper()
	var texts []string
	trustable := true
	for _, r := range ranges {
		texts = append(texts, r.String())
		trustable = trustable && r.Bits() > 0
		last := lastOf(r)
		addrs = append(addrs, r.Masked().Addr(), r.Masked().Addr().Prev(), last, last.Next())
	}
	key := func(netip.Addr) (string, error) { return "key", nil }
	inside, outside := keyfuncs.MustInside(itself, texts, key), keyfuncs.MustOutside(itself, texts, key)
	trusted := keyfuncs.MustTrustedProxies()
	if trustable {
		trusted = keyfuncs.MustTrustedProxies(texts...)
	}
	for _, addr := range addrs {
		if !addr.IsValid() || addr.IsUnspecified() || addr.Is4In6() {
			continue
		}
		want := slowInside(ranges, addr)
		if got := applies(t, inside, outside, addr); got != want {
			t.Errorf("%v: %v: inside is %t, want %t", ranges, addr, got, want)
		}
		if !trustable {
			continue
		}
		// A trusted peer is never the client.
		peer := &http.Request{RemoteAddr: netip.AddrPortFrom(addr, 80).String()}
		if got, err := trusted(peer); (err != nil) != want || err == nil && got != addr {
			t.Errorf("%v: the peer %v: got %v, %v; want it to be trusted: %t", ranges, addr, got, err, want)
		}
	}
}

// lastOf returns the last address of r.
func lastOf(r netip.Prefix) netip.Addr {
	b := r.Addr().AsSlice()
	for bit := r.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// rangeOf makes a range of a size byte and the bytes of an address: IPv4 of 4,
// otherwise IPv6. IPv4-mapped addresses are not ranges of their own.
func rangeOf(size byte, addr []byte) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(addr)
	if !ok || a.Is4In6() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, int(size)%(a.BitLen()+1)), true
}

func FuzzInside(f *testing.F) {
	f.Add([]byte{8, 10, 0, 0, 0, 24, 10, 1, 2, 3, 32, 10, 255, 255, 255}, []byte{}, []byte{10, 1, 2, 4})
	f.Add([]byte{1, 0, 0, 0, 0, 1, 128, 0, 0, 0}, []byte{}, []byte{255, 255, 255, 255})
	f.Add([]byte{0, 0, 0, 0, 0}, append([]byte{0}, make([]byte, 16)...), netip.MustParseAddr("ffff::").AsSlice())
	f.Add([]byte{}, append([]byte{64, 0x20, 1, 0xd, 0xb8}, make([]byte, 12)...),
		netip.MustParseAddr("2001:db8::1").AsSlice())
	f.Fuzz(func(t *testing.T, ipv4, ipv6, addr []byte) {
		var ranges []netip.Prefix
		for ; len(ipv4) >= 5 && len(ranges) < 50; ipv4 = ipv4[5:] {
			if r, ok := rangeOf(ipv4[0], ipv4[1:5]); ok {
				ranges = append(ranges, r)
			}
		}
		for ; len(ipv6) >= 17 && len(ranges) < 100; ipv6 = ipv6[17:] {
			if r, ok := rangeOf(ipv6[0], ipv6[1:17]); ok {
				ranges = append(ranges, r)
			}
		}
		a, _ := netip.AddrFromSlice(addr)
		checkRanges(t, ranges, []netip.Addr{a})
	})
}

// Ranges that overlap, adjoin and repeat each other are frequent here: their addresses
// differ in a few bits, at the ends and in the middle of the address.
func TestInsideAgreesWithALinearSearch(t *testing.T) {
	random := testrun.Random(t)
	address := func() netip.Addr {
		b := make([]byte, 4)
		if random.IntN(2) == 0 {
			b = make([]byte, 16)
		}
		fill := []byte{0, 0xff}[random.IntN(2)]
		for i := range b {
			b[i] = fill
		}
		for _, i := range []int{0, len(b)/2 - 1, len(b) / 2, len(b) - 1} {
			if random.IntN(2) == 0 {
				b[i] ^= byte(random.IntN(8))
			}
		}
		addr, _ := netip.AddrFromSlice(b)
		return addr
	}
	for range 3_000 {
		var ranges []netip.Prefix
		for range random.IntN(12) {
			addr := address()
			bits := addr.BitLen() - random.IntN(4)
			if random.IntN(2) == 0 {
				bits = random.IntN(addr.BitLen() + 1)
			}
			if !addr.Is4In6() {
				ranges = append(ranges, netip.PrefixFrom(addr, bits))
			}
		}
		addrs := make([]netip.Addr, 20)
		for i := range addrs {
			addrs[i] = address()
		}
		if checkRanges(t, ranges, addrs); t.Failed() {
			return
		}
	}
}
