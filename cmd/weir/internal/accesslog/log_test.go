package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// read returns a log's format, its entries as text, and its counts.
func read(t testing.TB, text string, o accesslog.Options) (format string, entries []string, counts accesslog.Counts) {
	t.Helper()
	l, err := accesslog.New("access.log", strings.NewReader(text), &o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer l.Close()
	return l.Format(), entriesOf(l, len(o.Extras)), *l.Counts()
}

// entriesOf reads a log to its end.
func entriesOf(l *accesslog.Log, extras int) (entries []string) {
	e := accesslog.Entry{Extra: make([]string, extras)}
	for l.Next(&e) {
		entries = append(entries, describe(&e))
	}
	return entries
}

// firstOf returns the number of the first line of a log that is damaged, 0 if none is.
func firstOf(t testing.TB, text string) (line int64) {
	t.Helper()
	l, err := accesslog.New("access.log", strings.NewReader(text), &accesslog.Options{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	entriesOf(l, 0)
	for _, s := range l.Skipped() {
		if s.Kind != "noRequest" && s.Kind != "noAddress" && s.Kind != "other" && (line == 0 || s.First < line) {
			line = s.First
		}
	}
	return line
}

func describe(e *accesslog.Entry) string {
	s := fmt.Sprintf("%s %s %s %s %d %d", time.UnixMicro(e.At).UTC().Format("2006-01-02T15:04:05.999999"),
		e.Address, e.Method, e.Target, e.Status, e.Bytes)
	if e.Host != "" {
		s += " host=" + e.Host
	}
	if e.HasEnd {
		s += " took=" + e.Lasted.String()
	}
	if !e.Exact {
		s += " ±1s"
	}
	for _, extra := range e.Extra {
		s += fmt.Sprintf(" %q", extra)
	}
	return s
}

// Lines as the servers write them, with addresses and names made up.
var samples = []struct {
	format, what string
	options      accesslog.Options
	text, want   string
}{
	{"common", "Apache's common", accesslog.Options{},
		`192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
		`2000-10-10T20:55:36 192.0.2.7 GET /apache_pb.gif 200 2326 ±1s`},
	{"common", "a user name with a blank, and a user as the key",
		accesslog.Options{Extras: []string{"key.user"}, Fields: map[string]string{"key.user": "user"}},
		`192.0.2.7 - ann smith [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 304 -`,
		`2000-10-10T20:55:36 192.0.2.7 GET / 304 0 ±1s "ann smith"`},
	{"combined", "Apache and nginx", accesslog.Options{Extras: []string{"header.Referer", "header.User-Agent"}},
		`2001:db8::7 - - [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 203023 "http://example.com/" "Mozilla/5.0 (X11) \"quoted\" Gecko"`,
		`2015-05-17T10:05:03 2001:db8::7 GET /a?b=c 200 203023 ±1s "http://example.com/" "Mozilla/5.0 (X11) \"quoted\" Gecko"`},
	{"combined", "nginx, with its duration behind, which nothing names", accesslog.Options{},
		`198.51.100.4 - - [24/Feb/2024:00:00:59 +0100] "POST /login HTTP/2.0" 401 31 "-" "curl/8.5.0" 0.003`,
		`2024-02-23T23:00:59 198.51.100.4 POST /login 401 31 ±1s`},
	{"vhost-combined", "Apache's vhost_combined", accesslog.Options{},
		`www.example.com:443 192.0.2.9 - - [12/Mar/2024:06:25:01 +0000] "GET /robots.txt HTTP/1.1" 200 512 "-" "Mozilla/5.0"`,
		`2024-03-12T06:25:01 192.0.2.9 GET /robots.txt 200 512 host=www.example.com:443 ±1s`},
	{"vhost-common", "Apache's vhost_common", accesslog.Options{},
		`example.org 192.0.2.9 - - [12/Mar/2024:06:25:01 +0000] "HEAD / HTTP/1.1" 200 -`,
		`2024-03-12T06:25:01 192.0.2.9 HEAD / 200 0 host=example.org ±1s`},
	{"traefik-common", "Traefik's common", accesslog.Options{},
		`192.0.2.11 - - [02/Apr/2024:08:11:10 +0000] "GET /whoami HTTP/1.1" 200 418 "-" "-" 17 "whoami@docker" "http://172.18.0.3:80" 12ms`,
		`2024-04-02T08:11:10 192.0.2.11 GET /whoami 200 418 took=12ms ±1s`},
	{"traefik", "Traefik's JSON", accesslog.Options{Extras: []string{"header.X-Tenant"}},
		`{"ClientAddr":"192.0.2.11:52342","ClientHost":"192.0.2.11","ClientPort":"52342","ClientUsername":"-","DownstreamContentSize":418,"DownstreamStatus":200,"Duration":1259262,"OriginContentSize":418,"OriginDuration":1100000,"OriginStatus":200,"Overhead":159262,"RequestAddr":"example.com","RequestContentSize":0,"RequestCount":17,"RequestHost":"example.com","RequestMethod":"GET","RequestPath":"/whoami?x=1","RequestPort":"-","RequestProtocol":"HTTP/1.1","RequestScheme":"http","RetryAttempts":0,"RouterName":"whoami@docker","StartLocal":"2024-04-02T10:11:10.123456789+02:00","StartUTC":"2024-04-02T08:11:10.123456789Z","entryPointName":"web","level":"info","msg":"","request_X-Tenant":"acme","time":"2024-04-02T08:11:10Z"}`,
		`2024-04-02T08:11:10.123456 192.0.2.11 GET /whoami?x=1 200 418 host=example.com took=1.259262ms "acme"`},
	{"caddy", "Caddy, which stamps the end", accesslog.Options{Extras: []string{"header.X-Tenant"}},
		`{"level":"info","ts":1646861401.5241024,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"198.51.100.1","remote_port":"41342","client_ip":"192.0.2.33","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/docs/","headers":{"User-Agent":["curl/7.82.0"],"X-Tenant":["acme"],"Accept-Encoding":["gzip, deflate, br"]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"example.com"}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}`,
		`2022-03-09T21:30:01.523173 192.0.2.33 GET /docs/ 200 10900 host=localhost took=929.675µs "acme"`},
	{"nginx-json", "nginx, with names of its variables", accesslog.Options{},
		`{"time_iso8601":"2024-02-24T12:00:59+00:00","remote_addr":"192.0.2.40","request_method":"GET","request_uri":"/items?page=2","status":200,"body_bytes_sent":"1234","request_time":"0.250","http_host":"shop.example"}`,
		`2024-02-24T12:00:59 192.0.2.40 GET /items?page=2 200 1234 host=shop.example took=250ms ±1s`},
	{"nginx-json", "nginx, msec and the request line", accesslog.Options{Extras: []string{"header.X-Tenant"}},
		`{"msec": "1708776059.750", "remote_addr": "192.0.2.40", "request": "GET /it\u0065ms HTTP/1.1", "status": "200", "request_time": "0.250", "http_x_tenant": "acme"}`,
		`2024-02-24T12:00:59.5 192.0.2.40 GET /items 200 0 took=250ms "acme"`},
	{"alb", "an Application Load Balancer", accesslog.Options{Extras: []string{"header.User-Agent"}},
		`https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.0.2.131:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/?a=b HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012" 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_123456`,
		`2018-07-02T22:22:48.364 192.0.2.131 GET /?a=b 200 57 host=www.example.com took=171ms "curl/7.46.0"`},
	{"alb", "one that could not forward", accesslog.Options{},
		`http 2018-11-30T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.0.2.131:2817 - -1 -1 -1 503 - 0 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn "Root=1-58337364" "-" "-" 0 2018-11-30T22:22:48.364000Z "forward" "-" "-" "-" "-" "-" "-"`,
		`2018-11-30T22:22:48.364 192.0.2.131 GET / 503 366 host=www.example.com:80`},
	{"cloudfront", "CloudFront's standard log", accesslog.Options{Extras: []string{"header.User-Agent"}},
		"#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status " +
			"cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header " +
			"cs-protocol cs-bytes time-taken\n" +
			"2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0%20(Windows)\ta=b\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\td111111abcdef8.cloudfront.net\thttps\t23\t0.001",
		`2019-12-04T21:02:31 192.0.2.100 GET /index.html?a=b 200 392 host=d111111abcdef8.cloudfront.net took=1ms ±1s "Mozilla/5.0 (Windows)"`},
	{"w3c", "IIS", accesslog.Options{},
		"#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n" +
			"#Date: 2024-05-02 17:42:15\r\n" +
			"#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) " +
			"cs(Referer) sc-status sc-substatus sc-win32-status time-taken\r\n" +
			"2024-05-02 17:42:16 10.0.0.5 GET /default.htm - 80 - 192.0.2.66 Mozilla/4.0+(compatible) - 200 0 0 " +
			"1532\r\n",
		`2024-05-02T17:42:14 192.0.2.66 GET /default.htm 200 0 took=1.532s ±1s`},
	{"w3c", "a log that names its day once", accesslog.Options{},
		"#Version: 1.0\n#Date: 12-Jan-1996 00:00:00\n#Date: 2024-05-02 00:00:00\n" +
			"#Fields: time cs-method cs-uri c-ip\n00:34:23 GET /foo/bar.html 192.0.2.1",
		`2024-05-02T00:34:23 192.0.2.1 GET /foo/bar.html 0 0 ±1s`},
	{"jsonl", "fields by name",
		accesslog.Options{
			Format: "jsonl", Extras: []string{"key.user"}, Unit: time.Millisecond, Stamp: accesslog.AtStart,
			Fields: map[string]string{
				"time": "ts", "address": "client.ip", "method": "m", "path": "u", "status": "s", "duration": "ms",
				"key.user": "sub",
			},
		},
		`{"ts":1708776059123,"client":{"ip":"::ffff:192.0.2.40"},"m":"GET","u":"/x","s":200,"ms":12.5,"sub":"ann"}`,
		`2024-02-24T12:00:59.123 192.0.2.40 GET /x 200 0 took=12.5ms "ann"`},
}

func TestTheLinesOfEveryFormatAreRead(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range samples {
		t.Run(s.format+", "+s.what, func(t *testing.T) {
			format, entries, counts := read(t, s.text, s.options)
			if format != s.format {
				t.Errorf("the format is %q, want %q", format, s.format)
			}
			if len(entries) != 1 || entries[0] != s.want {
				t.Errorf("got  %q\nwant %q\n%+v", entries, s.want, counts)
			}
		})
		seen[s.format] = true
	}
	for _, format := range accesslog.Formats() {
		if !seen[format] {
			t.Errorf("format %s has no sample", format)
		}
	}
}

func TestEveryFormatIsFoundAmongDamagedLines(t *testing.T) {
	for _, s := range samples {
		if s.format == "jsonl" {
			continue
		}
		lines := strings.Split(strings.TrimSpace(s.text), "\n")
		last := lines[len(lines)-1]
		text := strings.Join(lines, "\n") + "\n" + last[:len(last)/3] + "\n\x00\x01\x02junk\n\n" + last + "\n"
		format, entries, counts := read(t, text, s.options)
		if format != s.format || len(entries) != 2 || counts.Unread() != 2 || counts.Binary != 1 {
			t.Errorf("%s: got %s, %d entries, %+v", s.format, format, len(entries), counts)
		}
	}
}

func TestWhatIsNoRequestIsCounted(t *testing.T) {
	line := func(host, request string) string {
		return host + ` - - [17/May/2015:10:05:03 +0000] "` + request + `" 400 226 "-" "-"` + "\n"
	}
	text := line("192.0.2.1", "GET / HTTP/1.1") +
		// TLS on a plain port, and connections without a request
		line("192.0.2.1", `\x16\x03\x01\x00\xee`) + line("192.0.2.1", "-") + line("192.0.2.1", "") +
		line("crawler.example", "GET / HTTP/1.1") +
		line("192.0.2.1", "GET http://example.com/a HTTP/1.1") + // a proxy's form
		strings.Repeat("x", 1<<19) + "\n" +
		line("192.0.2.1", "OPTIONS * HTTP/1.1")
	_, entries, counts := read(t, text, accesslog.Options{})
	want := accesslog.Counts{Lines: 8, Requests: 3, NoRequest: 3, NoAddress: 1, TooLong: 1}
	if counts != want {
		t.Errorf("got %+v, want %+v", counts, want)
	}
	if len(entries) != 3 || !strings.Contains(entries[1], " GET /a ") ||
		!strings.Contains(entries[1], "host=example.com") {
		t.Errorf("got %q", entries)
	}
}

// nginx answers requests whose parts are apart by several blanks, and logs them as they came.
func TestSeveralBlanksHideNoRequest(t *testing.T) {
	for _, request := range []string{"GET  /a HTTP/1.1", "GET /a  HTTP/1.1", "GET   /a   HTTP/1.1", "GET  /a"} {
		text := `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "` + request + `" 200 226 "-" "-"`
		_, entries, _ := read(t, text, accesslog.Options{})
		if len(entries) != 1 || !strings.Contains(entries[0], " GET /a 200 ") {
			t.Errorf("%q: got %q", request, entries)
		}
	}
}

func TestCompressedLogsAreRead(t *testing.T) {
	var b bytes.Buffer
	for range 2 { // logs that were joined have several members
		z := gzip.NewWriter(&b)
		fmt.Fprintln(z, samples[0].text)
		z.Close()
	}
	_, entries, counts := read(t, b.String(), accesslog.Options{})
	if len(entries) != 2 || counts.Incomplete {
		t.Errorf("got %d entries, %+v", len(entries), counts)
	}
	_, entries, counts = read(t, b.String()[:b.Len()-12], accesslog.Options{})
	if len(entries) == 0 || !counts.Incomplete {
		t.Errorf("a file that ends early: got %d entries, %+v", len(entries), counts)
	}
}

// Editors count empty lines and directives, too.
func TestTheFirstUnreadLineIsNumberedAsEditorsDo(t *testing.T) {
	w3c := "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n2026-11-20 12:00:00 192.0.2.1 GET / 200\n"
	for _, c := range []struct {
		text string
		want int64
	}{
		{"\n\n" + samples[0].text + "\n\ndamaged\ndamaged\n", int64(strings.Count(samples[0].text, "\n") + 5)},
		{w3c + "#Remark: none\n\ndamaged\n", 5},
		{w3c + strings.Repeat("x", 1<<19) + "\n", 3},
		{w3c, 0},
	} {
		if got := firstOf(t, c.text); got != c.want {
			t.Errorf("%.200q: got line %d, want %d", c.text, got, c.want)
		}
	}
}

func TestAnEmptyLogHasNoRequests(t *testing.T) {
	if format, entries, counts := read(t, "", accesslog.Options{}); format != "" || entries != nil ||
		counts.Lines != 0 {
		t.Errorf("got %q, %q, %+v", format, entries, counts)
	}
}

func TestWhatCannotBeReadSaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		text string
		o    accesslog.Options
		want string
	}{
		{"hello\nworld\n", accesslog.Options{}, "name the format by --format"},
		{samples[0].text, accesslog.Options{Format: "alb"}, "none of its first lines is of the format alb"},
		{samples[0].text, accesslog.Options{Format: "apache"}, "formats are auto, vhost-combined"},
		{samples[0].text, accesslog.Options{Fields: map[string]string{"adress": "x"}}, `there is no field "adress"`},
		{samples[0].text,
			accesslog.Options{Format: "common", Extras: []string{"key.user"}, Fields: map[string]string{"key.user": "sub"}},
			`has no field "sub"`},
		{`{"ts":1,"ip":"192.0.2.1"}`, accesslog.Options{Format: "jsonl"}, "by --field time=NAME,address=NAME"},
		{`{"ts":1,"ip":"192.0.2.1"}`, accesslog.Options{Format: "jsonl", Fields: map[string]string{"time": "t"}},
			`with a time in the field "t"`},
		{"\x28\xb5\x2f\xfd....", accesslog.Options{}, "zstdcat"},
	} {
		_, err := accesslog.New("access.log", strings.NewReader(c.text), &c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	_, err := accesslog.New("access.log", strings.NewReader("hello\n"), &accesslog.Options{})
	if !errors.Is(err, accesslog.ErrFormat) {
		t.Errorf("got %v, want ErrFormat", err)
	}
}

func TestCaddyHidesCredentials(t *testing.T) {
	text := `{"ts":1646861401.5,"request":{"client_ip":"192.0.2.33","method":"GET","uri":"/","headers":{"Authorization":["REDACTED"]}},"duration":0.1,"status":200}`
	o := accesslog.Options{Extras: []string{"header.Authorization"}}
	l, err := accesslog.New("access.log", strings.NewReader(text), &o)
	if err != nil {
		t.Fatal(err)
	}
	if l.Has(0) || !l.Redacted() {
		t.Errorf("got Has %v, Redacted %v", l.Has(0), l.Redacted())
	}
}

func TestStampsOfManyForms(t *testing.T) {
	for _, c := range []struct{ stamp, want string }{
		{`1708776059`, "2024-02-24T12:00:59 ±1s"},
		{`1708776059.5`, "2024-02-24T12:00:59.5"},
		{`1708776059500`, "2024-02-24T12:00:59.5"},
		{`1708776059500000`, "2024-02-24T12:00:59.5"},
		{`1708776059500000000`, "2024-02-24T12:00:59.5"},
		{`"2024-02-24T12:00:59Z"`, "2024-02-24T12:00:59 ±1s"},
		{`"2024-02-24T13:00:59.25+01:00"`, "2024-02-24T12:00:59.25"},
		{`"2024-02-24T13:00:59+0100"`, "2024-02-24T12:00:59 ±1s"},
		{`"2024/02/24 12:00:59.125"`, "2024-02-24T12:00:59.125"},
		{`"24/Feb/2024:12:00:59 +0000"`, "2024-02-24T12:00:59 ±1s"},
		{`"yesterday"`, ""},
		{`-5`, ""},
		{`99999999999999999999`, ""},
	} {
		text := `{"time":1,"remote_addr":"192.0.2.1","request":"GET / HTTP/1.1"}` + "\n" + `{"time":` + c.stamp +
			`,"remote_addr":"192.0.2.1","request":"GET / HTTP/1.1"}`
		_, entries, _ := read(t, text, accesslog.Options{})
		got := ""
		if len(entries) == 2 {
			at, rest, _ := strings.Cut(entries[1], " ")
			if got = at; strings.HasSuffix(rest, "±1s") {
				got += " ±1s"
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.stamp, got, c.want)
		}
	}
}

func TestNoRequestArrivesBeforeTheEpoch(t *testing.T) {
	for stamp, want := range map[string]string{
		`1.5`: "1970-01-01T00:00:00 ", `2`: "1970-01-01T00:00:00 ", `20.25`: "1970-01-01T00:00:10.25 ",
	} {
		text := `{"level":"info","ts":` + stamp +
			`,"request":{"client_ip":"192.0.2.33","method":"GET","host":"a","uri":"/"},"duration":10,"size":1,"status":200}`
		_, entries, _ := read(t, text, accesslog.Options{Format: "caddy"})
		if len(entries) != 1 || !strings.HasPrefix(entries[0], want) {
			t.Errorf("%s: got %q, want %q", stamp, entries, want)
		}
	}
}

func TestAMeterCounts(t *testing.T) {
	m := accesslog.NewMeter(strings.NewReader("12345"))
	io.Copy(io.Discard, m)
	if m.Count() != 5 {
		t.Errorf("got %d, want 5", m.Count())
	}
}
