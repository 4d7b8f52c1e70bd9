package accesslog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// lines returns a log of n lines. In each line of the form, %p is one of two addresses of a proxy,
// and %c that of a client.
func lines(form string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.NewReplacer("%p", fmt.Sprintf("10.0.0.%d", i%2+1),
			"%c", fmt.Sprintf("203.0.113.%d", i%200)).Replace(form) + "\n")
	}
	return b.String()
}

// noted reads a log to its end and returns its notes and the number of its clients.
func noted(t *testing.T, text string, o accesslog.Options) (notes string, clients int) {
	t.Helper()
	l := open(t, text, o)
	e := accesslog.Entry{Extra: make([]string, len(o.Extras))}
	seen := make(map[string]bool)
	for l.Next(&e) {
		seen[e.Address.String()] = true
	}
	return strings.Join(l.Notes(), "\n"), len(seen)
}

const (
	mainForm = `%p - - ` + stamp + ` "GET / HTTP/1.1" 200 5 "-" "agent" "198.51.100.9, %c"`
	forms    = 400
)

// Where a proxy is in front, the report would be of the proxy.
func TestClientsThatAreAProxyAreSaidToBe(t *testing.T) {
	for what, c := range map[string]struct {
		form, note string
	}{
		"nginx's main": {mainForm, "--field address=extra.1."},
		"the list in front": {`198.51.100.9, %c %p - - ` + stamp + ` "GET / HTTP/1.1" 200 5`,
			"--field address=vhost."},
		"in quotes, before a duration": {`%p - - ` + stamp + ` "GET / HTTP/1.1" 200 5 "-" "a" 0.003 "%c"`,
			"--field address=extra.2."},
		"HAProxy's captures": {`%p:80 [29/Nov/2026:07:51:29.079] a b/s1 0/1/2/3/86 200 76 - - ---- 1/1/0/0/0 0/0 {%c|x} ` +
			`"GET / HTTP/1.1"`,
			"--field address=captures."},
		"JSON of nginx": {`{"time":"2024-02-24T12:00:59Z","remote_addr":"%p","request":"GET / HTTP/1.1",` +
			`"http_x_forwarded_for":"198.51.100.9, %c"}`,
			"--field address=http_x_forwarded_for."},
		"Caddy": {strings.Replace(caddy(0, `"X-Forwarded-For":["%c"]`), "192.0.2.7", "%p", 1),
			"--field address=request.headers.X-Forwarded-For."},
		"W3C": {"#Fields: date time c-ip cs-method cs-uri-stem X-Forwarded-For\n2024-02-24 12:00:59 %p GET / %c",
			"--field address=X-Forwarded-For."},
		"nothing else": {`%p - - ` + stamp + ` "GET / HTTP/1.1" 200 5`, "have the server log"},
	} {
		notes, clients := noted(t, lines(c.form, forms), accesslog.Options{})
		if !strings.Contains(notes, "private, such as those of a proxy") || !strings.HasSuffix(notes, c.note) &&
			!strings.Contains(notes, c.note) || clients != 2 {
			t.Errorf("%s: %d clients, noted %q, want %q", what, clients, notes, c.note)
		}
		name, ok := strings.CutPrefix(c.note, "--field address=")
		if !ok {
			continue
		}
		o := accesslog.Options{Fields: map[string]string{"address": strings.TrimSuffix(name, ".")}}
		if notes, clients := noted(t, lines(c.form, forms), o); clients != 200 || strings.Contains(notes, "private") {
			t.Errorf("%s: by %s: %d clients, noted %q", what, name, clients, notes)
		}
	}
}

func TestFewAddressesBesideManyAreSaidToBeAProxy(t *testing.T) {
	form := strings.Replace(mainForm, "%p", "192.0.2.1", 1)
	if notes, _ := noted(t, lines(form, forms), accesslog.Options{}); !strings.Contains(notes,
		"one address counts as the client") || !strings.Contains(notes, "extra.1 has others, 200") {
		t.Errorf("noted %q", notes)
	}
	for _, form := range []string{
		`%c - - ` + stamp + ` "GET / HTTP/1.1" 200 5 "-" "agent" "-"`,
		`%c - - ` + stamp + ` "GET / HTTP/1.1" 200 5 "-" "agent" "%c"`, // the same
		`192.0.2.1 - - ` + stamp + ` "GET / HTTP/1.1" 200 5 "-" "agent"`,
	} {
		if notes, _ := noted(t, lines(form, forms), accesslog.Options{}); notes != "" {
			t.Errorf("%s: noted %q", form, notes)
		}
	}
}

