package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// logOf returns a log in the common format: n requests of one client in one second, on a
// day such as 20/Nov/2026.
func logOf(n int, day string) string {
	return strings.Repeat(fmt.Sprintf("203.0.113.7 - - [%s:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n", day), n)
}

// gzipped returns text as a file of gzip.
func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.Bytes()
}

// put writes a file into dir and returns its path.
func put(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// As with zcat and grep, what could be read is printed, and scripts see a failure.
func TestALogThatIsCutIsReportedAndFails(t *testing.T) {
	dir := t.TempDir()
	whole := gzipped(logOf(10, "20/Nov/2026"))
	fine := put(t, dir, "fine.gz", whole)
	cut := put(t, dir, "cut.gz", whole[:len(whole)-8]) // without its checksum
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{fine}, exitDone},
		{[]string{cut}, exitUnusable},
		{[]string{fine, cut}, exitUnusable},
		{[]string{"--json", cut}, exitUnusable},
		{[]string{"--fail-if", "denied > 90%", cut}, exitUnusable},
		{[]string{"--fail-if", "denied > 1%", fine}, exitFound},
		{[]string{"--fail-if", "denied > 1%", cut}, exitUnusable}, // of the whole log, it may be less
	} {
		var out, errOut bytes.Buffer
		got := run(append([]string{"simulate", "--limit", "5/minute"}, c.args...), nil, &out, &errOut)
		if got != c.want || !strings.Contains(out.String(), "requests") {
			t.Errorf("%q: exit code %d, want %d\n%s%s", c.args, got, c.want, &out, &errOut)
		}
		if named := strings.Contains(errOut.String(), "cut.gz ends early"); named != (c.want == exitUnusable) {
			t.Errorf("%q: printed %q", c.args, &errOut)
		}
	}
}

// spreadOver returns a log in the common format: n requests of some clients, a second apart.
func spreadOver(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		at := time.Date(2026, time.November, 20, 12, 0, i, 0, time.UTC).Format("02/Jan/2006:15:04:05 -0700")
		lines[i] = fmt.Sprintf("203.0.113.%d - - [%s] \"GET / HTTP/1.1\" 200 5\n", i%3, at)
	}
	return lines
}

// simulated runs simulate with a limit of 5 an hour.
func simulated(args ...string) (code int, out, errOut string) {
	var printed, failed bytes.Buffer
	code = run(append([]string{"simulate", "--limit", "5/hour"}, args...), nil, &printed, &failed)
	return code, printed.String(), failed.String()
}

// A copy that broke off, or a filter that was ended, leaves a part of a line.
func TestALogThatIsCutWithinItsLastLineFails(t *testing.T) {
	dir := t.TempDir()
	whole := strings.Join(spreadOver(100), "")
	for name, c := range map[string]struct {
		log  []byte
		want int
	}{
		"whole":               {[]byte(whole), exitDone},
		"no end of line":      {[]byte(whole[:len(whole)-1]), exitDone}, // nothing is missing
		"cut":                 {[]byte(whole[:len(whole)-20]), exitUnusable},
		"cut, compressed":     {gzipped(whole[:len(whole)-20]), exitUnusable},
		"a damaged line":      {[]byte(whole + "damaged\n"), exitDone},
		"cut and very long":   {[]byte(whole + strings.Repeat("x", 1<<19)), exitUnusable},
		"very long, complete": {[]byte(whole + strings.Repeat("x", 1<<19) + "\n"), exitDone},
	} {
		code, out, errOut := simulated(put(t, dir, name, c.log))
		if code != c.want || !strings.Contains(out, "requests") || (c.want == exitDone) != (errOut == "") {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.want, errOut)
		}
	}
}

// A shuffled log denied nobody, and the exit code said that all was well.
func TestALogThatIsOutOfOrderIsRefused(t *testing.T) {
	dir := t.TempDir()
	fine := spreadOver(3600)
	random := rand.New(rand.NewPCG(1, 2))
	shuffled := slices.Clone(fine)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	reversed := slices.Clone(fine)
	slices.Reverse(reversed)
	mixed := []string{} // each other line is half an hour later
	for i := range 1800 {
		mixed = append(mixed, fine[i], fine[i+1800])
	}
	late := slices.Clone(fine)
	late[1000], late[1119] = late[1119], late[1000] // within two minutes
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"sorted":   {fine, exitDone},
		"late":     {late, exitDone},
		"shuffled": {shuffled, exitUnusable},
		"reversed": {reversed, exitUnusable},
		"mixed":    {mixed, exitUnusable},
		"few":      {shuffled[:20], exitUnusable},
	} {
		code, out, errOut := simulated(put(t, dir, name, []byte(strings.Join(c.lines, ""))))
		if code != c.want || (c.want == exitUnusable) != strings.Contains(errOut, "out of order") ||
			(c.want == exitUnusable) != (out == "") {
			t.Errorf("%s: exit code %d, want %d: %s%s", name, code, c.want, out, errOut)
		}
	}
}

