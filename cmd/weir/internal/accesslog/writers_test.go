package accesslog_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// written is what a server logs of a request.
type written struct {
	client                       netip.Addr
	user, target, referer, agent string
}

// writers write a line as servers do, by their documents. Those that escape what would end a
// text leave nothing to guess. Traefik and AWS do not.
var writers = []struct {
	format  string
	escapes bool
	head    string
	line    func(w written) string
}{
	{"combined", true, "", func(w written) string { // nginx
		return fmt.Sprintf(`%s - %s %s "GET %s HTTP/1.1" 200 5 "%s" "%s" 0.003`, w.client, or(nginxText(w.user)),
			stamp, nginxText(w.target), or(nginxText(w.referer)), or(nginxText(w.agent)))
	}},
	{"vhost-combined", true, "", func(w written) string { // Apache
		return fmt.Sprintf(`www.example.com:443 %s - %s %s "GET %s HTTP/1.1" 200 5 "%s" "%s"`, w.client,
			or(apacheText(w.user)), stamp, apacheText(w.target), or(apacheText(w.referer)), or(apacheText(w.agent)))
	}},
	{"nginx-json", true, "", func(w written) string { // with escape=json
		return fmt.Sprintf(
			`{"user":%s,"agent":%s,"time":"2024-02-24T12:00:59+00:00","remote_addr":"%s","request":%s,"status":200,"upstream":}`,
			quoted(w.user), quoted(w.agent), w.client, quoted("GET "+w.target+" HTTP/1.1"))
	}},
	{"nginx-json", true, "", func(w written) string { // without
		return fmt.Sprintf(
			`{"user":"%s","agent":"%s","time":"2024-02-24T12:00:59+00:00","remote_addr":"%s","request":"GET %s HTTP/1.1",`+
				`"status":200,"upstream":-}`,
			nginxText(w.user), nginxText(w.agent), w.client, nginxText(w.target))
	}},
	{"caddy", true, "", func(w written) string {
		return fmt.Sprintf(
			`{"level":"info","ts":1708776059.5,"logger":"http.log.access","msg":"handled request",`+
				`"request":{"remote_ip":"%s","remote_port":"1","proto":"HTTP/1.1","method":"GET","host":"a","uri":%s,`+
				`"headers":{"User-Agent":[%s],"Referer":[%s]}},"user_id":%s,"duration":0.1,"size":5,"status":200}`,
			w.client, quoted(w.target), quoted(w.agent), quoted(w.referer), quoted(w.user))
	}},
	{"traefik", true, "", func(w written) string {
		return fmt.Sprintf(
			`{"ClientAddr":"%s","ClientHost":"%s","ClientUsername":%s,"Duration":1,"DownstreamStatus":200,`+
				`"RequestMethod":"GET","RequestPath":%s,"StartUTC":"2024-02-24T12:00:59.1Z","msg":"",`+
				`"request_User-Agent":%s}`,
			netip.AddrPortFrom(w.client, 1), w.client, quoted(w.user), quoted(w.target), quoted(w.agent))
	}},
	{"traefik-common", false, "", func(w written) string {
		return fmt.Sprintf(`%s - %s %s "GET %s HTTP/1.1" 200 5 "%s" "%s" 1 "router@docker" "http://10.0.0.2:80" 12ms`,
			w.client, or(w.user), stamp, w.target, or(w.referer), or(w.agent))
	}},
	{"alb", false, "", func(w written) string {
		return fmt.Sprintf(
			`https 2024-02-24T12:00:59.186641Z app/lb/50dc %s:4711 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET `+
				`https://www.example.com:443%s HTTP/1.1" "%s" - - arn "Root=1-5" "www.example.com" "-" 1 `+
				`2024-02-24T12:00:59.000000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`,
			w.client, w.target, or(w.agent))
	}},
	// IIS
	{"w3c", true, "#Fields: date time cs-method cs-uri-stem cs-username c-ip cs(User-Agent) cs(Referer) sc-status " +
		"time-taken\n", func(w written) string {
		return fmt.Sprintf(`2024-02-24 12:00:59 GET %s %s %s %s %s 200 15`, iisText(w.target), iisText(w.user),
			w.client, iisText(w.agent), iisText(w.referer))
	}},
	{"cloudfront", true, "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status " +
		"cs(Referer) cs(User-Agent) time-taken\n", func(w written) string {
		return fmt.Sprintf("2024-02-24\t12:00:59\tLAX1\t392\t%s\tGET\td1.cloudfront.net\t%s\t200\t%s\t%s\t0.001",
			w.client, iisText(w.target), urlText(w.referer), urlText(w.agent))
	}},
	{"gin", false, "", func(w written) string {
		return fmt.Sprintf("[GIN] 2024/02/24 - 12:00:59 | 200 |  12.31ms | %15s | GET      %q", w.client, w.target)
	}},
	{"chi", true, "", func(w written) string {
		return fmt.Sprintf(`2024/02/24 12:00:59 [vm/4A8DHmuNEW-000001] "GET http://example.com%s HTTP/1.1" from %s - `+
			`200 5B in 1.2ms`,
			w.target, netip.AddrPortFrom(w.client, 4711))
	}},
	{"haproxy", false, "", func(w written) string { // it captures the agent
		return fmt.Sprintf(`<134>Feb 24 12:00:59 haproxy[1]: %s:4711 [24/Feb/2024:12:00:59.079] a b/s 0/0/0/1/1 200 76 `+
			`- - ---- 1/1/0/0/0 0/0 {%s} "GET %s HTTP/1.1"`,
			w.client, haproxyText(w.agent), haproxyText(w.target))
	}},
	{"envoy", false, "", func(w written) string { // with use_remote_address; the referer is X-Forwarded-For here
		return fmt.Sprintf(`[2024-02-24T12:00:59.238Z] "GET %s HTTP/1.1" 200 - 0 5 250 - "%s,%s" "%s" "57024f56" `+
			`"example.com" "10.0.0.1:80"`,
			w.target, w.referer, w.client, or(w.agent))
	}},
	{"istio", false, "", func(w written) string {
		return fmt.Sprintf(`[2024-02-24T12:00:59.238Z] "GET %s HTTP/1.1" 200 - via_upstream - "-" 0 5 250 - "%s" "%s" `+
			`"57024f56" "example.com" "10.0.0.1:80" inbound|8080|| 10.0.1.5:42566 10.0.1.5:8080 %s - default`,
			w.target, or(w.referer), or(w.agent), netip.AddrPortFrom(w.client, 4711))
	}},
	{"squid", false, "", func(w written) string {
		return fmt.Sprintf(`1708776059.310     12 %s TCP_MISS/200 3413 GET http://example.com%s %s HIER_NONE/- text/html`,
			w.client, w.target, strings.ReplaceAll(or(w.user), " ", "%20"))
	}},
	{"uwsgi", false, "", func(w written) string {
		return fmt.Sprintf(`[pid: 1|app: 0|req: 1/1] %s (%s) {26 vars in 293 bytes} [Sat Feb 24 12:00:59 2024] GET %s `+
			`=> generated 5 bytes in 0 msecs (HTTP/1.1 200) 1 headers in 38 bytes (1 switches on core 0)`,
			w.client, w.user, w.target)
	}},
	{"actix", false, "", func(w written) string {
		return fmt.Sprintf(`[2024-02-24T12:00:59Z INFO  actix_web::middleware::logger] %s "GET %s HTTP/1.1" 200 5 "%s" `+
			`"%s" 0.000163`,
			w.client, w.target, or(w.referer), or(w.agent))
	}},
	{"caddy-console", true, "", func(w written) string {
		return fmt.Sprintf("2024/02/24 12:00:59.781\tINFO\thttp.log.access.log0\thandled request\t"+
			`{"request": {"remote_ip": "%s", "method": "GET", "host": "a", "uri": %s, "headers": {"User-Agent": [%s]}}, `+
			`"user_id": %s, "duration": 0.1, "size": 5, "status": 200}`,
			w.client, quoted(w.target), quoted(w.agent), quoted(w.user))
	}},
	{"echo", true, "", func(w written) string {
		return fmt.Sprintf(`{"time":"2024-02-24T12:00:59.5Z","id":"","remote_ip":"%s","host":"a","method":"GET",`+
			`"uri":%s,"user_agent":%s,"status":200,"error":"","latency":5438,"latency_human":"5.4µs","bytes_in":0,`+
			`"bytes_out":5}`,
			w.client, quoted(w.target), quoted(w.agent))
	}},
	{"pino", true, "", func(w written) string {
		return fmt.Sprintf(`{"level":30,"time":1708776059500,"req":{"id":1,"method":"GET","url":%s,"query":{%s:%[2]s},`+
			`"headers":{"user-agent":%[3]s},"remoteAddress":"%s"},"res":{"statusCode":200},"responseTime":16,`+
			`"msg":"request completed"}`,
			quoted(w.target), quoted(w.referer), quoted(w.agent), w.client)
	}},
	{"combined", true, "", func(w written) string { // in an object of a collector
		return fmt.Sprintf(`{"date":1708776059.5,"stream":"stdout","log":%s}`,
			quoted(fmt.Sprintf(`%s - %s %s "GET %s HTTP/1.1" 200 5 "%s" "%s"`, w.client, or(nginxText(w.user)),
				stamp, nginxText(w.target), or(nginxText(w.referer)), or(nginxText(w.agent)))))
	}},
}