func TestAddressesOfCloudflareAreKnown(t *testing.T) {
	form := strings.Replace(mainForm, "%p", "172.68.9.9", 1)
	notes, _ := noted(t, lines(form, forms), accesslog.Options{})
	if !strings.Contains(notes, "are those of Cloudflare. The column extra.1") {
		t.Errorf("noted %q", notes)
	}
}

// The guide of logs names the header as nginx does.
func TestAColumnIsFoundByTheNameOfAHeader(t *testing.T) {
	for _, name := range []string{
		"http_x_forwarded_for", "X-Forwarded-For", "%{X-Forwarded-For}i", "http_cf_connecting_ip", "x_real_ip",
	} {
		o := accesslog.Options{Fields: map[string]string{"address": name}}
		notes, clients := noted(t, lines(mainForm, forms), o)
		if clients != 200 || !strings.Contains(notes, "The column extra.1 was taken for "+name) {
			t.Errorf("%s: %d clients, noted %q", name, clients, notes)
		}
	}
	none := lines(`%p - - `+stamp+` "GET / HTTP/1.1" 200 5 "-" "agent" "-"`, 5)
	_, err := accesslog.New("access.log", strings.NewReader(none),
		&accesslog.Options{Fields: map[string]string{"address": "http_x_forwarded_for"}})
	if err == nil || !strings.Contains(err.Error(), "http_x_forwarded_for is not there") {
		t.Errorf("got %v", err)
	}
}

func TestTwoAddressesAtTheBeginningAreSaid(t *testing.T) {
	form := strings.Replace(`192.0.2.1 %c - - `+stamp+` "GET / HTTP/1.1" 200 5`, "%p", "", 1)
	notes, clients := noted(t, lines(form, forms), accesslog.Options{})
	if clients != 200 || !strings.Contains(notes, "begin with two addresses") {
		t.Errorf("%d clients, noted %q", clients, notes)
	}
}

// Whoever writes X-Forwarded-For is any client there.
func TestLogsThatAClientWritesIntoAreSaidToBe(t *testing.T) {
	said := map[string]string{
		"gin": "trusted proxies", "echo": "IPExtractor", "rack": "the client wrote into X-Forwarded-For",
		"envoy": "use_remote_address",
	}
	for _, s := range samples {
		notes, _ := noted(t, s.text, s.options)
		if want := said[s.format]; !strings.Contains(notes, want) {
			t.Errorf("%s: noted %q, want %q", s.format, notes, want)
		}
	}
}

func TestDurationsWithoutAUnitAreAQuestion(t *testing.T) {
	const json = `{"time":1795867259000,"ip":"192.0.2.7","m":"GET","p":"/","took":%s,"took_ms":%[1]s}` + "\n"
	const combined = `192.0.2.7 - - ` + stamp + ` "GET / HTTP/1.1" 200 5 "-" "a" %s` + "\n"
	jsonl := map[string]string{"time": "time", "address": "ip", "method": "m", "path": "p"}
	for _, c := range []struct {
		format, line, field, text string
		unit                      int // of milliseconds
		want                      string
	}{
		{"jsonl", json, "took", "1500", 0, "duration-unit"}, {"jsonl", json, "took", "12.5", 0, "duration-unit"},
		{"jsonl", json, "took", `"12"`, 0, "duration-unit"}, {"jsonl", json, "took", `"1.5s"`, 0, ""},
		{"jsonl", json, "took_ms", "1500", 0, ""}, {"jsonl", json, "took", "1500", 1, ""},
		{"jsonl", json, "took", "null", 0, ""},
		{"combined", combined, "extra.1", "0.003", 0, "duration-unit"},
		{"combined", combined, "extra.1", "0.003", 1000, ""}, {"combined", combined, "extra.1", "-", 0, ""},
	} {
		o := accesslog.Options{Format: c.format, Unit: ms(c.unit), Fields: map[string]string{"duration": c.field}}
		if c.format == "jsonl" {
			for role, name := range jsonl {
				o.Fields[role] = name
			}
		}
		_, err := accesslog.New("log", strings.NewReader(fmt.Sprintf(c.line, c.text)), &o)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s in ms %d: got %v", c.field, c.text, c.unit, err)
		}
	}
}