// Durations in another unit put requests out of order whose stamps are in order.
func TestDurationsInAnotherUnitAreNotADisorder(t *testing.T) {
	var b strings.Builder
	for i := range 120 {
		took := 12
		if i%2 == 1 {
			took = 7000
		}
		fmt.Fprintf(&b, `{"time":%d,"ip":"203.0.113.9","m":"GET","p":"/","took":%d}`+"\n", 1795867259000+i*250, took)
	}
	log := put(t, t.TempDir(), "app.jsonl", []byte(b.String()))
	fields := "time=time,address=ip,method=m,path=p,duration=took"
	for unit, want := range map[string]string{
		"s":  "the stamps are in order, but less their durations, of up to 1h56m40s",
		"ms": "The longest duration was read as 7s.", "us": "The longest duration was read as 7ms.",
		"": "the durations in the field took are numbers, such as 7000",
	} {
		code, out, errOut := simulated("--format", "jsonl", "--field", fields, "--duration-unit", unit, log)
		if !strings.Contains(out+errOut, want) || strings.Contains(errOut, "out of order") ||
			(code == exitDone) != (unit == "ms" || unit == "us") {
			t.Errorf("%q: exit code %d: %s%s", unit, code, out, errOut)
		}
	}
}

func TestOneLogDoesNotCountTwice(t *testing.T) {
	dir := t.TempDir()
	text := strings.Join(spreadOver(100), "")
	log := put(t, dir, "access.log", []byte(text))
	link := filepath.Join(dir, "link.log")
	if err := os.Symlink(log, link); err != nil {
		t.Skip(err)
	}
	for _, twice := range [][]string{{log, log}, {log, dir + "/./access.log"}, {log, link}} {
		if code, out, errOut := simulated(twice...); code != exitUnusable || out != "" ||
			!strings.Contains(errOut, "name it once") {
			t.Errorf("%q: exit code %d: %s%s", twice, code, out, errOut)
		}
	}
	code, out, errOut := simulated(log, put(t, dir, "copy.gz", gzipped(text)))
	if code != exitDone || !strings.Contains(out, "have the same text") {
		t.Errorf("a compressed copy: exit code %d: %s%s", code, out, errOut)
	}
	if _, out, _ := simulated(log, put(t, dir, "other.log", []byte(text+spreadOver(1)[0]))); strings.Contains(out,
		"same text") {
		t.Errorf("two logs: %s", out)
	}
	empty := put(t, dir, "empty", nil)
	if code, out, _ := simulated(log, empty, put(t, dir, "empty too", nil)); code != exitDone ||
		strings.Contains(out, "same text") {
		t.Errorf("two empty logs: exit code %d: %s", code, out)
	}
}

func TestClientsWithTheNameOfAHostAreSaidToBeLeftOut(t *testing.T) {
	lines := spreadOver(100)
	for i := range lines {
		if i%5 == 0 {
			lines[i] = strings.Replace(lines[i], "203.0.113.", "host.example.", 1)
		}
	}
	_, out, _ := simulated(put(t, t.TempDir(), "access.log", []byte(strings.Join(lines, ""))))
	if !strings.Contains(out, "Note: 20 of 100 lines name no address of a client") {
		t.Errorf("got %s", out)
	}
}

// Nobody believes figures of a log of which a part is missing, unless it is said which.
func TestTheFirstLineOfEachKindThatIsNotReadIsShown(t *testing.T) {
	dir := t.TempDir()
	lines := spreadOver(20)
	insert := func(at int, more ...string) { lines = slices.Insert(lines, at, more...) }
	insert(15, "damaged\n", "damaged, too\n")
	insert(10, strings.Replace(lines[3], "GET / HTTP/1.1", `\x16\x03\x01`, 1),
		strings.Replace(lines[4], "GET / HTTP/1.1", "-", 1))
	insert(5, strings.Replace(lines[2], "203.0.113.", "host.example.", 1), "bin\x01ary\n")
	one := put(t, dir, "one.log", []byte(strings.Join(lines, "")))
	code, out, _ := simulated(one)
	want := "1 log, common; 3 lines unread, 2 without a request, 1 without an address\n" +
		"  line 20 and 1 more: it is not in the format common\n  line 7: it has bytes that no text has\n" +
		"  line 6: it has no address of a client\n  line 13 and 1 more: what the client sent is no request\n\n"
	if code != exitDone || !strings.Contains(out, want) {
		t.Errorf("exit code %d, want\n%sgot\n%s", code, want, out)
	}
	fine := put(t, dir, "fine.log", []byte(strings.Join(spreadOver(20), "")))
	_, out, _ = simulated("--show-keys", fine, one, put(t, dir, "two.log", []byte(strings.Join(lines[:19], ""))))
	for _, want := range []string{
		"line 20 of " + one + " and 1 more: it is not in the format common: damaged\n",
		"line 6 of " + one + " and 1 more: it has no address of a client: host.example.2 - - [20/Nov/2026:12:00:02 " +
			"+0000] \"GET / HTTP/1.1\" 200 5\n",
		"line 7 of " + one + " and 1 more: it has bytes that no text has: bin\ufffdary\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q, got\n%s", want, out)
		}
	}
	if code, _, errOut := simulated(put(t, dir, "none.log", []byte(lines[5]))); code != exitUnusable ||
		!strings.Contains(errOut, "1 without an address; line 1: it has no address of a client") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

