package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
)

// The past of a page is made up in most tests: a real one takes ten minutes.

// remember stops the page and gives it a past: so many stretches of 5 s, the last of which ends at
// noon, with what an expression of i has for each of them. It is noon on the page then.
func (b *tab) remember(stretches int, expression, marks string) {
	b.Helper()
	b.until("nothing is under way", `running !== true`)
	value[bool](b, fmt.Sprintf(`(() => {
		stop();
		running = 'never';
		const n = %d, noon = new Date(2026, 10, 24, 12).getTime(), all = {}, rule = {Limiter: 'api', Rule: 'per-client'};
		for (let i = 0; i < n; i++) {
			for (const [field, count] of Object.entries(%s)) (all[field] ??= []).push(count);
			for (const [field, count] of Object.entries(%s)) if (field !== 'Unavailable' && field !== 'Shed') (rule[field] ??= []).push(2 * count);
		}
		Date.now = () => noon;
		remember({Every: 5000, Times: Array.from({length: n + 1}, (_, i) => noon - (n - i) * 5000), All: all, Rules: [rule], Marks: (%s).map(([ago, Text]) => ({At: noon - ago * 1000, Text}))});
		showPast(); showRules();
		return true;
	})()`, stretches, expression, expression, marks))
	b.drawn()
}

const (
	pastPlot = `document.querySelector('#past .plot')`
	pastSays = `document.querySelector('#past .readout').innerText.replace(/\s+/g, ' ')`
)

