package keyfuncs_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
)

func TestForwardedIsReadAsRFC7239Says(t *testing.T) {
	source := keyfuncs.MustForwarded("10.0.0.0/8", "2001:db8:f::/48")
	for _, c := range []hopCase{
		{"one proxy", "10.0.0.1:80", []string{"for=203.0.113.7"}, "203.0.113.7"},
		{"an untrusted peer is the client", "203.0.113.7:80", []string{"for=198.51.100.1"}, "203.0.113.7"},
		{"all parameters", "10.0.0.1:80", []string{`by=10.0.0.1;for=203.0.113.7;host="a.example:80";proto=https`},
			"203.0.113.7"},
		{"names in capitals", "10.0.0.1:80", []string{"FOR=203.0.113.7;Proto=https"}, "203.0.113.7"},
		{"IPv6 with port", "10.0.0.1:80", []string{`For="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::17"},
		{"IPv6", "10.0.0.1:80", []string{`for="[2001:db8:cafe::17]"`}, "2001:db8:cafe::17"},
		{"IPv4 with port", "10.0.0.1:80", []string{`for="203.0.113.7:4711"`}, "203.0.113.7"},
		{"an obfuscated port", "10.0.0.1:80", []string{`for="203.0.113.7:_x.y-z"`}, "203.0.113.7"},
		{"quoted without need", "10.0.0.1:80", []string{`for="203.0.113.7"`}, "203.0.113.7"},
		{"quoted pairs", "10.0.0.1:80", []string{`for="20\3.0.113\.7"`}, "203.0.113.7"},
		{"mapped", "10.0.0.1:80", []string{`for="[::ffff:203.0.113.7]"`}, "203.0.113.7"},
		{"trusted hops", "10.0.0.1:80",
			[]string{`for=203.0.113.7, for="[2001:db8:f::1]", for="10.0.0.2:80";proto=http`}, "203.0.113.7"},
		{"several lines", "10.0.0.1:80", []string{"for=203.0.113.7", "for=10.0.0.3;proto=http", "for=10.0.0.2"},
			"203.0.113.7"},
		{"white space around semicolons", "10.0.0.1:80", []string{"for=203.0.113.7 ; proto=http\t; by=10.0.0.1"},
			"203.0.113.7"},
		{"empty elements", "10.0.0.1:80", []string{",for=203.0.113.7, ,, for=10.0.0.2,", ""}, "203.0.113.7"},
		{"empty pairs", "10.0.0.1:80", []string{";;for=203.0.113.7;"}, "203.0.113.7"},
		{"a comma in quotes", "10.0.0.1:80", []string{`for=203.0.113.7;ext="a, for=198.51.100.1", for=10.0.0.2`},
			"203.0.113.7"},
		{"a semicolon in quotes", "10.0.0.1:80", []string{`ext="a;for=198.51.100.1";for=203.0.113.7`}, "203.0.113.7"},
		{"an escaped quote in quotes", "10.0.0.1:80", []string{`for=203.0.113.7;ext="a\", for=198.51.100.1;b=\""`},
			"203.0.113.7"},
		{"an escaped backslash before the quote", "10.0.0.1:80",
			[]string{`for=203.0.113.7;ext="a\\", for=10.0.0.2;ext="\\\\"`}, "203.0.113.7"},
		{"sixteen parameters", "10.0.0.1:80",
			[]string{"for=203.0.113.7;a=;b=;c=;d=;e=;f=;g=;h=;i=;j=;k=;l=;m=;n=;o="}, "203.0.113.7"},
		{"an extension named like it", "10.0.0.1:80", []string{"forx=198.51.100.1;for=203.0.113.7"}, "203.0.113.7"},
		{"a port without quotes", "10.0.0.1:80", []string{"for=203.0.113.7:4711;host=a.example:80"}, "203.0.113.7"},
		{"brackets without quotes", "10.0.0.1:80", []string{"for=[2001:db8:cafe::17]:4711"}, "2001:db8:cafe::17"},
	} {
		c.run(t, source, "Forwarded")
	}
}

func TestAForgedElementIsNeverBelieved(t *testing.T) {
	source := keyfuncs.MustForwarded("10.0.0.0/8")
	const proxy = `for=203.0.113.7;proto=https;host="a, b"`
	for name, forged := range map[string]string{
		"another address":               "for=198.51.100.1",
		"a trusted address":             "for=10.0.0.9",
		"an open quote":                 `for="198.51.100.1`,
		"an open quote in an extension": `for=198.51.100.1;x="`,
		"an escape at the end":          `for=198.51.100.1\`,
		"an escape in quotes":           `for="198.51.100.1\`,
		"a quote alone":                 `"`,
		"garbage":                       `=;=,"\;`,
		"no for":                        "proto=http",
		"for twice":                     "for=198.51.100.1;for=198.51.100.2",
		"nothing":                       "",
	} {
		hopCase{name + ", same line", "10.0.0.1:80", []string{forged + ", " + proxy}, "203.0.113.7"}.run(t, source,
			"Forwarded")
		hopCase{name + ", line of its own", "10.0.0.1:80", []string{forged, proxy}, "203.0.113.7"}.run(t, source,
			"Forwarded")
		hopCase{name + ", trusted hop follows", "10.0.0.1:80", []string{forged, proxy, "for=10.0.0.2"},
			"203.0.113.7"}.run(t, source, "Forwarded")
	}
}

func TestAnElementThatHidesTheClientIsAnError(t *testing.T) {
	source := keyfuncs.MustForwarded("10.0.0.0/8")
	for name, element := range map[string]string{
		"unknown":                            "for=unknown",
		"obfuscated":                         "for=_hidden",
		"obfuscated in quotes":               `for="_hidden"`,
		"no for":                             "proto=https;by=10.0.0.1",
		"no value":                           "for=",
		"an empty value":                     `for=""`,
		"for twice":                          "for=203.0.113.7;for=203.0.113.7",
		"for twice, capitals":                "for=203.0.113.7;FOR=203.0.113.8",
		"another parameter twice":            "for=203.0.113.7;proto=http;Proto=https",
		"no equals sign":                     "for",
		"white space before equals":          "for =203.0.113.7",
		"white space after equals":           "for= 203.0.113.7",
		"a name that is no token":            "f(r=1;for=203.0.113.7",
		"no semicolon":                       "for=203.0.113.7 proto=http",
		"text after a quote":                 `for="203.0.113.7"x`,
		"an open quote":                      `for="203.0.113.7`,
		"a quote in the middle":              `for=203.0"."113.7`,
		"an escape outside of quotes":        `for=203.0.113\.7`,
		"a quote that is escaped":            `for="203.0.113.7\"`,
		"IPv6 without brackets":              `for="2001:db8:cafe::17"`,
		"IPv6 without quotes, too":           `for=2001:db8:cafe::17`,
		"IPv4 in brackets":                   `for="[203.0.113.7]"`,
		"a port that is none":                `for="203.0.113.7:x"`,
		"a port of six digits":               `for="203.0.113.7:123456"`,
		"an empty obfuscated port":           `for="203.0.113.7:_"`,
		"a strange obfuscated port":          `for="203.0.113.7:_ä"`,
		"unspecified":                        "for=0.0.0.0",
		"too many parameters":                "for=203.0.113.7;a=;b=;c=;d=;e=;f=;g=;h=;i=;j=;k=;l=;m=;n=;o=;p=",
		"only empty elements":                ", ,",
		"an element beyond the bound":        "for=203.0.113.7;x=" + strings.Repeat("x", 1024),
		"quotes beyond the bound":            `for=203.0.113.7;x="` + strings.Repeat(",", 1024) + `"`,
		"escapes beyond the bound":           `for=203.0.113.7;x="` + strings.Repeat(`\`, 2048) + `"`,
		"a node of escapes":                  `for="` + strings.Repeat(`\1`, 200) + `"`,
		"more elements than the bound":       "for=203.0.113.7" + strings.Repeat(", for=10.0.0.2", 64),
		"more empty elements than the bound": "for=203.0.113.7" + strings.Repeat(",", 64),
	} {
		hopCase{name, "10.0.0.1:80", []string{element}, ""}.run(t, source, "Forwarded")
	}
}
