package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/report"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// TestThePageDrawsInABrowser opens pages in chromium, which must draw their charts, say
// nothing on the console, and ask nobody.
func TestThePageDrawsInABrowser(t *testing.T) {
	browser := testrun.Program(t, "chromium-headless-shell", "chromium")
	for name, change := range map[string]func(*simulate.Options){
		"compared": nil,
		"alone":    func(o *simulate.Options) { o.Against, o.Ladder = nil, false },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			dom := load(t, browser, dir, writePage(t, dir, change))
			if n := strings.Count(dom, "<svg"); n != 2 {
				t.Errorf("%d charts, want 2", n)
			}
			for _, want := range []string{
				`id="time-readout"[^>]*>[^<]* asked, [^<]* denied`,
				`id="peaks-readout"[^>]*>1 of 2 keys asks for more than 60 in a minute\. sliding-window 60/1m denies [0-9–]+ of 330 requests, of 1 key\.`, ">denied alone<",
				`class="limit"`, `class="over"`,
			} {
				if !regexp.MustCompile(want).MatchString(dom) {
					t.Errorf("the page does not have %s", want)
				}
			}
			if name == "compared" && !strings.Contains(dom, `class="before"`) {
				t.Error("the other policy is not drawn")
			}
		})
	}
	t.Run("used", func(t *testing.T) {
		dir := t.TempDir()
		writePage(t, dir, nil)
		outer := filepath.Join(dir, "outer.html")
		if err := os.WriteFile(outer, []byte(hands), 0o600); err != nil {
			t.Fatal(err)
		}
		dom := load(t, browser, dir, outer)
		for _, want := range []string{
			"first: 1 of 2 keys asks for more than 60", "dragged down: true", "released: true",
			"by slider: 2 of 2 keys ask for more than 1 in a minute.\n",
			"by number: 2 of 2 keys ask for more than 7 in a minute.\n",
			"by rung: 1 of 2 keys asks for more than 120 in a minute. sliding-window 120/1m alone would deny ",
			"by key: true", "end: true", "other rule: 1 of 1 key asks for more than 100 in a minute. sliding-window " +
				"100/1m would deny ",
		} {
			if !strings.Contains(dom, want) {
				t.Errorf("the page does not say %q:\n%s", want, dom[strings.LastIndex(dom, "<pre"):])
			}
		}
	})
}

// hands is a page that uses a report in a frame, and writes down what happens.
const hands = `<!doctype html><iframe src="report.html" width="700" height="2000"></iframe><pre></pre><script>
onload = () => setTimeout(() => {
  const d = document.querySelector('iframe').contentDocument, say = (what, text) => document.querySelector('pre').append(what + ': ' + text + '\n');
  const $ = id => d.getElementById(id), peaks = () => $('peaks-readout').textContent, line = () => +$('number').value;
  const on = (e, type, init) => e.dispatchEvent(new (type.startsWith('pointer') ? PointerEvent : type === 'keydown' ? KeyboardEvent : Event)(type, {bubbles: true, cancelable: true, ...init}));
  say('first', peaks());
  const hold = d.querySelector('#peaks .hold'), box = hold.getBoundingClientRect(), at = {clientX: box.x + 50, clientY: box.y + 22};
  on(hold, 'pointerdown', at);
  on(hold, 'pointermove', {...at, clientY: at.clientY + 40});
  const dragged = line();
  say('dragged down', dragged > 1 && dragged < 60);
  on(hold, 'pointerup', at);
  on(hold, 'pointermove', at);
  say('released', line() === dragged);
  $('slider').value = 0;
  on($('slider'), 'input');
  say('by slider', peaks());
  $('number').value = 7;
  on($('number'), 'input');
  say('by number', peaks());
  $('number').value = 120;
  on($('number'), 'input');
  say('by rung', peaks());
  const before = $('time-readout').textContent;
  on($('time'), 'keydown', {key: 'ArrowLeft'});
  say('by key', $('time-readout').textContent !== before);
  on($('time'), 'keydown', {key: 'End'});
  say('end', $('time-readout').textContent.includes('12:01:'));
  $('rule').value = 1;
  on($('rule'), 'change');
  say('other rule', peaks());
}, 500);
</script>`

// writePage writes the page of the sample's report, and returns its path.
func writePage(t *testing.T, dir string, change func(*simulate.Options)) string {
	t.Helper()
	var page bytes.Buffer
	if err := report.HTML(&page, sample(t, change)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "report.html")
	if err := os.WriteFile(file, page.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// load opens a file in the browser, and returns its document. A line on the console fails
// the test.
func load(t *testing.T, browser, dir, file string) string {
	t.Helper()
	cmd := testrun.Command(t, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+filepath.Join(dir, "profile"),
		"--enable-logging=stderr", "--virtual-time-budget=5000", "--window-size=700,900",
		"--allow-file-access-from-files", "--dump-dom", "file://"+file)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &errOut)
	}
	for line := range strings.Lines(errOut.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Error(line)
		}
	}
	return string(out)
}