func TestTheLongestDurationIsSaidWhereItsUnitIsNotCertain(t *testing.T) {
	w3c := "#Fields: date time cs-method cs-uri-stem c-ip time-taken\n" +
		"2024-02-24 12:00:59 GET /a 192.0.2.1 15\n2024-02-24 12:00:59 GET /a 192.0.2.1 1532\n"
	tomcat := samples[slices.IndexFunc(samples, func(s sample) bool { return s.format == "tomcat" })].text
	for _, c := range []struct {
		text string
		o    accesslog.Options
		want string
	}{
		{w3c, accesslog.Options{}, "was read as 1.532s"},
		{w3c, accesslog.Options{Unit: ms(1000)}, "was read as 25m32s"},
		{tomcat, accesslog.Options{}, "such as 51249, were not used"},
		{tomcat, accesslog.Options{Unit: ms(1)}, "was read as 51.249s"},
		{samples[0].text, accesslog.Options{Unit: ms(1)}, "has no effect"},
		{caddy(0, ""), accesslog.Options{}, ""},
	} {
		if notes, _ := noted(t, c.text, c.o); !strings.Contains(notes, c.want) || c.want == "" && notes != "" {
			t.Errorf("%+v: noted %q, want %q", c.o, notes, c.want)
		}
	}
}

func TestStampsWithoutAZoneAreSaidToBe(t *testing.T) {
	without := []string{"gin", "chi", "haproxy", "uwsgi", "caddy-console"}
	for _, s := range samples {
		notes, _ := noted(t, s.text, s.options)
		if has := strings.Contains(notes, "name no zone"); slices.Contains(without, s.format) && !has ||
			has && s.format == "w3c" {
			t.Errorf("%s: noted %q", s.format, notes)
		}
	}
}

// Loggers of frameworks leave out what a simulation needs.
func TestWhatLinesLackIsSaid(t *testing.T) {
	for line, want := range map[string]string{
		`07:51:53 | 200 |       4.046µs |       127.0.0.1 | GET     | /a            `: "Fiber's logger, and have no date",
		`127.0.0.1 - - [07:51:53] "GET /a HTTP/1.1" 200 0 "" "a"`:                     "Fiber's logger, and have no date",
		`{"time":"07:51:53","ip":"127.0.0.1","method":"GET","url":"/a","status":200}`: "Fiber's logger, and have no date",
		`INFO:     9.9.9.9:0 - "GET /a HTTP/1.1" 200 OK`:                              "uvicorn, and have no date",
		"\x1b[0mGET /a \x1b[32m200\x1b[0m 0.221 ms - 5\x1b[0m":                        "morgan, and have no date",
		`127.0.0.1 - GET /a HTTP/1.1 200 5 - 0.324 ms`:                                "morgan, and have no date",
		`GET /a 200 5 - 0.265 ms`:                                                     "morgan, and have no date",
		`2026-11-28T12:00:59.123456Z DEBUG request{method=GET uri=/a version=HTTP/1.1}: tower_http::trace::on_response: ` +
			`finished processing request latency=0 ms status=200`: "have no client",
		`[28/Nov/2026 12:00:59] "GET /a HTTP/1.1" 200 5`: "Django's runserver, and have no client",
		`<134>Nov 29 07:51:29 haproxy[1]: Connect from 127.0.0.1:46238 to 127.0.0.1:8105 ` +
			`(n/HTTP)`: "have no request: set option httplog",
		`<134>Nov 29 07:51:29 haproxy[1]: 127.0.0.1:1 [29/Nov/2026:07:51:29.100] t b/s -1/-1/0 76 LR 1/1/0/0/0 ` +
			`0/0`: "have no request: set option httplog",
		`2026/11/29 07:50:44 [error] 12#12: *1 open() failed, client: 192.0.2.1, request: "GET / ` +
			`HTTP/1.1"`: "name the access log",
	} {
		_, err := accesslog.New("log", strings.NewReader(line+"\n"+line+"\n"), &accesslog.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", line, err, want)
		}
	}
}

// A flag that has no effect would be a mistake that is not found.
func TestARoleThatAFormatDoesNotHaveIsRefused(t *testing.T) {
	for _, s := range samples {
		for _, role := range []string{"date", "query", "time", "request"} {
			o := accesslog.Options{Format: s.format, Fields: map[string]string{role: "nowhere"}}
			_, err := accesslog.New("log", strings.NewReader(s.text), &o)
			if err == nil && !accesslog.NamesFields(s.format) {
				t.Errorf("%s: --field %s=nowhere is accepted", s.format, role)
			}
		}
	}
}
