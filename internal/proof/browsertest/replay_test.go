package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-go/weir/cmd/weir/playground"
)

const replayDone = `!document.getElementById('replayed').hidden`

// chooseLog gives the page a log as somebody does who presses the button.
func (b *tab) chooseLog(path string) {
	b.Helper()
	b.do("choose a log", chromedp.SetUploadFiles(chromedp.CSS("#log"), []string{path}))
}

// dropLog drops a file on the page. name and text are expressions of JavaScript.
func (b *tab) dropLog(name, text string) {
	b.Helper()
	value[bool](b, `(() => {
		const data = new DataTransfer();
		data.items.add(new File([`+text+`], `+name+`));
		for (const kind of ['dragover', 'drop']) {
			const e = new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true});
			document.querySelector('h1').dispatchEvent(e);
			if (!e.defaultPrevented) throw new Error('the browser would open the file');
		}
		return true;
	})()`)
}

func TestALogIsReplayedInThePage(t *testing.T) {
	log := fourDays(t)
	var asked atomic.Int64
	b := openFrom(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		playground.Handler().ServeHTTP(w, r)
	}), "?panel=60/1m&panel=fixed-window+40/1m&panel=token-bucket+20/1m+and+fixed-window+50/1h&panel=concurrent+5&panel=many")
	b.until("the engine has arrived", ready)
	before := asked.Load()
	b.chooseLog(log)
	b.until("it is replayed", replayDone)
	rows := value[[]string](b,
		`[...document.querySelectorAll('#replay-rows tr')].map(r => [...r.children].map(c => c.innerText.replace(/\s+/g, ' `+
			`').trim()).join('|'))`)
	if len(rows) != 5 || rows[0] != "All 3,444 requests|" {
		t.Fatalf("the rows are %q", rows)
	}
	rows = rows[1:]
	// the log has one burst
	if drawn := value[string](b,
		`[...document.querySelectorAll('#replay-rows path')].map(e => Math.min(2, e.getAttribute('d').split('M').length - `+
			`1)).join('')`); drawn != "2111" {
		t.Errorf("over time, it draws columns: %s", drawn)
	}
	for i, limit := range []string{"60/1m", "fixed-window 40/1m"} {
		var r struct {
			Requests int64
			Policy   struct{ Denied struct{ Low, High int64 } }
		}
		if err := json.Unmarshal([]byte(simulate(t, "--json", "--limit", limit, log)), &r); err != nil {
			t.Fatal(err)
		}
		d := strconv.FormatInt(r.Policy.Denied.Low, 10)
		if r.Policy.Denied.High != r.Policy.Denied.Low {
			d += "–" + strconv.FormatInt(r.Policy.Denied.High, 10)
		}
		if !strings.Contains(rows[i], limit+"||"+d+" ") || r.Policy.Denied.Low == 0 ||
			!strings.Contains(rows[i], "% of requests|1 1.6% of clients|") {
			t.Errorf("the page says %q, and weir simulate that %s are denied", rows[i], d)
		}
	}
	if !strings.Contains(rows[3], "Not simulated: concurrent: a concurrency limit needs the duration of requests") {
		t.Errorf("of a concurrency limit it says %q", rows[3])
	}
	said := value[string](b, `document.getElementById('replay-says').textContent`)
	if said != "access.log: 3,444 requests, 17 Nov 2026 10:05 – 20 Nov 2026 17:55 UTC, 61 clients." {
		t.Errorf("it says %q", said)
	}
	if now := asked.Load(); now != before {
		t.Errorf("the page has asked the server %d times since", now-before)
	}
	for _, width := range []int64{1400, 1280, 1100, 700, 390, 320} {
		b.size(width)
		b.fits(width)
		b.readable(fmt.Sprintf("a replay, %d wide", width))
		if hidden := value[string](b,
			`[...document.querySelectorAll('#replayed td:not(.part)')].filter(e => innerWidth < 500 && getComputedStyle(e, `+
				`'::before').content !== JSON.stringify(e.dataset.label)).map(e => e.textContent).join()`); hidden != "" {
			t.Errorf("%d wide: numbers have no label: %s", width, hidden)
		}
	}
	b.pictureOf("playground-replay", "#replay")
	b.size(1280)
	value[bool](b, `(e => { e.value = '5/10s'; e.dispatchEvent(new Event('change', {bubbles: true})); return true `+
		`})(document.querySelector('.panel textarea'))`)
	b.until("the result goes with its limits", `!(`+replayDone+`) && document.getElementById('again').checkVisibility()`)
	value[bool](b, `document.getElementById('again').focus(), true`)
	b.key(kb.Enter)
	b.until("it is replayed through the others",
		replayDone+` && document.querySelector('#replay-rows code').textContent === '5/10s'`)
	b.press("#restart")
	if !value[bool](b, replayDone) {
		t.Error("the clock has nothing to do with the result, and took it away")
	}
}

