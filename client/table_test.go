package client

import "testing"

func TestTheSiteOfAHostIsWhatItsOwnerCannotVary(t *testing.T) {
	for host, want := range map[string]string{
		"localhost":               "localhost",
		"example.com":             "example.com",
		"a.b.example.com:8080":    "example.com",
		"a.b.example.com/path":    "example.com",
		"a.b.example.com.":        "example.com",
		"a.b.example.com.:8080":   "example.com",
		"192.0.2.1":               "192.0.2.1",
		"192.0.2.1:8080":          "192.0.2.1",
		"[2001:db8::1]":           "2001:db8::/64",
		"[2001:db8::1]:8080":      "2001:db8::/64",
		"[::ffff:192.0.2.1]":      "192.0.2.1",
		"[::ffff:192.0.2.1]:8080": "192.0.2.1",
	} {
		if site := siteOf(host); site != want {
			t.Errorf("%s: site %s, want %s", host, site, want)
		}
	}
}
