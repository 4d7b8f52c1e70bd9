package accesslog_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/keyfuncs"
)

// addresses are texts in which readers of addresses have differed.
var addresses = []string{
	"192.0.2.1", "192.0.2.1:80", "192.0.2.1:99999", "192.0.2.01", "[192.0.2.1]:80", "192.0.2.1%eth0", "0.0.0.0",
	"::", "::ffff:0.0.0.0", "[::]:80",
	"2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80", "2001:db8::1:8080", "2001:db8::3:4:5:6:4711",
	"2001:db8::1:54321", "2001:db8:1:2:3:4:5:6:4711",
	"::ffff:192.0.2.1", "::ffff:c000:201", "[::ffff:192.0.2.1]:80", "fe80::1%eth0", "[fe80::1%eth0]:80",
	"fe80::1%", "-", "", "unknown", "localhost:80",
	"203.0.113.9, 192.0.2.1", "203.0.113.9,192.0.2.1:4711", "192.0.2.1,", ",192.0.2.1", "192.0.2.1\t",
	" 192.0.2.1 ", "192.0.2.1\u00a0", "192.0.2.1, unknown",
}

// logged returns the address that a log has for a text, in each format that may have it.
func logged(t *testing.T, text string) map[string]netip.Addr {
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string]string{
		"caddy": caddy(0, `"X-Forwarded-For":[`+string(quoted)+`]`),
		"two":   caddy(0, `"X-Forwarded-For":["203.0.113.77",`+string(quoted)+`]`),
	}
	if !strings.ContainsAny(text, " \t\r\"[|\u00a0") && text != "" && text[0] != '<' {
		logs["common"] = text + ` - - ` + stamp + ` "GET /a HTTP/1.1" 200 5`
	}
	if !strings.ContainsAny(text, " \t\r\"+") && text != "" {
		logs["w3c"] = "#Fields: date time cs-method cs-uri-stem X-Forwarded-For\n2024-02-24 12:00:59 GET /a " + text
	}
	found := make(map[string]netip.Addr)
	for name, log := range logs {
		o := accesslog.Options{Format: name}
		switch name {
		case "caddy", "two":
			o = accesslog.Options{
				Format: "caddy", Fields: map[string]string{"address": "request.headers.X-Forwarded-For"},
			}
		case "w3c":
			o.Fields = map[string]string{"address": "X-Forwarded-For"}
		}
		l, err := accesslog.New(name, strings.NewReader(log), &o)
		if err != nil {
			t.Fatalf("%s: %q: %v", name, log, err)
		}
		var e accesslog.Entry
		if l.Next(&e) {
			found[name] = e.Address
		} else {
			found[name] = netip.Addr{}
			if l.Counts().NoAddress != 1 {
				t.Errorf("%s: %q: %+v", name, log, l.Counts())
			}
		}
	}
	return found
}

// What a log and a header field say is read alike: a simulation counts the clients that a
// server behind one proxy counts.
func checkAddress(t *testing.T, text string) {
	r := &http.Request{Header: http.Header{"X-Forwarded-For": {"203.0.113.77", text}}}
	want, err := keyfuncs.MustProxyCount(1)(r)
	for format, got := range logged(t, text) {
		if got != want {
			t.Errorf("%q: %s has %v, and keyfuncs %v, %v", text, format, got, want, err)
		}
	}
}

func TestLogsAndHeadersAgreeAboutAddresses(t *testing.T) {
	for _, text := range addresses {
		checkAddress(t, text)
	}
}

func FuzzAddress(f *testing.F) {
	for _, text := range addresses {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 100 || !utf8.ValidString(text) ||
			strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' }) {
			t.Skip()
		}
		checkAddress(t, text)
	})
}
