package accesslog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

const (
	stamp    = `[24/Feb/2024:12:00:59 +0000]`
	isoStamp = `2024-02-24T12:00:59.123456789Z`
	at       = "2024-02-24T12:00:59"
)

// alb returns a line of a balancer of AWS.
func alb(client string) string {
	return `https 2024-02-24T12:00:59.186641Z app/lb/50dc6c495c0c9188 ` + client +
		` 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a HTTP/1.1" "curl/7.46.0" - - arn "Root=1-5" "www.example.com" "-" 1 2024-02-24T12:00:59.000000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`
}

// caddy returns a line of Caddy with header fields.
func caddy(second int, headers string) string {
	return fmt.Sprintf(
		`{"level":"info","ts":%d.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.7","method":"GET","host":"example.com","uri":"/a","headers":{%s}},"duration":0.5,"size":9,"status":200}`,
		1708776059+second, headers)
}

// What other programs failed to read, by public reports, and what is wrong in the same way. A
// request is told by its client alone.
var fromTheWorld = []struct {
	report  string
	options accesslog.Options
	text    string
	format  string
	clients string
	skipped string // by kind
}{
	{report: "goaccess 2557, fluent-plugin-elb-log 12, tailpipe-plugin-aws 295: IPv6 and port without brackets",
		format: "alb",
		text: alb("2001:db8:1:2:3:4:5:6:50718") + "\n" + alb("2001:db8::3:4:5:6:4711") + "\n" +
			alb("2001:db8::7:8080") + "\n" + alb("[2001:db8::8]:8080") + "\n" + alb("192.0.2.1:80") + "\n" + alb("-"),
		clients: "2001:db8:1:2:3:4:5:6 2001:db8::3:4:5:6 2001:db8::7 2001:db8::8 192.0.2.1", skipped: "noAddress 1@6"},

	{report: "goaccess 1199: W3C with tabs, blanks in cells and other names of headers", format: "w3c",
		options: accesslog.Options{Extras: []string{"header.User-Agent"}},
		text: "#Fields: date\ttime\tcs-method\tc-ip\tcs-version\tcs-referrer\tcs-user-agent\tsc-bytes\ttime-taken\tsc-status\tcs-uri-query\tcs-uri-stem\n" +
			"2024-02-24\t12:00:59\tGET\t192.0.2.1\thttps\t-\tXtream Codes Pro\t159\t0.033\t200\t-\t/a/b c\n",
		clients: "192.0.2.1"},
	{report: "goaccess 1798: Akamai, tabs and quotes", format: "w3c",
		text: "#Version: 1.0\n#Fields: date time cs-ip cs-method cs-uri sc-status sc-bytes time-taken cs(Referer) " +
			"cs(User-Agent) cs(Cookie)\n" +
			"2024-02-24\t12:00:59\t192.0.2.1\tGET\t/example.com/a\t000\t65305\t108\t\"-\"\t\"swcd (unknown version) " +
			"\"\"x\"\" \"\t\"-\"\n",
		clients: "192.0.2.1"},
	{report: "the same, separated by blanks", format: "w3c",
		text: "#Fields: date time cs-ip cs-method cs-uri sc-status sc-bytes time-taken cs(Referer) cs(User-Agent) " +
			"cs(Cookie)\n" +
			"2024-02-24      12:00:59        192.0.2.1     GET     /example.com/a       000     65305   108     " +
			"\"-\"     \"swcd (unknown) \"\"x y\"\" z\" \"-\"\n",
		clients: "192.0.2.1"},
	{report: "IIS: quotes of a client are no quotes", format: "w3c",
		text: "#Fields: date time c-ip cs-method cs-uri-stem cs(User-Agent) cs(Referer) sc-status\n" +
			"2024-02-24 12:00:59 192.0.2.1 GET /a \"a - 200\n" +
			"2024-02-24 12:00:59 192.0.2.2 GET /a \"a b\" 200\n2024-02-24 12:00:59 192.0.2.3 GET /a \"a\" - 200\n",
		clients: "192.0.2.1 192.0.2.2 192.0.2.3"},
	{report: "goaccess 2735: IIS writes blanks as +, Azure's gateway a port", format: "w3c",
		options: accesslog.Options{Fields: map[string]string{"address": "X-Forwarded-For"}},
		text: "#Fields: date time s-ip cs-method cs-uri-stem c-ip sc-status time-taken X-Forwarded-For\n" +
			"2024-02-24 12:00:59 10.0.0.5 GET /a 10.0.0.9 200 15 203.0.113.9:33453,+192.0.2.1:49770\n" +
			"2024-02-24 12:00:59 10.0.0.5 GET /a 10.0.0.9 200 15 192.0.2.2\n" +
			"2024-02-24 12:00:59 10.0.0.5 GET /a 10.0.0.9 200 15 -\n",
		clients: "192.0.2.1 192.0.2.2", skipped: "noAddress 1@4"},
	{report: "CloudFront writes blanks as in URLs", format: "cloudfront",
		options: accesslog.Options{Fields: map[string]string{"address": "x-forwarded-for"}},
		text: "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status " +
			"x-forwarded-for\n" +
			"2024-02-24\t12:00:59\tLAX1\t392\t10.0.0.1\tGET\td1.cloudfront.net\t/a\t200\t203.0.113.9,%20192.0.2.1\n",
		clients: "192.0.2.1"},
	{report: "beats 31547: IIS, IPv6 with a zone", format: "w3c",
		text: "#Fields: date time cs-method cs-uri-stem c-ip sc-status\n" +
			"2024-02-24 12:00:59 GET /a fe80::63ae:94c0%3 200\n2024-02-24 12:00:59 GET /a - 200\n" +
			"2024-02-24 12:00:59 - - - -\n",
		clients: "fe80::63ae:94c0", skipped: "noAddress 1@3, noRequest 1@4"},

	{report: "telegraf 1810, axslogparser PR 13: names of users with blanks and brackets", format: "combined",
		text: `192.0.2.1 - ann smith ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`192.0.2.2 - x [y ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`192.0.2.3 - x [01/Jan/2020:00:00:00 +0000] \x22GET /b ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` +
			"\n" +
			// nginx-ingress
			`192.0.2.4 - [203.0.113.9] - - ` + stamp +
			` "GET /a HTTP/1.1" 200 5 "-" "-" 458 13.047 [site-80] 172.17.0.17:5000` + "\n" +
			`192.0.2.5 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "] \x22GET [` + "\"\n",
		clients: "192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4 192.0.2.5"},
	{report: "traefik 6481: a dash for what is not known", format: "traefik-common",
		text: strings.Repeat(
			`192.0.2.1 - - `+stamp+` "GET /a HTTP/1.1" 200 5 "-" "-" 1 "r" "http://10.0.0.2:80" 12ms`+"\n", 3) +
			`192.0.2.2 - - ` + stamp + ` "GET /a HTTP/1.1" 404 19 "-" "-" 4 - - 0ms` + "\n" +
			`192.0.2.3 - - ` + stamp + ` "GET /a HTTP/1.1" - - "-" "-" 5 "-" "-" 0ms` + "\n" +
			`192.0.2.4 - - ` + stamp + ` "GET /a HTTP/1.1" 0 0 - - - - - 0ms` + "\n",
		clients: "192.0.2.1 192.0.2.1 192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4"},
	{report: "Traefik escapes no quotes", format: "traefik-common",
		text: `192.0.2.1 - - ` + stamp + ` "GET /a"b HTTP/1.1" 200 5 "-" "say "hi" x" 1 "r" "http://10.0.0.2:80" 12ms` +
			"\n" +
			`192.0.2.2 - - ` + stamp +
			` "GET /a HTTP/1.1" 200 5 "-" "x" 1 "r" "s" 999ms" 2 "r" "http://10.0.0.2:80" 12ms` + "\n",
		clients: "192.0.2.1 192.0.2.2"},
	{report: "goaccess 2054, 2626: Caddy's log begins with messages", format: "caddy",
		text: strings.Repeat(
			`{"level":"info","ts":1708776059.5,"logger":"tls","msg":"finished cleaning storage units"}`+"\n", 15) +
			strings.Repeat(caddy(0, "")+"\n", 7) +
			`{"level":"warn","ts":1708776059.5,"msg":"stapling OCSP","error":"no URL"}`,
		clients: strings.TrimSpace(strings.Repeat("192.0.2.7 ", 7)), skipped: "other 16@1"},
	{report: "more messages than lines decide", format: "caddy",
		text: strings.Repeat(
			`{"level":"info","ts":1708776059.5,"logger":"tls","msg":"finished cleaning storage units"}`+"\n", 1500) +
			caddy(0, ""),
		clients: "192.0.2.7", skipped: "other 1500@1"},
	{report: "Caddy logs an error with its request, which is logged by itself", format: "caddy",
		text: strings.Replace(strings.Replace(caddy(0, ""), "http.log.access", "http.log.error", 1),
			"handled request", "dial tcp: connection refused", 1) + "\n" + caddy(0, "") + "\n" +
			strings.Replace(caddy(0, ""), "handled request", "unhandled request", 1),
		clients: "192.0.2.7 192.0.2.7", skipped: "other 1@1"},
	{report: "Traefik's messages among its requests", format: "traefik",
		text: `{"level":"info","msg":"Traefik version 3","time":"2024-02-24T12:00:58Z"}` + "\n" +
			`{"ClientHost":"192.0.2.1","Duration":1,"RequestMethod":"GET","RequestPath":"/a","StartUTC":"2024-02-24T12:00:59.1Z","time":"2024-02-24T12:00:59Z"}`,
		clients: "192.0.2.1", skipped: "other 1@1"},
	{report: "caddyserver 1025: two lines of a header", format: "caddy",
		options: accesslog.Options{Fields: map[string]string{"address": "request.headers.X-Forwarded-For"}},
		text: caddy(0, `"X-Forwarded-For":["203.0.113.9","192.0.2.1"]`) + "\n" +
			caddy(1, `"X-Forwarded-For":["203.0.113.9, 192.0.2.2"]`) + "\n" +
			caddy(2, `"X-Forwarded-For":["203.0.113.9","203.0.113.8, 192.0.2.3"]`) + "\n" +
			caddy(3, `"X-Forwarded-For":[]`) + "\n" + caddy(4, `"X-Forwarded-For":["192.0.2.4",""]`),
		clients: "192.0.2.1 192.0.2.2 192.0.2.3", skipped: "noAddress 2@4"},
	{report: "nginx without escape=json, and with nothing or a dash for a number", format: "nginx-json",
		text: `{"time":"2024-02-24T12:00:59+00:00","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","agent":"\x22hi\x22 \xC3\xA9","upstream":-,"status":200}` + "\n" +
			`{"time":"2024-02-24T12:00:59+00:00","remote_addr":"192.0.2.2","request":"GET /a HTTP/1.1","upstream": , "status":200,"last":}` + "\n" +
			`{"time":"2024-02-24T12:00:59+00:00","remote_addr":"192.0.2.3","request":"","request_method":"","request_uri":"","status":400}`,
		clients: "192.0.2.1 192.0.2.2", skipped: "noRequest 1@3"},
	{report: "a field that is empty, and another that has the address", format: "traefik",
		text:    `{"ClientAddr":"192.0.2.1:52342","ClientHost":"-","RequestMethod":"GET","RequestPath":"/a","StartUTC":"2024-02-24T12:00:59.1Z"}`,
		clients: "192.0.2.1"},
	{report: "Go answers methods in small letters", format: "caddy",
		text: strings.Replace(caddy(0, ""), `"GET"`, `"get"`, 1) + "\n" +
			strings.Replace(caddy(0, ""), `"GET"`, `"VERSION-CONTROL-0123456789"`, 1),
		clients: "192.0.2.7 192.0.2.7"},

	{report: "goaccess 1339: Docker's json-file, with the prefix and the colours of nginx-proxy",
		format: "vhost-combined",
		text: `{"log":"\u001b[0;33;1mnginx.1    | \u001b[0mexample.com 192.0.2.1 - - ` + stamp +
			` \"GET /a?b=1\u0026c HTTP/2.0\" 200 844 \"-\" \"Firefox\"\n","stream":"stdout","time":"` + isoStamp +
			`"}` + "\n" +
			`{"log":"example.com 192.0.2.2 - - ` + stamp +
			` \"GET /a HTTP/2.0\" 200 844 \"-\" \"Firefox\"\n","stream":"stdout","attrs":{"tag":"x"},"time":"` +
			isoStamp + `"}` + "\n" +
			`{"log":"2024/02/24 12:00:59 [notice] 1#1: start worker processes\n","stream":"stderr","time":"` +
			isoStamp + `"}` + "\n" +
			`{"log":"\n","stream":"stdout","time":"` + isoStamp + `"}` + "\n",
		clients: "192.0.2.1 192.0.2.2", skipped: "malformed 1@3"},
	{report: "CRI, kubectl --timestamps and --prefix", format: "combined",
		text: isoStamp + ` stdout F 192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			isoStamp + ` 192.0.2.2 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`[pod/web-1/nginx] 192.0.2.3 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			isoStamp + ` stderr F 2024/02/24 12:00:59 [notice] 1#1: start` + "\n",
		clients: "192.0.2.1 192.0.2.2 192.0.2.3", skipped: "malformed 1@4"},
	{report: "Caddy's JSON in CRI", format: "caddy", text: isoStamp + " stderr F " + caddy(0, ""),
		clients: "192.0.2.7"},
	{report: "syslog, old and new, and docker compose", format: "combined",
		text: `Feb 24 12:00:59 web1 nginx: 192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`<190>Feb  4 12:00:59 web1 nginx[12]: 192.0.2.2 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`2024-02-24T12:00:59.123+00:00 web1 nginx: 2001:db8:: - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` +
			"\n" +
			"web-1  | 192.0.2.4 - - " + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			"\x1b[36mweb-1  | \x1b[0m192.0.2.5 - - " + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n",
		clients: "192.0.2.1 192.0.2.2 2001:db8:: 192.0.2.4 192.0.2.5"},
	{report: "goaccess 2294: whole lines in quotes", format: "combined",
		text: `"192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "Mozilla"` + "\n" +
			`"192.0.2.2 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "Mozilla""` + "\n" +
			`"192.0.2.3 - - ` + stamp + ` ""GET /a HTTP/1.1"" 200 5 ""-"" ""Mozilla"""` + "\n" +
			`"192.0.2.4 - - ` + stamp + ` \"GET /a HTTP/1.1\" 200 5 \"-\" \"Mozilla\""` + "\n",
		clients: "192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4"},
	{report: "JSON in the quotes of CSV", format: "caddy",
		text:    `"` + strings.ReplaceAll(caddy(0, ""), `"`, `""`) + `"` + "\n" + fmt.Sprintf("%q", caddy(0, "")),
		clients: "192.0.2.7 192.0.2.7"},

	{report: "lines of several formats in one log", format: "combined",
		text: `192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" + `192.0.2.2 - - ` + stamp +
			` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`192.0.2.3 - - ` + stamp + ` "GET /a HTTP/1.1" 200 -` + "\n" + `example.com:443 192.0.2.4 - - ` + stamp +
			` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`crawler.example - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" + caddy(0, "") + "\n",
		clients: "192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4", skipped: "malformed 1@6, noAddress 1@5"},
	{report: "stamps of formats of one's own", format: "combined",
		text: `192.0.2.1 - - [2024-02-24T12:00:59+00:00] "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`192.0.2.2 - x [y [24/Feb/2024:12:00:59.123 +0000] "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`192.0.2.3 - - [1708776059.250] "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n",
		clients: "192.0.2.1 192.0.2.2 192.0.2.3"},
	{report: "Apache with X-Forwarded-For in place of the host", format: "combined",
		text: `203.0.113.9, 192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" + `192.0.2.2 - - ` +
			stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`203.0.113.9, unknown, 192.0.2.3 - ann ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`"203.0.113.9, 192.0.2.4" - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n",
		clients: "192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4"},
	{report: "zeros of a log that was truncated, and blanks", format: "combined",
		text: "\x00\x00\x00" + `192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n" +
			`  192.0.2.2 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n\x00\x00\n",
		clients: "192.0.2.1 192.0.2.2"},
	{report: "an array of JSON", format: "caddy", text: "[\n" + caddy(0, "") + ",\n" + caddy(1, "") + "\n]\n",
		clients: "192.0.2.7 192.0.2.7", skipped: "malformed 2@1"},
	{report: "addresses as headers have them", format: "common",
		text: `[2001:db8::1] - - ` + stamp + ` "GET /a HTTP/1.1" 200 5` + "\n" + `0.0.0.0 - - ` + stamp +
			` "GET /a HTTP/1.1" 200 5` + "\n" +
			`::ffff:192.0.2.3 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5` + "\n" + `fe80::4%eth0 - - ` + stamp +
			` "GET /a HTTP/1.1" 200 5` + "\n",
		clients: "2001:db8::1 192.0.2.3 fe80::4", skipped: "noAddress 1@2"},
}

func TestLogsOfTheWorldAreRead(t *testing.T) {
	for _, c := range fromTheWorld {
		t.Run(c.report, func(t *testing.T) {
			l, err := accesslog.New("access.log", strings.NewReader(c.text), &c.options)
			if err != nil {
				t.Fatal(err)
			}
			entries := entriesOf(l, len(c.options.Extras))
			var clients, skipped []string
			for _, entry := range entries {
				words := strings.Fields(entry)
				clients = append(clients, words[1])
				if !strings.HasPrefix(words[0], at) && !strings.HasPrefix(words[0], "2024-02-24T12:01:0") &&
					!strings.HasPrefix(words[0], "2024-02-24T12:00:58") {
					t.Errorf("%s", entry)
				}
			}
			for _, s := range l.Skipped() {
				skipped = append(skipped, fmt.Sprintf("%s %d@%d", s.Kind, s.Lines, s.First))
			}
			slices.Sort(skipped)
			if got := strings.Join(clients, " "); l.Format() != c.format || got != c.clients ||
				strings.Join(skipped, ", ") != c.skipped {
				t.Errorf("got %s: %s; %q\nwant %s: %s; %q", l.Format(), got, skipped, c.format, c.clients, c.skipped)
			}
			if c := l.Counts(); c.Incomplete || c.Requests != int64(len(entries)) {
				t.Errorf("got %+v", c)
			}
		})
	}
}
