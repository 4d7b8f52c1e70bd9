package keyfuncs_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
)

func BenchmarkKeys(b *testing.B) {
	proxies := keyfuncs.Address(keyfuncs.MustTrustedProxies("10.0.0.0/8", "192.0.2.0/24", "2001:db8:f::/48"))
	standard := keyfuncs.Address(keyfuncs.MustForwarded("10.0.0.0/8", "192.0.2.0/24", "2001:db8:f::/48"))
	peer := keyfuncs.Address(keyfuncs.Peer)
	for _, c := range []struct {
		name string
		key  key
		r    *http.Request
	}{
		{"peer/IPv4", peer, request("203.0.113.7:4711")},
		{"peer/IPv6", peer, request("[2001:db8:1:2:3:4:5:6]:4711")},
		{"trusted/one-hop", proxies, request("10.0.0.1:80", "X-Forwarded-For: 203.0.113.7")},
		{"trusted/three-hops", proxies, request("10.0.0.1:80", "X-Forwarded-For: 203.0.113.7, 192.0.2.1, 10.0.0.2")},
		{"trusted/1MB-forged", proxies,
			request("10.0.0.1:80", "X-Forwarded-For: "+strings.Repeat("1.1.1.1,", 1<<17)+"203.0.113.7")},
		{"trusted/1MB-of-trusted-hops", proxies,
			request("10.0.0.1:80", "X-Forwarded-For: "+strings.Repeat("10.0.0.1,", 1<<17)+"10.0.0.1")},
		{"count", keyfuncs.Address(keyfuncs.MustProxyCount(2)), request("@", "X-Forwarded-For: 203.0.113.7, 10.0.0.1")},
		{"single", keyfuncs.Address(keyfuncs.MustSingleHeader("X-Real-IP")), request("@", "X-Real-IP: 203.0.113.7")},
		{"forwarded/one-hop", standard, request("10.0.0.1:80", `Forwarded: for=203.0.113.7;proto=https`)},
		{"forwarded/three-hops", standard,
			request("10.0.0.1:80",
				`Forwarded: for="[2001:db8::1]:80";proto=https;by=192.0.2.1, for=192.0.2.1, for=10.0.0.2`)},
		{"forwarded/1MB-of-quotes", standard, request("10.0.0.1:80", "Forwarded: "+strings.Repeat(`"`, 1<<20))},
		{"trusted/or-peer", keyfuncs.Address(keyfuncs.OrPeer(keyfuncs.MustTrustedProxies("10.0.0.0/8"))),
			request("10.0.0.1:80")},
		{"trusted/with-peer", keyfuncs.Address(keyfuncs.WithPeer(savedPeer, keyfuncs.MustTrustedProxies("10.0.0.0/8"))),
			request("198.51.100.1", "Saved: 10.0.0.1:80", "X-Forwarded-For: 203.0.113.7")},
		{"header", keyfuncs.Header("X-Tenant"), request("", "X-Tenant: acme")},
		{"api-key", keyfuncs.APIKey("X-API-Key"), request("", "X-API-Key: 0123456789abcdef")},
		{"api-key/known", keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("0123456789abcdef")),
			request("", "X-API-Key: 0123456789abcdef")},
		{"bearer/1KB", keyfuncs.BearerToken, request("", "Authorization: Bearer "+strings.Repeat("t", 1000))},
		{"basic", keyfuncs.BasicAuthUser, request("", basic("alice:password"))},
		{"cookie", keyfuncs.Cookie("sid"), request("", "Cookie: theme=dark; lang=en; sid=0123456789abcdef")},
		{"method", keyfuncs.Method, request("")},
		{"join/method+peer", keyfuncs.Join(keyfuncs.Method, peer), request("203.0.113.7:4711")},
		{"first/key-else-peer", keyfuncs.First(keyfuncs.APIKey("X-API-Key"), peer), request("203.0.113.7:4711")},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.key(c.r)
			}
		})
	}
}

// Half of the addresses are inside. They are many and in no order, so that neither the
// processor's caches nor its guesses have the answer already.
func BenchmarkInside(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	for family, address := range map[string]func() netip.Addr{
		"IPv4": func() netip.Addr {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], 1<<24+random.Uint32N(222<<24))
			return netip.AddrFrom4(a)
		},
		"IPv6": func() netip.Addr {
			var a [16]byte
			binary.BigEndian.PutUint64(a[:], 1<<61+random.Uint64N(1<<61))
			binary.BigEndian.PutUint64(a[8:], random.Uint64())
			return netip.AddrFrom16(a)
		},
	} {
		for _, n := range []int{1, 100, 100_000} {
			ranges, members := make([]string, n), make([]netip.Addr, n)
			for i := range ranges {
				members[i] = address()
				prefix, _ := members[i].Prefix(members[i].BitLen() * 3 / 4) // /24 and /96
				ranges[i] = prefix.String()
			}
			addrs := make([]netip.Addr, 1<<16)
			for i := range addrs {
				addrs[i] = address()
				if random.IntN(2) == 0 {
					addrs[i] = members[random.IntN(n)]
				}
			}
			key := keyfuncs.MustInside(itself, ranges, func(netip.Addr) (string, error) { return "key", nil })
			b.Run(fmt.Sprintf("%s/%d", family, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					key(addrs[i%len(addrs)])
				}
			})
		}
	}
}
