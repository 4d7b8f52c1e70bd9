package simulate

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// masker masks keys as the operator's page does: it shows an IPv4 address as its /24, an IPv6
// address as its /48, and any other key as at most four characters. A digest follows, so that equal
// keys look equal. Its secret is dropped after the report, so an address cannot be found by trying.
type masker struct {
	shown  bool
	secret [32]byte
}

func newMasker(shown bool) *masker {
	m := &masker{shown: shown}
	rand.Read(m.secret[:]) // cannot fail
	return m
}

// mask returns key for a report.
func (m *masker) mask(key string) string {
	switch {
	case key == "":
		return "(no key)"
	case m.shown:
		return strings.Map(visible.Rune, key)
	case key == "everybody":
		return key
	}
	rest, named := strings.CutPrefix(key, "address:") // a key of {first: [user, address]}
	if prefix, ok := network(rest); ok {
		if named {
			prefix = "address:" + prefix
		}
		return prefix + " " + m.mark(key)
	}
	shown := min(4, utf8.RuneCountInString(key)/3)
	var b strings.Builder
	for _, c := range key {
		if shown == 0 {
			break
		}
		b.WriteRune(visible.Rune(c))
		shown--
	}
	return b.String() + "… " + m.mark(key)
}

// network returns the network of an address or prefix.
func network(key string) (string, bool) {
	text, _, _ := strings.Cut(key, "/")
	a, err := netip.ParseAddr(text)
	if err != nil {
		return "", false
	}
	bits := 48
	switch {
	case a.Is4():
		bits = 24
	case a.As16()[0] == 0x20 && a.As16()[1] == 0x02: // 6to4 contains an IPv4 address
		bits = 40
	}
	return netip.PrefixFrom(a, bits).Masked().String(), true
}

func (m *masker) mark(key string) string {
	h := hmac.New(sha256.New, m.secret[:])
	h.Write([]byte(key))
	return "#" + hex.EncodeToString(h.Sum(nil)[:3])
}