func TestTheFirstSecondsAreDrawn(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := openAt(t, s.url)
	s.visit(5, "GET", "/api/things", "203.0.113.77")
	b.until("a sample is drawn", `(document.querySelector('#past path.denied')?.getAttribute('d') ?? '').includes('H')`)
	b.until("a mark is drawn", `document.querySelectorAll('#past line.mark').length === 0`)
	mode := core.Shadow
	if err := s.limit.Override("per-client",
		core.Override{Mode: &mode, Why: "<b>too low</b>", Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	b.until("the override is marked",
		`document.querySelectorAll('#past line.mark').length === 1 && `+
			`document.getElementById('marks').textContent.endsWith('rule per-client: shadow (<b>too low</b>)')`)
}

func TestThePastIsDrawnFromTheLeft(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	for _, test := range []struct {
		stretches int
		filled    float64
	}{{1, 5. / 60}, {12, 1}, {13, 65. / 120}, {25, 125. / 300}, {61, 305. / 600}, {120, 1}} {
		b.remember(test.stretches, `{Allowed: 50}`, `[]`)
		got := value[float64](b, `(() => {
			const path = document.querySelector('#past path.allowed').getBBox(), grid = document.querySelector('#past line.grid').getBBox();
			return path.x === grid.x ? path.width / grid.width : -1;
		})()`)
		if got < test.filled-.01 || got > test.filled+.01 {
			t.Errorf("%d stretches fill %.3f of the drawing, want %.3f", test.stretches, got, test.filled)
		}
		line := value[float64](b,
			`(p => p.x === 0 ? p.width / 136 : -1)(`+row("per-client")+`.querySelector('svg.line path.allowed').getBBox())`)
		if line < test.filled-.01 || line > test.filled+.01 {
			t.Errorf("%d stretches fill %.3f of the line, want %.3f", test.stretches, line, test.filled)
		}
	}
}

func TestThePastHasAScale(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	for _, test := range []struct {
		count int
		scale string
	}{
		{0, "0 0.5 1.0"}, {1, "0 0.5 1.0"}, {30, "0 2 4 6"}, {60, "0 5 10 15"}, {100, "0 5 10 15 20"},
		{1000, "0 50 100 150 200"}, {61000, "0 5\u202f000 10\u202f000 15\u202f000"},
	} {
		b.remember(120, fmt.Sprintf(`{Allowed: i %% 2 ? %d : 0, Denied: 0}`, test.count), `[]`)
		if got := value[string](b,
			`[...document.querySelectorAll('#past text[text-anchor=end]')].map(e => e.textContent).join(' `+
				`')`); got != test.scale+" 0 0.5 1.0" { // that of denials is below
			t.Errorf("for %d in 5 s the scales are %q, want %q", test.count, got, test.scale+" 0 0.5 1.0")
		}
		b.size(1400)
		b.drawn()
		if got := value[string](b,
			`[...document.querySelectorAll('#past text[text-anchor=middle]')].map(e => e.textContent).join(' `+
				`')`); got != "11:51 11:52 11:53 11:54 11:55 11:56 11:57 11:58 11:59" {
			t.Errorf("the times are %q", got)
		}
	}
	label := value[string](b, row("per-client")+`.querySelector('svg').getAttribute('aria-label')`)
	if label != "Over time: at most 24\u202f400 a second allowed, 0 a second denied, 0 a second would be denied" {
		t.Errorf("told: %q", label)
	}
	for _, width := range []int64{1280, 500, 390} {
		b.size(width)
		if n := value[int](b,
			`[...document.querySelectorAll('svg.line')].filter(e => e.getBoundingClientRect().right > `+
				`e.closest('td').getBoundingClientRect().right + 1).length`); n != 0 {
			t.Errorf("in a window of %d, %d drawings reach into the next number", width, n)
		}
	}
}

// Two denials a second are seen beside two thousand allowed requests.
func TestDenialsHaveAScaleOfTheirOwn(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	b.remember(120, `{Allowed: 10000, Denied: i % 2 ? 10 : 0}`, `[]`)
	b.openRow("rule-table", "per-client")
	for _, test := range []struct{ place, says string }{
		{"#past", "denied, unavailable alone"}, {"#rule-table tr.below", "denied, would deny alone"},
	} {
		b.until("it is drawn", `document.querySelectorAll('`+test.place+` path.denied').length === 2`)
		got := value[string](b, `[...document.querySelectorAll('`+test.place+` path.denied')].map(e => `+
			`Math.round(e.getBBox().height)).join()`)
		if got != "1,48" && got != "0,48" {
			t.Errorf("in %s denials are %s high, want 1,48", test.place, got)
		}
		if says := value[string](b, `document.querySelector('`+test.place+` text.alone').textContent`); says != test.says {
			t.Errorf("in %s the scale is that of %q, want %q", test.place, says, test.says)
		}
	}
	line := value[float64](b, row("per-client")+`.querySelector('svg.line path.denied').getBBox().height`)
	if line != 12 {
		t.Errorf("in the line of the table denials are %v high, want 12", line)
	}
}

func TestTheHintAboutPointersIsForThoseWhoHaveOne(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	hint := func() string {
		return value[string](b, `document.querySelector('#time + .legend').innerText`)
	}
	const mean = "Per second, mean of 5 s. "
	if got, want := hint(), mean+"Arrow keys and the pointer read the drawing."; got != want {
		t.Errorf("with a mouse it says %q, want %q", got, want)
	}
	b.remember(120, `{Allowed: i}`, `[]`)
	b.size(390)
	command(b, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true})
	b.until("there is no mouse", `matchMedia('(hover: none) and (pointer: coarse)').matches`)
	if got, want := hint(), mean+"Touch the drawing to read it."; got != want {
		t.Errorf("on a telephone it says %q, want %q", got, want)
	}
	value[bool](b, pastPlot+`.scrollIntoView({block: 'center'}), true`)
	at := value[[]float64](b, `(r => [r.left + r.width / 2, r.top + 5])(document.querySelector('#past `+
		`line.grid').getBoundingClientRect())`)
	for _, step := range []struct {
		kind   input.DispatchTouchEventType
		points []*input.TouchPoint
	}{
		{input.DispatchTouchEventTypeTouchStart, []*input.TouchPoint{{X: at[0], Y: at[1]}}},
		{input.DispatchTouchEventTypeTouchEnd, []*input.TouchPoint{}},
	} {
		command(b, input.DispatchTouchEvent,
			input.DispatchTouchEventParams{Type: step.kind, TouchPoints: step.points})
	}
	b.until("it still says what was there once the finger is lifted", pastSays+`.startsWith('11:5') && !`+
		pastSays+`.startsWith('11:59')`)
}

func TestThePastIsReadByPointer(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	b.remember(120, `{Allowed: i, Denied: 600 - 5 * i, Unavailable: i === 60 ? 5 : 0}`, `[]`)
	if got := value[string](b, pastSays); got != "latest: 11:59:55 to 12:00:00 allowed 24 denied 1.0 unavailable 0" {
		t.Errorf("without a pointer it says %q", got)
	}
	point := func(x, y float64) {
		t.Helper()
		at := value[[]float64](b,
			fmt.Sprintf(`(r => [r.left + r.width * %v, r.top + r.height * %v])(document.querySelector('#past `+
				`line.grid').getBoundingClientRect())`, x, y))
		b.do("move the pointer", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
	}
	value[bool](b, pastPlot+`.scrollIntoView({block: 'center'}), true`)
	point(.5, 0)
	b.until("it says what was then", pastSays+` === '11:55:00 to 11:55:05 allowed 12 denied 60 unavailable 1.0'`)
	b.until("the stretch is shown", `document.querySelector('#past .cursor').getAttribute('visibility') === 'visible'`)
	point(.001, 0)
	b.until("it says what was first", pastSays+` === '11:50:00 to 11:50:05 allowed 0 denied 120 unavailable 0'`)
	b.do("move the pointer away", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
	b.until("it says what is latest", pastSays+`.startsWith('latest: 11:59:55')`)
}

func TestThePastIsReadByKeyboard(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	b.remember(120, `{Allowed: i, Denied: 600 - 5 * i}`,
		`[[62, 'rule per-client: shadow (<b>ann</b>)'], [300, 'breaker redis: opened']]`)
	b.reach(`e.matches('#past .plot')`)
	for _, test := range []struct{ key, says string }{
		{kb.ArrowLeft, "11:59:50 to 11:59:55, per second: allowed 24, denied 2.0, unavailable 0"},
		{kb.PageUp, "11:58:50 to 11:58:55, per second: allowed 21, denied 14, unavailable 0"},
		{kb.ArrowRight, "11:58:55 to 11:59:00, per second: allowed 21, denied 13, unavailable 0. rule per-client: " +
			"shadow (<b>ann</b>)"},
		{kb.Home, "11:50:00 to 11:50:05, per second: allowed 0, denied 120, unavailable 0"},
		{kb.ArrowLeft, "11:50:00 to 11:50:05, per second: allowed 0, denied 120, unavailable 0"},
		{kb.PageDown, "11:51:00 to 11:51:05, per second: allowed 2.4, denied 108, unavailable 0"},
		{kb.End, "11:59:55 to 12:00:00, per second: allowed 24, denied 1.0, unavailable 0"},
	} {
		b.key(test.key)
		if got := value[string](b, pastPlot+`.getAttribute('aria-valuetext')`); got != test.says {
			t.Errorf("it says %q, want %q", got, test.says)
		}
	}
	got := value[string](b, `['min', 'now', 'max'].map(n => `+pastPlot+`.getAttribute('aria-value' + n)).join(' ')`)
	if got != "0 119 119" {
		t.Errorf("it stands at %s", got)
	}
	b.key(kb.ArrowLeft)
	b.key(kb.Escape)
	b.until("it reads nothing", pastSays+`.startsWith('latest')`)
}

func TestWhatChangedIsMarked(t *testing.T) {
	const script = `</script><img src=x onerror=alert(1)>`
	s := newSite(t, admin.Options{})
	b := open(t, s)
	b.remember(120, `{Allowed: i}`,
		`[[500, 'a'], [302, '`+strings.ReplaceAll(script, "/", `\/`)+`'], [300, 'c'], [62, 'd']]`)
	got := value[string](b, `[...document.querySelectorAll('#past text.mark')].map(e => e.textContent).join()`)
	if got != "1,2,4" {
		t.Errorf("the marks have the numbers %s: those that would overlap have none", got)
	}
	if got := value[string](b,
		`[...document.querySelectorAll('#marks li')].map(e => e.value + ' ' + e.textContent).join('\n')`); got != "1 "+
		"11:51:40 a\n2 11:54:58 "+script+"\n3 11:55:00 c\n4 11:58:58 d" {
		t.Errorf("the marks are\n%s", got)
	}
	if n := value[int](b, `document.querySelectorAll('main img, main script').length`); n != 0 {
		t.Errorf("there are %d elements of a client", n)
	}
	if n := value[int](b, `document.querySelectorAll('#past line.mark').length`); n != 4 {
		t.Errorf("%d marks are drawn", n)
	}
	b.remember(120, `{Allowed: i}`, `[]`)
	if value[bool](b, `document.getElementById('marks').checkVisibility()`) {
		t.Error("there is a list of nothing")
	}
}

func TestARuleShowsItsOwnPast(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	b := open(t, s)
	b.remember(120, `{Allowed: i, Denied: 600 - 5 * i, WouldDeny: 10}`, `[[300, 'breaker redis: opened']]`)
	b.reach(`e.matches('.pick') && e.textContent === 'per-client'`)
	b.key(kb.Enter)
	const says = `document.querySelector('#rule-table .readout').innerText.replace(/\s+/g, ' ')`
	b.until("the rule is open", `document.querySelectorAll('#rule-table tr.below').length === 1`)
	b.until("it shows its own", says+` === 'latest: 11:59:55 to 12:00:00 allowed 48 denied 2.0 would deny 4.0'`)
	b.reach(`e.matches('#rule-table .plot')`)
	b.key(kb.Home)
	b.until("both read the same time", says+`.startsWith('11:50:00') && `+pastSays+`.startsWith('11:50:00')`)
	b.until("its mark is drawn", `document.querySelectorAll('#rule-table .plot line.mark').length === 1`)
	b.shot("rule")
	b.reach(`e.textContent === 'Change the mode'`)
	value[bool](b, `document.querySelector('.pick[aria-expanded=true]').focus(), true`)
	b.key(kb.Enter)
	b.until("the rule is closed", `document.querySelector('#rule-table tr.below') === null`)
	if n := value[int](b, `plots.size`); n != 1 {
		t.Errorf("%d drawings are kept", n)
	}
	if at := value[string](b, `document.activeElement.textContent`); at != "per-client" {
		t.Errorf("the focus is on %q", at)
	}
}

func TestNumbersStandBelowEachOther(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	b.remember(1, `{}`, `[]`)
	const points = `(() => {
		const cells = [...document.querySelectorAll('#rule-table tbody tr')].map(r => r.cells_.allowed);
		[12345.6, 38, 9.96, 2.4, 0].forEach((n, i) => number(cells[i], n));
		return cells.map(c => { // where the point is, or would be
			const text = c.firstChild, range = document.createRange(), at = text.data.indexOf('.');
			range.setStart(text, 0);
			range.setEnd(text, at < 0 ? text.length : at);
			return Math.round(range.getBoundingClientRect().right);
		});
	})()`
	if got := value[[]int](b, points); len(got) != 5 || slices.Min(got) != slices.Max(got) {
		t.Errorf("their decimal points are at %v", got)
	}
	if got := value[string](b,
		`[...document.querySelectorAll('#rule-table tbody tr')].map(r => r.cells_.allowed.textContent).join(' | `+
			`')`); got != "12\u202f346 | 38 | 10 | 2.4 | 0" {
		t.Errorf("they are %s", got)
	}
	got := value[string](b, `[2.21e3, 20e3, 64.04e3, 2.4e6, 59e6].map(waitInTable).join(' | ')`)
	if got != "2.2 ms | 20.0 ms | 64.0 ms | 2.4 s | 59.0 s" {
		t.Errorf("waits are %s", got)
	}
}

func TestAPercentageSaysOfWhat(t *testing.T) {
	s := newSite(t, admin.Options{})
	mode := core.EnforceFor(25)
	if err := s.limit.Override("per-client", core.Override{Mode: &mode, Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	s.counts.WatchShedder("api", newShedder(core.Enforce))
	s.visit(1, "GET", "/api/things", "203.0.113.77")
	b := open(t, s)
	b.until("the mode says so", row("per-client")+`.cells[2].textContent === 'enforce 25% of keys'`)
	b.until("backend and memory say so",
		`/99% of calls ≤ /.test(document.getElementById('facts').textContent) && / of 100.000 keys `+
			`\(\d+%\)/.test(document.getElementById('facts').textContent)`)
	if said := value[string](b,
		`document.querySelector('#shed-table thead').textContent + document.querySelector('#rules + `+
			`.legend').textContent`); !strings.Contains(said, "Share of limit") ||
		!strings.Contains(said, "Percentages are of the rule’s decisions") {
		t.Errorf("the tables say %q", said)
	}
}

// A window of 1400 at 200%, and one of 320, as WCAG has it (1.4.4, 1.4.10).
func TestThePageIsReadable(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	s.traffic()
	s.counts.WatchShedder("api", newShedder(core.Enforce))
	b := open(t, s)
	b.until("all is shown", `document.querySelectorAll('#denial-table tbody tr').length > 3`)
	b.openRow("rule-table", "per-client")
	b.openRow("denial-table", "address in 203.0.113.0/24")
	b.remember(120, `{Allowed: i, Denied: 600 - 5 * i, WouldDeny: 10, Unavailable: 5, Shed: 50}`,
		`[[300, 'breaker redis: opened']]`)
	for _, width := range []int64{1400, 700, 320} {
		b.size(width)
		b.drawn()
		b.fits(width)
		b.readable(fmt.Sprintf("the page, %d wide", width))
		if wide := value[float64](b,
			`Math.min(...[...document.querySelectorAll('.plot')].map(e => e.getBoundingClientRect().width / `+
				`document.querySelector('main').getBoundingClientRect().width))`); wide < .8 {
			t.Errorf("in a window of %d, a drawing is %.2f of it", width, wide)
		}
	}
	for _, scheme := range []string{"light", "dark"} { // lines against what is behind them: 3:1 (1.4.11)
		b.scheme(scheme)
		if short := value[string](b, `(() => {
			const parse = text => text.match(/[\d.]+/g).map(Number);
			const lum = c => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => { const v = c[i] / 255; return sum + w * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); }, 0);
			const under = lum(parse(getComputedStyle(document.querySelector('.past')).backgroundColor));
			const lines = [...document.querySelectorAll('svg path, line.mark')];
			if (lines.length < 10) return 'only ' + lines.length + ' lines';
			return lines.filter(e => { const [x, y] = [lum(parse(getComputedStyle(e).stroke)), under].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05) < 3; }).map(e => e.className.baseVal).join();
		})()`); short != "" {
			t.Errorf("%s: lines with too little contrast: %s", scheme, short)
		}
	}
	b.press(`button[aria-label="Change the mode of rule per-client"]`)
	b.until("a dialog opens", dialogOpen)
	b.readable("the dialog")
}

func TestNothingMovesForThoseWhoDoNotWantIt(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := openAt(t, s.url)
	command(b, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	b.until("the page is live", `document.getElementById('live').textContent.startsWith('live')`)
	b.openRow("rule-table", "per-client")
	if moving := value[string](b,
		`[...document.querySelectorAll('*')].filter(e => { const s = getComputedStyle(e); return s.animationName !== `+
			`'none' || s.transitionDuration.split(',').some(d => parseFloat(d) > 0) || s.scrollBehavior === 'smooth'; `+
			`}).map(e => e.tagName + '.' + e.className).join()`); moving != "" {
		t.Errorf("these move: %s", moving)
	}
}
