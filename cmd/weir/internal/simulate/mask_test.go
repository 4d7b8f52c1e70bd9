package simulate

import (
	"strings"
	"testing"
)

func TestMasksHideWhoIsBehindAKey(t *testing.T) {
	m := newMasker(false)
	for key, want := range map[string]string{
		"203.0.113.77":         "203.0.113.0/24 #",
		"address:203.0.113.77": "address:203.0.113.0/24 #",
		"2001:db8:1:2::/64":    "2001:db8:1::/48 #",
		"2002:cb00:714d::/64":  "2002:cb00:7100::/40 #",
		"user:ann":             "us… #",
		"x":                    "… #",
		"":                     "(no key)",
		"everybody":            "everybody",
		"\u202eabcdefghijk":    "\ufffdabc… #",
	} {
		if got := m.mask(key); !strings.HasPrefix(got, want) || len(got) > len(want)+6 {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
	if m.mask("ann-smith") == m.mask("ann-smythe") || m.mask("a") == newMasker(false).mask("a") {
		t.Error("digests do not tell keys, or reports, apart")
	}
	if got := newMasker(true).mask("user:ann\x1b"); got != "user:ann\ufffd" {
		t.Errorf("shown: got %q", got)
	}
}