func TestOneLineWithoutAServerHidesNoDurations(t *testing.T) {
	log := ""
	for i := range 50 {
		server := `"http://10.0.0.2:80"`
		if i == 7 {
			server = "-"
		}
		log += strings.TrimSuffix(spreadOver(50)[i], "\n") +
			fmt.Sprintf(" \"-\" \"-\" %d \"router\" %s 2500ms\n", i, server)
	}
	var out, errOut bytes.Buffer
	code := run([]string{"simulate", "--limit", "concurrent 1", put(t, t.TempDir(), "access.log", []byte(log))},
		nil, &out, &errOut)
	if code != exitDone || !strings.Contains(out.String(), "1 log, traefik-common; 0 lines unread") ||
		strings.Contains(out.String(), "Not simulated") {
		t.Errorf("exit code %d: %s%s", code, &out, &errOut)
	}
}

// One request with a host in its target made all hosts known, so rules of hosts were simulated
// with none.
func TestAClientCannotGiveALogHosts(t *testing.T) {
	dir := t.TempDir()
	lines := spreadOver(20)
	lines[3] = strings.Replace(lines[3], "GET /", "GET http://evil.example/", 1)
	code, out, errOut := simulated("--match", "api.example/",
		put(t, dir, "access.log", []byte(strings.Join(lines, ""))))
	if code != exitUnusable || !strings.Contains(out, "a pattern of it has a host, and the log has none") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// Of 100 requests 20 are logins, of which 15 are denied: 75%, not 15%.
func TestTheShareOfARuleIsOfWhatItAppliesTo(t *testing.T) {
	lines := spreadOver(100)
	for i := range lines {
		lines[i] = strings.Replace(lines[i], "203.0.113."+fmt.Sprint(i%3), "203.0.113.7", 1)
		if i%5 == 0 {
			lines[i] = strings.Replace(lines[i], "GET /", "POST /login", 1)
		}
	}
	_, out, _ := simulated("--match", "POST /login", "--ladder",
		put(t, t.TempDir(), "access.log", []byte(strings.Join(lines, ""))))
	if !strings.Contains(out, "20           15       75.0%") || strings.Contains(out, "15.0%") {
		t.Errorf("got %s", out)
	}
}

// unread is an input that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the log was read")
	return 0, io.EOF
}

// A log may take minutes to read.
func TestARuleThatDoesNotExistIsFoundBeforeTheLogIsRead(t *testing.T) {
	dir := t.TempDir()
	file := put(t, dir, "weir.yaml",
		[]byte("version: 1\nclient: {peer: true}\nrules: [{name: per-client, key: address, limit: 5/minute}]\n"))
	for _, args := range [][]string{
		{"--fail-if", "denied(per-cleint) > 1%"},
		{"--fail-if", "denied(per-client) > 1%", "--fail-if", "wait(other) > 1s"},
		{"--suggest", "denied < 1%", "--rule", "per-cleint"},
	} {
		var out, errOut bytes.Buffer
		code := run(append([]string{"simulate", "--policy", file, "-"}, args...), unread{t}, &out, &errOut)
		if code != exitUnusable || out.Len() > 0 || !strings.Contains(errOut.String(), "its rules are per-client") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, &out, &errOut)
		}
	}
}

