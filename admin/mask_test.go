package admin_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/admin"
)

var digests = regexp.MustCompile(`#[0-9a-f]{6}`)

func TestKeysAreMasked(t *testing.T) {
	mask := admin.Mask(admin.Masked)
	for key, want := range map[string]string{
		"":                                 "(no key)",
		"everybody":                        "everybody",
		"203.0.113.77":                     "address in 203.0.113.0/24#",
		"203.0.113.0/25":                   "address in 203.0.113.0/24#",
		"10.0.0.0/8":                       "address in 10.0.0.0/8",
		"2001:db8:1:2::/64":                "address in 2001:db8:1::/48#",
		"2001:db8:1:2::3":                  "address in 2001:db8:1::/48#",
		"::ffff:203.0.113.77":              "address in 203.0.113.0/24#",
		"fe80::1%eth0":                     "address in fe80::/48#",
		"alice":                            "a…#",
		"bob":                              "b…#",
		"al":                               "…#",
		"tenant-42":                        "ten…#",
		"somebody@example.com":             "some…#",
		"0123456789abcdef0123456789abcdef": "credential 0123…#",
		"ßß€ßß€ßß€ßß€":                     "ßß€ß…#",
		"5:alice3:GET":                     "a…# + GET",                   // Join
		"12:203.0.113.775:alice":           "203.0.113.0/24# + a…#",       // Join
		"0:alice":                          "0: a…#",                      // First
		"1:203.0.113.77":                   "address in 203.0.113.0/24#",  // First
		"1:2001:db8:1:2::/64":              "address in 2001:db8:1::/48#", // First
		"user:alice":                       "user a…#",                    // FirstNamed
		"7:0:alice3:GET":                   "0: a…# + GET",                // Join of First
		"0:5:alice3:GET":                   "0: a…# + GET",                // First of Join
		// of a policy file
		"address+header.X-Tenant:9:192.0.2.74:acme": "address + header X-Tenant 192.0.2.0/24# + a…#",
		"cookie.session:alice":                      "cookie session a…#",
		"header.a b:alice":                          "head…#",
		"user.smith:secret":                         "user…#",
		"token.0123456789abcdef:1":                  "toke…#",
		"2002:c000:204::1":                          "address in 2002:c000:200::/40#", // 6to4 of 192.0.2.4
		// a name that a client may have chosen
		"alice:secret":              "alic…#",
		"https://example.com/alice": "http…#",
		"GET /users/alice":          "GET …#",
		"100:alice":                 "100…#",
		"05:alice":                  "05…#",
		"\xff\xfe\xfd":              "\uFFFD…#",
	} {
		if got := digests.ReplaceAllString(mask(key, ""), "#"); got != want {
			t.Errorf("%q is shown as %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"user:alice\xff": "user:alice\uFFFD",
		"a\u202Eecila":   "a\uFFFDecila", // would turn the text around
		"a\nb\x00\u200B": "a\uFFFDb\uFFFD\uFFFD",
		"Zoë 42 €":       "Zoë 42 €",
	} {
		if got := admin.Mask(admin.Shown)(key, "API key"); got != "API key "+want {
			t.Errorf("%q is shown as %q, want %q", key, got, want)
		}
	}
	if got := mask("\u202Eecila-somebody", ""); strings.Contains(got, "\u202E") {
		t.Errorf("masked: %q", got)
	}
}

func TestTheKindOfAKeyIsToldInWords(t *testing.T) {
	const digest = "0123456789abcdef0123456789abcdef"
	mask := admin.Mask(admin.Masked)
	for _, test := range []struct{ key, name, want string }{
		{digest, "API key", "API key 0123…#"},
		{"0:" + digest, "API key or address", "API key 0123…#"},
		{"1:203.0.113.77", "API key or address", "address in 203.0.113.0/24#"},
		{"1:203.0.113.77", "user or client IP", "client IP in 203.0.113.0/24#"},
		{"0:alice", "user or address", "user a…#"},
		{"2:alice", "user or address", "2: a…#"}, // there is no third
		{"0:" + digest, "", "credential 0123…#"},
		{"203.0.113.77", "client", "client in 203.0.113.0/24#"},
		{"api-key.X-Api-Key:" + digest, "API key or address", "API key 0123…#"}, // FirstNamed
		{"bearer:" + digest, "", "bearer token 0123…#"},
		{"header.X-User:alice", "header X-User or address", "header X-User a…#"},
		{"user:alice", "X-Tenant", "X-Tenant user: a…#"}, // what a client has sent names no kind
		{"5:alice3:GET", "user + method", "user + method a…# + GET"},
		{"everybody", "", "everybody"},
		{"everybody", "everybody", "everybody"},
		{"", "API key", "(no key)"},
	} {
		if got := digests.ReplaceAllString(mask(test.key, test.name), "#"); got != test.want {
			t.Errorf("%q of %q is shown as %q, want %q", test.key, test.name, got, test.want)
		}
	}
	if got := admin.Mask(admin.Shown)("0:"+digest, "API key or address"); got != "API key 0:"+digest {
		t.Errorf("a key that is not masked is shown as %q", got) // to be typed under Why?
	}
}

func TestADigestTellsKeysApartAndDiesWithTheProcess(t *testing.T) {
	mask, other := admin.Mask(admin.Masked), admin.Mask(admin.Masked)
	once, again := mask("alice", ""), mask("alice", "")
	if once != again || once == mask("alica", "") {
		t.Error("equal keys look different, or different ones equal")
	}
	if mask("alice", "") == other("alice", "") {
		t.Error("another process has the same digests: whoever sees one can try all names")
	}
}

// Keys are what clients send. Whatever they are, they are shown in little and never whole.
func FuzzMask(f *testing.F) {
	for _, key := range []string{
		"5:alice3:GET", "0:0:0:0:0:0:0:0:alice", "1:1:1:1:", strings.Repeat("1:", 500),
		"user:user:user:user:user:alice", "-1:a", "99999999999999999999:a",
	} {
		f.Add(key)
	}
	mask := admin.Mask(admin.Masked)
	f.Fuzz(func(t *testing.T, key string) {
		shown := mask(key, "")
		if len(shown) > 40*(len(key)+1) {
			t.Errorf("%d bytes are shown as %d", len(key), len(shown))
		}
		const secret = "S3CRET-S3CRET"
		if !strings.Contains(key, "S3CRET") && strings.Contains(mask(key+secret, ""), secret) {
			t.Errorf("%q shows what follows it", key)
		}
	})
}
