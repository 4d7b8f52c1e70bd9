package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// weir is the command weir, which is built once. TestMain removes its directory.
var weir struct {
	once      sync.Once
	directory string
	err       error
}

// weirCommand returns the path of the command weir.
func weirCommand(t *testing.T) string {
	t.Helper()
	weir.once.Do(func() {
		if weir.directory, weir.err = os.MkdirTemp("", "weir"); weir.err != nil {
			return
		}
		build := testrun.Command(t, "go", "build", "-o", weir.directory+"/", ".")
		build.Dir = "../../../cmd/weir"
		if said, err := build.CombinedOutput(); err != nil {
			weir.err = fmt.Errorf("go build: %w\n%s", err, said)
		}
	})
	if weir.err != nil {
		t.Fatal(weir.err)
	}
	return filepath.Join(weir.directory, "weir")
}

// simulate runs weir simulate in the root of the repository, and returns what it prints.
func simulate(t *testing.T, args ...string) string {
	t.Helper()
	c := testrun.Command(t, weirCommand(t), append([]string{"simulate"}, args...)...)
	c.Dir = "../../.."
	said, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("weir simulate %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return string(said)
}

// fourDays is a log of four days: sixty clients ask now and then, and one asks for ninety in a
// minute, so that few requests of many are denied. One has a script for a name.
func fourDays(t *testing.T) string {
	t.Helper()
	begun := time.Date(2026, 11, 17, 10, 5, 0, 0, time.UTC)
	var log strings.Builder
	line := func(at time.Time, client int) {
		fmt.Fprintf(&log, "198.51.%d.7 - - [%s] \"GET /<script>alert(1)</script> HTTP/1.1\" 200 5 \"-\" \"<img src=x "+
			"onerror=alert(2)>\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	for i := range 8 * 60 {
		at := begun.Add(time.Duration(i) * 10 * time.Minute)
		for n := range 1 + i%13 {
			line(at.Add(time.Duration(n)*time.Second), (i*7+n)%60)
		}
		if i == 300 {
			for n := range 90 {
				line(at.Add(time.Minute+time.Duration(n)*500*time.Millisecond), 200)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// openReport opens the page of a simulation.
func openReport(t *testing.T, args ...string) *tab {
	t.Helper()
	page := filepath.Join(t.TempDir(), "report.html")
	simulate(t, append([]string{"--html", page}, args...)...)
	server := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, page) }))
	t.Cleanup(server.Close)
	b := openAt(t, server.URL+"/report")
	b.until("its charts are drawn", `document.querySelectorAll('#time svg, #peaks svg').length === 2`)
	return b
}

func TestTheReportIsReadableAtAnyWidth(t *testing.T) {
	dir := t.TempDir()
	policies := map[string]string{
		"weir.yaml": "version: 1\nclient: {peer: true}\nrules:\n" +
			"  - {name: per-client, key: address, limit: 30/minute}\n  - {name: quota, key: address, limit: " +
			"fixed-window 60/day}\n" +
			"  - {name: agents, key: header User-Agent, limit: 100/minute, mode: shadow}\n  - {name: tenants, key: header " +
			"X-Tenant, limit: 100/minute}\n",
		"before.yaml": "version: 1\nclient: {peer: true}\nrules:\n  - {name: per-client, key: address, limit: 50/minute}\n",
	}
	for name, text := range policies {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := openReport(t, "--policy", filepath.Join(dir, "weir.yaml"), "--against", filepath.Join(dir, "before.yaml"),
		"--ladder", fourDays(t))
	var labels string
	for _, width := range []int64{1400, 700, 390, 320} { // 700 is 1400 at 200%
		b.size(width)
		b.drawn()
		b.fits(width)
		b.readable(strconv.FormatInt(width, 10) + " wide")
		if cut := value[string](b,
			`[...document.querySelectorAll('svg text')].filter(e => { const r = e.getBoundingClientRect(); return r.left < 0 `+
				`|| r.right > innerWidth + 1 || r.width === 0; }).map(e => e.textContent).join()`); cut != "" {
			t.Errorf("%d wide: labels are cut: %s", width, cut)
		}
		if close := value[string](b,
			`[...document.querySelectorAll('#time svg, #peaks svg')].flatMap(svg => { const all = `+
				`[...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]); return all.flatMap(([a, `+
				`p], i) => all.slice(i + 1).filter(([, q]) => p.left < q.right && q.left < p.right && p.top + 3 < q.bottom && `+
				`q.top + 3 < p.bottom).map(([c]) => a + ' and ' + c)); }).join()`); close != "" {
			t.Errorf("%d wide: labels are on each other: %s", width, close)
		}
		if hidden := value[string](b,
			`[...document.querySelectorAll('.cards td')].filter(e => !e.dataset.label || innerWidth < 700 && `+
				`getComputedStyle(e, '::before').content !== JSON.stringify(e.dataset.label)).map(e => `+
				`e.textContent).join()`); hidden != "" {
			t.Errorf("%d wide: numbers of rules have no label: %s", width, hidden)
		}
		if small := value[string](b,
			`[...document.querySelectorAll('.bar')].filter(e => e.closest('details:not([open])') === null && `+
				`e.getBoundingClientRect().width < 30).map(e => e.parentElement.textContent).join()`); small != "" {
			t.Errorf("%d wide: bars have vanished: %s", width, small)
		}
		// Ticks of days stand at midnight, where the bar of midnight begins.
		days := value[string](b,
			`[...document.querySelectorAll('#time .tick')].filter(e => /Nov/.test(e.textContent)).map(e => e.textContent + ' `+
				`' + e.dataset.at.slice(11)).join()`)
		if want := "18 Nov 00:00:00.000Z,19 Nov 00:00:00.000Z,20 Nov 00:00:00.000Z"; days != want {
			t.Errorf("%d wide: the days are %s, want %s", width, days, want)
		}
		if off := value[string](b, `(() => {
			const data = JSON.parse(document.getElementById('data').textContent), columns = [...document.querySelectorAll('#time .asked')].map(e => +e.getAttribute('x')), first = Date.parse(data.bars[0].at);
			return [...document.querySelectorAll('#time .tick')].filter(e => { const n = (Date.parse(e.dataset.at) - first) / 1000 / data.barSeconds; return Number.isInteger(n) && n < data.bars.length && data.bars[n].asked > data.bars[n].denied.high && Math.min(...columns.map(x => Math.abs(x - e.getAttribute('x')))) > .01; }).map(e => e.textContent).join();
		})()`); off != "" {
			t.Errorf("%d wide: ticks stand beside their bars: %s", width, off)
		}
		labels += value[string](b, `document.querySelectorAll('#time .tick').length + ' '`)
	}
	t.Logf("ticks at 1400, 700, 390 and 320: %s", labels)
	b.shotReport("simulate-policy")
}

// What little is denied is seen: it has a scale of its own.
func TestFewDenialsAreSeen(t *testing.T) {
	b := openReport(t, "--limit", "60/minute", fourDays(t))
	b.size(390)
	b.drawn()
	if highest := value[float64](b,
		`Math.max(...[...document.querySelectorAll('#time .denied, #time .maybe')].map(e => `+
			`e.getBoundingClientRect()).filter(r => r.bottom > [...document.querySelectorAll('#time text')].find(e => `+
			`e.textContent === 'denied alone').getBoundingClientRect().bottom).map(r => r.height))`); highest < 25 {
		t.Errorf("the highest bar of denials alone is %v high", highest)
	}
	for _, share := range value[[]string](b, `[...document.body.innerText.matchAll(/[\\d.]+%[^\\n]*/g)].map(m => m[0])`) {
		if !regexp.MustCompile(`% of `).MatchString(share) && !strings.Contains(share, "%\n") {
			next := value[string](b, `document.querySelector('.figures').innerText.replace(/\\s+/g, ' ')`)
			if !strings.Contains(next, share+" of requests denied") {
				t.Errorf("the share %q does not say of what", share)
			}
		}
	}
	if n := value[int](b, `document.querySelectorAll('img, main script').length`); n != 0 {
		t.Errorf("%d elements come from the log", n)
	}
	b.shotReport("simulate")
}

// The page has no number of denials that the engine would not confirm.
func TestTheReportQuotesWhatTheEngineDenies(t *testing.T) {
	log := fourDays(t)
	denied := func(limit string) string {
		var r struct {
			Policy struct{ Denied struct{ Low, High int64 } }
		}
		if err := json.Unmarshal([]byte(simulate(t, "--json", "--limit", limit, log)), &r); err != nil {
			t.Fatal(err)
		}
		d := r.Policy.Denied
		if d.Low == d.High {
			return strconv.FormatInt(d.Low, 10)
		}
		return fmt.Sprintf("%d–%d", d.Low, d.High)
	}
	readout := func(b *tab, line string) string {
		b.write("#number", line)
		return value[string](b, `document.getElementById('peaks-readout').textContent`)
	}
	sliding := openReport(t, "--limit", "60/minute", "--ladder", log)
	for line, want := range map[string]string{
		"60":  "sliding-window 60/1m denies " + denied("60/minute") + " of ",
		"30":  "sliding-window 30/1m alone would deny " + denied("30/minute") + " of ",
		"120": "sliding-window 120/1m alone would deny 0 of ",
	} {
		if got := readout(sliding, line); !strings.Contains(got, want) {
			t.Errorf("at %s it says %q, want %q", line, got, want)
		}
	}
	if got := readout(sliding, "50"); strings.Contains(got, "den") ||
		!strings.HasPrefix(got, "1 of 61 keys asks for more than 50 in a minute.") {
		t.Errorf("for a limit that was not decided by it says %q", got)
	}
	fixed := openReport(t, "--limit", "fixed-window 60/minute", log)
	for _, line := range []string{"40", "71"} {
		if got, want := readout(fixed,
			line), "As a fixed window alone it would deny "+denied("fixed-window "+line+"/minute")+" of "+
			""; !strings.Contains(got, want) {
			t.Errorf("at %s it says %q, want %q", line, got, want)
		}
	}
}

func TestTheReportIsUsedByKeyboard(t *testing.T) {
	b := openReport(t, "--limit", "30/minute", fourDays(t))
	var reached []string
	for range 30 {
		b.key(kb.Tab)
		at := value[string](b,
			`(e => e === document.body ? '' : (e.getAttribute('aria-label') || e.id || e.textContent).trim().slice(0, 40) + `+
				`(getComputedStyle(e).outlineStyle === 'none' ? ' (no focus to be seen)' : ''))(document.activeElement)`)
		if at == "" || len(reached) > 0 && at == reached[0] {
			break
		}
		reached = append(reached, at)
	}
	all := strings.Join(reached, "\n")
	for _, want := range []string{"Requests over time", "number", "Line, on a logarithmic scale", "per-address: 1 of",
		"1 log"} {
		if !strings.Contains(all, want) {
			t.Errorf("the keyboard does not reach %q:\n%s", want, all)
		}
	}
	if strings.Contains(all, "no focus to be seen") {
		t.Errorf("the focus cannot be seen:\n%s", all)
	}
	for selector, readout := range map[string]string{"#time": "time-readout", "#slider": "peaks-readout"} {
		before := value[string](b, `document.getElementById('`+readout+`').textContent`)
		b.do("focus", chromedp.Focus(chromedp.CSS(selector)))
		b.key(kb.ArrowLeft)
		if after := value[string](b, `document.getElementById('`+readout+`').textContent`); after == before {
			t.Errorf("an arrow key on %s changes nothing: %q", selector, after)
		}
	}
	// prefers-reduced-motion has nothing to stop
	if moving := value[int](b, `document.getAnimations().length`); moving != 0 {
		t.Errorf("%d things move by themselves", moving)
	}
}

// twoClients is a log of 100 seconds: one client asks three times a second, and one every three seconds.
func twoClients(t *testing.T) string {
	t.Helper()
	var log strings.Builder
	for i := range 300 {
		at := time.Date(2026, 11, 20, 12, 0, i/3, 0, time.UTC).Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&log, "203.0.113.77 - - [%s] \"GET /a HTTP/1.1\" 200 5 \"-\" \"an agent\"\n", at)
		if i%10 == 0 {
			fmt.Fprintf(&log, "2001:db8:1:2:3::4 - - [%s] \"POST /login HTTP/1.1\" 429 5 \"-\" \"an agent\"\n", at)
		}
	}
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheReportDrawsTheOtherPolicyToo(t *testing.T) {
	dir := t.TempDir()
	current := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(current, []byte("version: 1\nclient: {peer: true}\nrules:\n"+
		"  - {name: current, key: address, limit: 90/minute}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string][]string{"alone": nil, "compared": {"--against", current, "--ladder"}} {
		t.Run(name, func(t *testing.T) {
			b := openReport(t, append(append([]string{"--limit", "60/minute"}, other...), twoClients(t))...)
			for _, drawn := range []string{"#peaks .limit", "#peaks .over", "#time .asked"} {
				if value[int](b, `document.querySelectorAll('`+drawn+`').length`) == 0 {
					t.Errorf("%s is not drawn", drawn)
				}
			}
			if before := value[int](b, `document.querySelectorAll('#time .before').length`); before > 0 != (other != nil) {
				t.Errorf("the other policy is drawn with %d elements", before)
			}
			for id, want := range map[string]string{
				"time-readout": `^.* asked, .* denied`,
				"peaks-readout": `^1 of 2 keys asks for more than 60 in a minute\. ` +
					`sliding-window 60/1m denies [0-9–]+ of 330 requests, of 1 key\.$`,
			} {
				got := value[string](b, `document.getElementById('`+id+`').textContent`)
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("%s says %q, want %s", id, got, want)
				}
			}
		})
	}
}

func TestTheLineOfTheReportIsDragged(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nclient: {peer: true}\nrules:\n"+
		"  - {name: per-client, key: address, limit: 60/minute}\n"+
		"  - {name: agents, key: header User-Agent, limit: 100/minute, mode: shadow}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openReport(t, "--policy", policy, "--ladder", twoClients(t))
	says := func(what, want string) {
		t.Helper()
		if got := value[string](b, `document.getElementById('peaks-readout').textContent`); !strings.HasPrefix(got, want) {
			t.Errorf("%s it says %q, want %q", what, got, want)
		}
	}
	line := func() float64 { return value[float64](b, `+document.getElementById('number').value`) }
	says("first", "1 of 2 keys asks for more than 60 in a minute. ")
	b.do("show the line", chromedp.ScrollIntoView(chromedp.CSS("#peaks")))
	grip := value[struct{ X, Y float64 }](b,
		`(({x, y}) => ({X: x + 50, Y: y + 22}))(document.querySelector('#peaks .hold').getBoundingClientRect())`)
	mouse := func(event input.DispatchMouseEventType, down float64) {
		command(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: event, X: grip.X, Y: grip.Y + down, Button: input.MouseButtonLeft, ClickCount: 1})
	}
	mouse(input.DispatchMouseEventTypeMousePressed, 0)
	mouse(input.DispatchMouseEventTypeMouseMoved, 40)
	dragged := line()
	if dragged <= 1 || dragged >= 60 {
		t.Errorf("the line is at %v after it was dragged down from 60", dragged)
	}
	mouse(input.DispatchMouseEventTypeMouseReleased, 40)
	mouse(input.DispatchMouseEventTypeMouseMoved, 0)
	if after := line(); after != dragged {
		t.Errorf("the line goes on to %v after it was let go at %v", after, dragged)
	}
	b.do("focus", chromedp.Focus(chromedp.CSS("#slider")))
	b.key(kb.Home)
	says("at the slider's begin", "2 of 2 keys ask for more than 1 in a minute.")
	b.write("#number", "7")
	says("at 7", "2 of 2 keys ask for more than 7 in a minute.")
	b.write("#number", "120")
	says("at a rung", "1 of 2 keys asks for more than 120 in a minute. sliding-window 120/1m alone would deny ")
	b.do("focus", chromedp.Focus(chromedp.CSS("#time")))
	b.key(kb.End)
	if got := value[string](b, `document.getElementById('time-readout').textContent`); !strings.Contains(got, "12:01:") {
		t.Errorf("the last bar says %q", got)
	}
	b.choose("#rule", "1")
	value[bool](b, `document.getElementById('rule').dispatchEvent(new Event('change', {bubbles: true}))`)
	says("of the other rule", "1 of 1 key asks for more than 100 in a minute. sliding-window 100/1m would deny ")
}

// shotReport writes pictures of a report for the artefacts of CI.
func (b *tab) shotReport(name string) {
	b.Helper()
	if pictures == "" {
		return
	}
	for _, width := range []int64{1400, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			b.size(width)
			b.drawn()
			picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err == nil {
				err = os.WriteFile(filepath.Join(pictures, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o644)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// The page of a policy that only watches says that nothing is denied, and what would be.
func TestTheReportKnowsShadows(t *testing.T) {
	log, policy := fourDays(t), filepath.Join(t.TempDir(), "weir.yaml")
	const file = "version: 1\nclient: {peer: true}\nrules:\n" +
		"  - {name: next, key: address, limit: 30/minute, mode: shadow}\n"
	if err := os.WriteFile(policy, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openReport(t, "--policy", policy, log)
	const figure = "1.7% of requests would be denied, by shadows 60 of 3,444; none is denied"
	if got := value[string](b, `document.querySelector('.figures div').innerText.replace(/\s+/g, ' ')`); got != figure {
		t.Errorf("it says %q, want %q", got, figure)
	}
	const colours = `(() => {
		const root = document.documentElement.appendChild(document.createElement('i'));
		const of = name => { root.style.color = 'var(' + name + ')'; return getComputedStyle(root).color; };
		const [would, denied] = [of('--would'), of('--accent')];
		const parts = {figure: getComputedStyle(document.querySelector('.figures b')).color,
			key: getComputedStyle(document.querySelector('.key.would')).backgroundColor,
			chart: getComputedStyle(document.querySelector('#time rect.would')).fill,
			peaks: getComputedStyle(document.querySelector('#peaks .over')).fill};
		const wrong = Object.keys(parts).filter(name => parts[name] !== would);
		for (const bar of document.querySelectorAll('.bar')) {
			if (!getComputedStyle(bar).backgroundImage.includes(would)) wrong.push('bar');
		}
		if (document.querySelector('#time rect.denied')) wrong.push('denied bars');
		root.remove();
		return (would === denied ? 'one colour for both, ' : '') + wrong.join();
	})()`
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		if wrong := value[string](b, colours); wrong != "" {
			t.Errorf("%s: in the colour of denials: %s", scheme, wrong)
		}
		b.readable("the report of a shadow")
	}
	if said := value[string](b, `document.body.innerText`); !strings.Contains(said, "next, a shadow: 1 of 61 keys") ||
		!strings.Contains(said, "--show-keys shows them") {
		t.Errorf("it says\n%s", said)
	}
	b.shot("simulate-shadow")
}