func TestOverridesEndByTheTimeOfTheLog(t *testing.T) {
	dir := t.TempDir()
	file := put(t, dir, "weir.yaml", []byte(`version: 1
client: {peer: true}
rules:
- name: per-client
  key: address
  limit: fixed-window 1/minute
  overrides: [{for: {address: 203.0.113.7}, limit: fixed-window 8/minute, until: 2019-03-02}]
`))
	for _, c := range []struct {
		name, log string
		denied    string
		ended     bool
	}{
		{"before", logOf(10, "01/Mar/2019"), "2", false},
		{"after", logOf(10, "02/Mar/2019"), "9", true},
		{"across", logOf(10, "01/Mar/2019") + logOf(10, "02/Mar/2019"), "11", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := run(
				[]string{"simulate", "--policy", file, "--fail-if", "denied > 1%", "--json",
					put(t, dir, c.name, []byte(c.log))}, nil, &out, &errOut); code != exitFound {
				t.Fatalf("exit code %d: %s", code, &errOut)
			}
			want := `"denied": {` + "\n" + `          "low": ` + c.denied + ","
			if !strings.Contains(out.String(), want) {
				t.Errorf("want %s denied:\n%s", c.denied, &out)
			}
			if ended := strings.Contains(out.String(), "the override ended"); ended != c.ended {
				t.Errorf("the report says that the override has ended: %v, want %v", ended, c.ended)
			}
			if n := strings.Count(out.String(), "weir.yaml:7:15: rule"); c.ended &&
				(n != 1 || strings.Contains(out.String(), file+": "+file)) {
				t.Errorf("the note names the file twice, or no line of it:\n%s", &out)
			}
		})
	}
}

// A name may have an end of a line, which would begin a message of its own, and what a
// terminal obeys.
func TestNamesOfFilesAreQuotedInMessages(t *testing.T) {
	const evil = "a\x1b[31m\nweir: fine\u202e"
	if runtime.GOOS == "windows" {
		t.Skip("names of files have no such characters")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	policy := "version: 1\nclient: {peer: true}\nrules: [{name: per-client, key: address, limit: 5/minute}]\n"
	for name, text := range map[string]string{
		"policy": policy, "bad": "version: 2\n", "log": logOf(10, "20/Nov/2026") + "damaged\n", "text": "hello\n",
		"cases": "cases: 1\n", "credentials": "hello\n",
	} {
		put(t, dir, evil+name, []byte(text))
	}
	put(t, dir, "weir.yaml", []byte(policy))
	put(t, dir, "access.log", []byte(logOf(10, "20/Nov/2026")))
	put(t, dir, evil+"cut", gzipped(logOf(10, "20/Nov/2026"))[:40])
	if err := os.Mkdir(evil+"dir", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", evil + "policy"},
		{"check", evil + "bad"},
		{"check", evil + "nowhere"},
		{"check", evil + "dir"},
		{"check", "--cases", evil + "cases", "weir.yaml"},
		{"explain", "--policy", evil + "nowhere", "/"},
		{"explain", "--policy", evil + "bad", "/"},
		{"explain", "--policy", "weir.yaml", "--headers", evil + "nowhere", "/"},
		{"explain", "--policy", "weir.yaml", "--headers", evil + "text", "/"},
		{"explain", "--url", "127.0.0.1:1", "--credentials", evil + "nowhere", "/"},
		{"explain", "--url", "127.0.0.1:1", "--credentials", evil + "credentials", "/"},
		{"convert", "nginx", evil + "nowhere"},
		{"convert", "nginx", evil + "text"},
		{"convert", "ingress-nginx", evil + "text"},
		{"simulate", "--policy", evil + "nowhere", "access.log"},
		{"simulate", "--policy", evil + "dir", "access.log"},
		{"simulate", "--policy", evil + "bad", "access.log"},
		{"simulate", "--policy", "weir.yaml", "--against", evil + "policy", "access.log"},
		{"simulate", "--limit", "5/minute", evil + "nowhere"},
		{"simulate", "--limit", "5/minute", evil + "dir"},
		{"simulate", "--limit", "5/minute", evil + "text"},
		{"simulate", "--limit", "5/minute", evil + "cut"},
		{"simulate", "--limit", "5/minute", evil + "log", "access.log"},
		{"simulate", "--limit", "5/minute", "--html", evil + "log", evil + "log"},
		{"simulate", "--limit", "5/minute", "--html", evil + "dir", "access.log"},
		{"simulate", "--limit", "5/minute", "--html", evil + "nowhere/page.html", "access.log"},
	} {
		var out, errOut bytes.Buffer
		run(args, strings.NewReader(""), &out, &errOut)
		all := out.String() + errOut.String()
		if strings.Contains(all, "\nweir: fine") || strings.ContainsFunc(all, func(c rune) bool {
			return c != '\n' && (c == unicode.ReplacementChar || !unicode.IsGraphic(c))
		}) {
			t.Errorf("%q: a name is printed as it is:\n%q", args, all)
		}
		if !strings.Contains(all, `"a\x1b[31m\nweir: fine\u202e`) {
			t.Errorf("%q: the name is not printed:\n%s", args, all)
		}
	}
}