func TestALogThatIsDroppedStaysInert(t *testing.T) {
	b := openPlayground(t, "?panel=1/1h&traffic=click")
	text, err := os.ReadFile(fourDays(t))
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(string(text))
	b.dropLog(`'<img src=x onerror=alert(3)>.log'`, string(quoted))
	b.until("it is replayed", replayDone)
	if said := value[string](b, `document.getElementById('replay-says').textContent`); !strings.HasPrefix(said,
		"<img src=x onerror=alert(3)>.log: 3,444 requests") {
		t.Errorf("it says %q", said)
	}
	if n := value[int](b, `document.querySelectorAll('img, main script').length`); n != 0 {
		t.Errorf("%d elements come from the log", n)
	}
	if keys := value[string](b, `document.getElementById('replay').innerText`); strings.Contains(keys, "198.51.") {
		t.Errorf("addresses are shown:\n%s", keys)
	}
	b.dropLog(`'notes.txt'`, `'<b>no</b> log\nat all\n'`)
	b.until("what is no log is refused",
		`document.querySelector('#replay-says.mistake')?.textContent.startsWith('notes.txt: the format is not known') && `+
			`!(`+replayDone+`)`)
	// Its third piece never comes, and seconds pass before each.
	value[bool](b, `(() => {
		let pieces = 0;
		const read = Blob.prototype.arrayBuffer, now = performance.now;
		Blob.prototype.arrayBuffer = function() { return ++pieces === 3 ? new Promise(() => {}) : read.call(this); };
		performance.now = () => now.call(performance) + pieces * 5000;
		window.restore = () => { Blob.prototype.arrayBuffer = read; performance.now = now; return true; };
		return true;
	})()`)
	b.dropLog(`'huge.log'`,
		`Array.from({length: 20000}, (_, j) => '203.0.113.' + j % 250 + ' - - [20/Nov/2026:12:00:' + String(Math.floor(j / `+
			`400)).padStart(2, '0') + ' +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n').join('')`)
	b.until("a long one says how far it is",
		`document.getElementById('part').checkVisibility() && document.getElementById('part').value > 0 && `+
			`document.getElementById('replay-says').textContent === 'Reading huge.log' && / (s|min) `+
			`left$/.test(document.getElementById('left').textContent)`)
	b.press("#stop")
	b.until("and can be stopped",
		`document.getElementById('replay-says').textContent === 'Stopped.' && `+
			`!document.getElementById('stop').checkVisibility()`)
	value[bool](b, `restore()`)
	b.dropLog(`'access.log'`, string(quoted))
	b.until("the next one is replayed",
		replayDone+` && document.getElementById('replay-says').textContent.startsWith('access.log: 3,444 requests')`)
}

func TestALogIsChosenByKeyboard(t *testing.T) {
	b := openPlayground(t, "?traffic=click")
	b.press("#send")
	b.until("a request is decided", `document.querySelector('.counts .allowed').textContent === '1'`)
	b.press(`.presets a[href="#replay"]`)
	b.until("the link leads there",
		`location.hash === '#replay' && (r => r.top >= 0 && r.top < `+
			`innerHeight)(document.getElementById('replay').getBoundingClientRect())`)
	if n := value[string](b, `document.querySelector('.counts .allowed').textContent`); n != "1" {
		t.Errorf("the link has begun anew: %s requests are allowed", n)
	}
	b.key(kb.Tab)
	at := value[string](b, `document.activeElement.id + ' ' + getComputedStyle(document.activeElement).outlineStyle`)
	if at != "log solid" {
		t.Errorf("after the link, the next stop is %q", at)
	}
	if name := value[string](b, `document.getElementById('log').labels[0].textContent.trim()`); name != "Access log" {
		t.Errorf("the button is called %q", name)
	}
}

// pictureOf writes pictures of a part of a page for the artefacts of CI.
func (b *tab) pictureOf(name, selector string) {
	b.Helper()
	if pictures == "" {
		return
	}
	for _, width := range []int64{1400, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			b.tall(width)
			picture, err := chromedp.Run(b.ctx, chromedp.Screenshot(chromedp.CSS(selector), chromedp.NodeVisible))
			b.keep(fmt.Sprintf("%s-%d-%s", name, width, scheme), picture, err)
		}
	}
}
