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
		if format != s.format || len(entries) != 2 || counts.Unread() != 2 || counts.Binary < 1 {
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
		{samples[0].text, accesslog.Options{Format: "apache"}, "formats are auto, actix"},
		{samples[0].text, accesslog.Options{Fields: map[string]string{"adress": "x"}}, `there is no field "adress"`},
		{samples[0].text,
			accesslog.Options{Format: "common", Extras: []string{"key.user"}, Fields: map[string]string{"key.user": "sub"}},
			`has no field "sub"`},
		{`{"ts":1,"ip":"192.0.2.1"}`, accesslog.Options{Format: "jsonl"}, "by --field time=NAME,address=NAME"},
		{`{"ts":1,"ip":"192.0.2.1"}`, accesslog.Options{Format: "jsonl", Fields: map[string]string{"time": "t"}},
			`with a time in the field "t"`},
		{strings.Repeat("a", 5<<20) + "\n", accesslog.Options{}, "are empty or longer than 262144 bytes"},
		{"\n \n\n", accesslog.Options{}, "are empty or longer than 262144 bytes"},
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
