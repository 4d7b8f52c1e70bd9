package accesslog_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// withOne returns logs of n equal lines and one odd line, at each place in turn.
func withOne(line, odd string, n int) (logs []string) {
	for at := range n + 1 {
		all := make([]string, 0, n+1)
		for i := range n + 1 {
			if i == at {
				all = append(all, odd)
			} else {
				all = append(all, line)
			}
		}
		logs = append(logs, strings.Join(all, "\n")+"\n")
	}
	return logs
}

func open(t testing.TB, text string, o accesslog.Options) *accesslog.Log {
	t.Helper()
	l, err := accesslog.New("access.log", strings.NewReader(text), &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestOneOddLineDecidesNothing(t *testing.T) {
	const traefik = `192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-" 1 "r" "http://10.0.0.2:80" 12ms`
	const combined = `192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"`
	const vhost = `example.com:443 ` + combined
	json := func(time string) string {
		return `{"time":"` + time +
			`","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","status":200,"request_time":0.5}`
	}
	for _, c := range []struct {
		what, line, odd             string
		format                      string
		exact, ends, hosts, entries bool // entries: the odd line is one, too
	}{
		{"Traefik, no server", traefik, strings.Replace(traefik, `"http://10.0.0.2:80"`, "-", 1), "traefik-common",
			false, true, false, true},
		{"Traefik, without its tail", traefik, combined, "traefik-common", false, true, false, true},
		{"nginx, a message", combined, "2024/02/24 12:00:59 [notice] 1#1: start", "combined", false, false, false,
			false},
		{"nginx, damaged", combined, combined[:len(combined)-2], "combined", false, false, false, true},
		{"nginx, one with the tail of Traefik", combined, traefik, "combined", false, false, false, true},
		{"nginx, JSON", combined, json("2024-02-24T12:00:59Z"), "combined", false, false, false, false},
		{"a request that a client has given a host", combined,
			strings.Replace(combined, "GET /a", "GET http://evil.example/a", 1), "combined", false, false, false, true},
		{"virtual hosts", vhost, combined, "vhost-combined", false, false, true, true},
		{"no virtual hosts", combined, vhost, "combined", false, false, false, true},
		{"whole seconds", json("2024-02-24T12:00:59Z"), json("2024-02-24T12:00:59.5Z"), "nginx-json", false, true,
			false, true},
		{"fractions", json("2024-02-24T12:00:59.25Z"), json("2024-02-24T12:00:59Z"), "nginx-json", true, true, false,
			true},
		{"Caddy, a message", caddy(0, ""), `{"level":"info","ts":1708776059.5,"msg":"x"}`, "caddy", true, true, true,
			false},
		{"Caddy, a line of nginx", caddy(0, ""), combined, "caddy", true, true, true, false},
		{"nginx JSON, no duration", json("2024-02-24T12:00:59Z"),
			strings.Replace(json("2024-02-24T12:00:59Z"), "0.5", `"-"`, 1), "nginx-json", false, true, false, true},
	} {
		for at, text := range withOne(c.line, c.odd, 4) {
			l := open(t, text, accesslog.Options{})
			n := len(entriesOf(l, 0))
			want := 4
			if c.entries {
				want++
			}
			if l.Format() != c.format || l.Exact() != c.exact || l.HasEnds() != c.ends || l.HasHost() != c.hosts ||
				n != want || l.Counts().Incomplete {
				t.Errorf("%s, at line %d: format %s, exact %v, durations %v, hosts %v, %d entries", c.what, at+1,
					l.Format(), l.Exact(), l.HasEnds(), l.HasHost(), n)
			}
			if skipped := l.Skipped(); !c.entries &&
				(len(skipped) != 1 || skipped[0].First != int64(at+1) ||
					skipped[0].Text != c.odd[:min(len(c.odd), 160)]) {
				t.Errorf("%s, at line %d: %+v", c.what, at+1, skipped)
			}
		}
	}
}

// A line without its end was cut, also where enough of it is left to tell the request.
func TestALineThatIsCutBehindItsRequestIsNoticed(t *testing.T) {
	const line = `192.0.2.1 - - ` + stamp +
		` "GET /a HTTP/1.1" 200 5 "-" "Mozilla/5.0" 1 "r" "http://10.0.0.2:80" 12ms` + "\n"
	for _, c := range []struct {
		last       string
		incomplete bool
	}{
		{line, false}, {line[:len(line)-1], false}, {line[:len(line)-3], true},
		{line[:strings.Index(line, "lla")], true}, {line[:strings.Index(line, ` "-"`)], true}, {line[:20], true},
	} {
		l := open(t, strings.Repeat(line, 3)+c.last, accesslog.Options{})
		if entriesOf(l, 0); l.Counts().Incomplete != c.incomplete {
			t.Errorf("%q: incomplete is %v, want %v", c.last, l.Counts().Incomplete, c.incomplete)
		}
	}
}

func TestALogWithoutRequestsIsReadIfItsFormatIsCertain(t *testing.T) {
	const message = `{"level":"info","ts":1708776059.5,"msg":"x"}` + "\n"
	for _, c := range []struct{ text, format, want string }{
		{"#Software: IIS\n#Fields: date time c-ip\n", "", "w3c"},
		{"#Fields: date time x-edge-location c-ip\n", "", "cloudfront"},
		{message, "caddy", "caddy"},
		{message, "", ""},
		{"#Software: IIS\n", "", ""},
		{message, "combined", ""},
	} {
		l, err := accesslog.New("access.log", strings.NewReader(c.text), &accesslog.Options{Format: c.format})
		if (err == nil) != (c.want != "") || err == nil && l.Format() != c.want {
			t.Errorf("%q as %q: got %v, %v; want %s", c.text, c.format, l, err, c.want)
		}
	}
}

func TestTextInUTF16SaysWhatToDo(t *testing.T) {
	for _, text := range []string{"\xff\xfe1\x009\x00", "\xfe\xff\x001\x009"} {
		if _, err := accesslog.New("access.log", strings.NewReader(text), &accesslog.Options{}); err == nil ||
			!strings.Contains(err.Error(), "iconv -f UTF-16") {
			t.Errorf("got %v", err)
		}
	}
}

// A format that is named leaves nothing to be decided by line.
func TestAFormatThatIsNamedIsThatOfEachLine(t *testing.T) {
	// a virtual host that is an address
	const line = `203.0.113.9 192.0.2.1 - - ` + stamp + ` "GET /a HTTP/1.1" 200 5 "-" "-"` + "\n"
	for format, want := range map[string]string{
		"": "192.0.2.1", "vhost-combined": "192.0.2.1", "vhost-common": "192.0.2.1", "combined": "203.0.113.9",
		"common": "203.0.113.9",
	} {
		l := open(t, line, accesslog.Options{Format: format})
		if got := entriesOf(l, 0); len(got) != 1 || !strings.Contains(got[0], " "+want+" ") ||
			format != "" && l.Format() != format {
			t.Errorf("%q: got %q", format, got)
		}
	}
}

func TestSeveralLinesOfAHeaderStayApart(t *testing.T) {
	l := open(t, caddy(0, `"X-Tenant":["a","b"],"Cookie":["c=1"]`),
		accesslog.Options{Extras: []string{"header.X-Tenant", "header.Cookie"}})
	if got := entriesOf(l, 2); len(got) != 1 || !strings.HasSuffix(got[0], ` "a\nb" "c=1"`) {
		t.Errorf("got %q", got)
	}
}

// A duration of whole seconds among fractions is not of milliseconds.
func TestOneUnitIsThatOfAllDurations(t *testing.T) {
	for text, want := range map[string]string{"2 0.033": "2s 33ms", "0.033 2": "33ms 2s", "2 33": "2ms 33ms"} {
		log := "#Fields: date time cs-method cs-uri-stem c-ip time-taken\n"
		for lasted := range strings.FieldsSeq(text) {
			log += "2024-02-24 12:00:59 GET /a 192.0.2.1 " + lasted + "\n"
		}
		var got []string
		for _, entry := range entriesOf(open(t, log, accesslog.Options{}), 0) {
			_, lasted, _ := strings.Cut(entry, "took=")
			got = append(got, strings.TrimSuffix(lasted, " ±1s"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %s", text, got, want)
		}
	}
}