func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// nginxText escapes as nginx does by default: quotes, backslashes, and what is not ASCII.
func nginxText(text string) string {
	return escaped(text, func(c byte) string { return fmt.Sprintf(`\x%02X`, c) })
}

// apacheText escapes as Apache does.
func apacheText(text string) string {
	return escaped(text, func(c byte) string {
		switch c {
		case '"', '\\':
			return `\` + string(c)
		case '\t':
			return `\t`
		}
		return fmt.Sprintf(`\x%02x`, c)
	})
}

func escaped(text string, escape func(byte) string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b.WriteString(escape(c))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// iisText writes blanks as +, and nothing as a dash.
func iisText(text string) string {
	return or(strings.NewReplacer(" ", "+", "\t", "+").Replace(text))
}

// haproxyText escapes as HAProxy does.
func haproxyText(text string) string {
	return strings.NewReplacer("{", "#7B", "}", "#7D", "|", "#7C").Replace(
		escaped(text, func(c byte) string { return fmt.Sprintf("#%02X", c) }))
}

func urlText(text string) string {
	return or(escaped(text, func(c byte) string { return fmt.Sprintf("%%%02X", c) }))
}

// checkWriters writes a request among others, the at-th of four, in every format. It is counted for its client, and
// as what it was where the server has escaped it. Otherwise it may be listed as unread.
func checkWriters(t *testing.T, w written, at int) {
	t.Helper()
	usual := written{netip.MustParseAddr("198.51.100.1"), "ann", "/usual", "http://example.com/", "Mozilla/5.0 (X11)"}
	for _, writer := range writers {
		text := writer.head
		for i := range 4 {
			if i == at {
				text += writer.line(w) + "\n"
			} else {
				text += writer.line(usual) + "\n"
			}
		}
		l := open(t, text, accesslog.Options{})
		counted, others := 0, 0
		var e accesslog.Entry
		for l.Next(&e) {
			switch {
			case e.Address == usual.client:
				others++
			case e.Address != w.client:
				t.Errorf("%s: counted for %s:\n%s", writer.format, e.Address, writer.line(w))
			default:
				counted++
				if want := w.target; writer.escapes && (e.Method != "GET" || e.Target != want) {
					t.Errorf("%s: got %s %q, want %q:\n%s", writer.format, e.Method, e.Target, want, writer.line(w))
				}
			}
		}
		listed := 0
		for _, s := range l.Skipped() {
			listed += int(s.Lines)
		}
		if l.Format() != writer.format || others != 3 || counted+listed != 1 || writer.escapes && listed > 0 ||
			l.Counts().Incomplete {
			t.Errorf("%s: taken for %s; counted %d times, listed %d times, and %d of 3 others:\n%s", writer.format,
				l.Format(), counted, listed, others, writer.line(w))
		}
	}
}

func TestWhatAClientSendsChangesNoLine(t *testing.T) {
	for i, piece := range hostile {
		for _, text := range []string{piece, "x" + piece + "y", piece + hostile[(i*7+3)%len(hostile)] + piece} {
			if utf8.ValidString(text) {
				checkWriters(t, sanitized(text, text, text, text, uint64(i)), i/2%4)
			}
		}
	}
}

// sanitized returns what may arrive in a request: no control characters that a server refuses,
// and no blank in the target.
func sanitized(user, target, referer, agent string, client uint64) written {
	clean := func(text, without string) string {
		return strings.Map(func(c rune) rune {
			if c < ' ' && c != '\t' || c == 0x7f || strings.ContainsRune(without, c) {
				return -1
			}
			return c
		}, strings.ToValidUTF8(text, ""))
	}
	addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(client)})
	if client%2 == 1 {
		addr = netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:2::%x:%d", client%0xffff, client%7, client%10000))
	}
	return written{addr, clean(user, ""), "/" + clean(target, " \t"), clean(referer, ""), clean(agent, "")}
}

func FuzzWriters(f *testing.F) {
	for i, piece := range hostile {
		f.Add(piece, piece, piece, piece, uint64(i))
	}
	f.Fuzz(func(t *testing.T, user, target, referer, agent string, client uint64) {
		if len(user)+len(target)+len(referer)+len(agent) > 1000 {
			t.Skip()
		}
		checkWriters(t, sanitized(user, target, referer, agent, client), int(client/2%4))
	})
}
