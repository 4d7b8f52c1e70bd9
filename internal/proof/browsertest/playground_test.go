package browsertest

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-go/weir/cmd/weir/playground"
	"github.com/weir-go/weir/cmd/weir/playground/lab"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

const ready = `document.documentElement.dataset.engine === 'ready'`

// openPlayground opens the playground with a query, under a path of a server.
func openPlayground(t *testing.T, query string) *tab {
	t.Helper()
	b := openFrom(t, playground.Handler(), query)
	b.until("the engine has arrived", ready)
	return b
}

// openFrom opens what a handler serves, under a path of a server.
func openFrom(t *testing.T, page http.Handler, query string) *tab {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix("/tools/weir", page))
	t.Cleanup(server.Close)
	return openAt(t, server.URL+"/tools/weir/"+query)
}

// panel is the JavaScript of a panel by its title.
func panel(title string) string {
	return `[...document.querySelectorAll('.panel')].find(p => p.querySelector('h3').textContent === '` + title + `')`
}

func counts(b *tab, title string) string {
	b.Helper()
	return value[string](b, `[...`+panel(title)+`.querySelectorAll('.counts span')].map(e => e.textContent).join('/')`)
}

func TestSixClicksOnABucketOfFiveDropOne(t *testing.T) {
	b := openPlayground(t, "?traffic=click")
	b.press("#pause")
	for range 6 {
		b.press("#send")
	}
	b.until("six are counted", panel("Token bucket")+`.querySelector('.denied').textContent === '1'`)
	if got := counts(b, "Token bucket"); got != "5/1" {
		t.Errorf("six clicks on a bucket of five: %s allowed and denied, want 5/1", got)
	}
	if got := value[string](b, `document.getElementById('verdict').textContent`); got != "429 Too Many Requests" {
		t.Errorf("the last answer is %q", got)
	}
	if got := value[string](b,
		`[...document.querySelectorAll('#fields dt, #fields dd')].map(e => `+
			`e.textContent).join('|')`); got != `RateLimit|"token-bucket";r=0;t=2|RateLimit-Policy|"token-bucket";q=5;w=10|Retry-After|2` {
		t.Errorf("its header fields are %s", got)
	}
	b.press(".panel.chosen h3 button") // whose answer is shown already
	b.press("#older")
	b.until("the answer before is shown",
		`document.getElementById('verdict').textContent === '200 OK' && `+
			`document.getElementById('which').textContent.startsWith('No. 5 at ')`)
	b.press("#newer")
	b.until("the last answer is shown again",
		`document.getElementById('verdict').textContent === '429 Too Many Requests'`)
	b.press(".panel:nth-child(4) h3 button")
	b.until("the answer of another panel is shown",
		`document.getElementById('answer-title').textContent === 'Answer of fixed window' && `+
			`document.getElementById('verdict').textContent === '429 Too Many Requests'`)
	b.press(".panel:nth-child(4) h3 button")
	b.press("#older")
	b.until("and the one before it", `document.getElementById('which').textContent.startsWith('No. 5 at ')`)
}

func TestOneTickEarlierIsDenied(t *testing.T) {
	b := openPlayground(t, "?panel=token-bucket+3/7s&traffic=click")
	b.press("#pause")
	for range 4 {
		b.press("#send")
	}
	b.until("the denial names a time", `!document.getElementById('approach').disabled`)
	denied := value[float64](b,
		`readClock = () => Number(document.getElementById('now').textContent.replace(/[ .s]/g, '')), readClock()`)
	b.press("#approach")
	b.until("the clock stops a microsecond early",
		`document.getElementById('proof').textContent === 'One microsecond early: denied.'`)
	if got := value[float64](b, `readClock()`) - denied; got != 2_333_333 {
		t.Errorf("the clock has gone on by %v µs, want 2333333", got)
	}
	b.press("#send")
	b.until("a request is denied there", panel("Token bucket")+`.querySelector('.denied').textContent === '2'`)
	b.press(`[data-by="1"]`)
	b.until("in time it would be allowed",
		`document.getElementById('proof').textContent === 'One microsecond early: denied. In time: allowed.'`)
	b.press("#send")
	b.until("and is", panel("Token bucket")+`.querySelector('.allowed').textContent === '4'`)
}

// The page decides 10,000 requests. The memory of this process, asked at the same instants,
// says the same.
func TestDecisionsInThePageEqualThoseOfGo(t *testing.T) {
	b := openPlayground(t, "?traffic=click")
	b.press("#pause")
	text := value[string](b, `(() => {
		const s = weir.setup({limit: '40/10s', traffic: 'poisson', rate: '12/s', cost: '1,1,2,1,1,5', lasts: '0s', seed: '7'});
		const buffer = new Uint8Array(s.frameSize), numbers = new Float64Array(buffer.buffer), out = [];
		for (let n = 0; n < 10000;) {
			weir.frame(16683, 0, 0, 0, 0, buffer);
			let at = 6 + 2 * numbers[3] + 7 * numbers[4];
			for (let i = 0; i < numbers[5]; i++, at += 11) if (numbers[at] === 0) { out.push(...numbers.slice(at + 1, at + 9)); n++; }
		}
		const bytes = new Uint8Array(new Float64Array(out).buffer);
		let s2 = ''; for (let i = 0; i < bytes.length; i += 4096) s2 += String.fromCharCode(...bytes.subarray(i, i + 4096));
		return btoa(s2);
	})()`)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	numbers := make([]float64, len(raw)/8)
	for i := range numbers {
		numbers[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var now time.Time
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return now }})
	l, _ := lab.New(lab.Setup{Limit: "40/10s"})
	panels := l.Panels()
	decided, allowed, denied := 0, 0, 0
	sent := make(map[float64]int) // by panel: the value of a request is its number
	for e := numbers; len(e) > 0; e = e[8:] {
		rule := panels[int(e[0])].Rules[0]
		limit, err := limits.Parse(rule.Limit)
		if err != nil {
			t.Fatal(err)
		}
		now = start.Add(time.Duration(e[1]) * time.Microsecond)
		out := make([]limits.Decision, 1)
		charge := backends.Charge{Scope: rule.Algorithm, Key: "client", Limit: limit, Cost: int64(e[3])}
		if limit.Algorithm().CountsValues() {
			charge.Value = uint64(sent[e[0]])
		}
		sent[e[0]]++
		ctx := context.Background()
		if limit.Algorithm().Holds() { // requests of no length hold nothing
			err = store.Peek(ctx, []backends.Charge{charge}, out)
			out[0].Remaining -= charge.Cost
		} else {
			err = store.Take(ctx, []backends.Charge{charge}, out)
		}
		if err != nil {
			t.Fatal(err)
		}
		retry := float64(out[0].RetryAfter.Microseconds())
		if out[0].RetryAfter == limits.Never {
			retry = -1
		}
		if page, here := [...]float64{e[2], e[5], e[6], e[7]}, [...]float64{truth(out[0].Allowed), retry,
			float64(out[0].Delay.Microseconds()), float64(out[0].Remaining)}; page != here {
			t.Fatalf("%v at %v, cost %v: allowed, retry, delay and what is left are %v in the page, %v here",
				limit, now, e[3], page, here)
		}
		if decided++; out[0].Allowed {
			allowed++
		} else {
			denied++
		}
	}
	if decided < 10_000 || allowed < 1000 || denied < 1000 {
		t.Errorf("%d decided, %d allowed, %d denied: too few", decided, allowed, denied)
	}
}

// promised returns what a promise comes to.
func promised[V any](b *tab, expression string) V {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func TestThePlaygroundIsThereBeforeTheEngine(t *testing.T) {
	var want []string
	for _, a := range limits.Algorithms() {
		name := strings.ReplaceAll(a.String(), "-", " ")
		want = append(want, strings.ToUpper(name[:1])+name[1:])
	}
	for _, width := range []int64{1280, 400} {
		arrive := make(chan struct{})
		arrived := sync.OnceFunc(func() { close(arrive) })
		t.Cleanup(arrived)
		b := openFrom(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".gz") {
				<-arrive
			}
			playground.Handler().ServeHTTP(w, r)
		}), "")
		b.size(width)
		b.until("it is painted", `performance.getEntriesByName('first-contentful-paint').length === 1`)
		t.Logf("%d wide: first painted after %.0f ms", width,
			value[float64](b, `performance.getEntriesByName('first-contentful-paint')[0].startTime`))
		if value[bool](b, ready) {
			t.Fatal("the engine is there already")
		}
		if n := value[int](b, `document.querySelectorAll('.panel').length`); n != len(want) {
			t.Errorf("there are places for %d panels, want %d", n, len(want))
		}
		value[bool](b, `window.shift = 0, window.shifted = [], new PerformanceObserver(l => { for (const e of `+
			`l.getEntries()) if (!e.hadRecentInput) { shift += e.value; shifted.push(...e.sources.map(s => s.node?.id || `+
			`s.node?.className || s.node?.nodeName)) } }).observe({type: 'layout-shift'}), true`)
		arrived()
		b.until("the engine has arrived", ready)
		b.until("requests have come", `Number(document.querySelector('.counts .allowed').textContent) > 1`)
		got := value[string](b, `[...document.querySelectorAll('.panel h3')].map(e => e.textContent).join()`)
		if got != strings.Join(want, ",") {
			t.Errorf("panels: %s, want %s", got, strings.Join(want, ","))
		}
		if shift := value[float64](b, `shift`); shift > 0.001 {
			t.Errorf("%d wide: the layout has shifted by %v: %s", width, shift, value[string](b, `shifted.join()`))
		}
	}
}

// However many panels there are, what is below them fills their last row.
func TestThePanelsLeaveNoHole(t *testing.T) {
	for n := 1; n <= 12; n++ {
		b := openFrom(t, playground.Handler(), "?traffic=click"+strings.Repeat("&panel=fixed-window+5%2F5s", n))
		b.until("the panels are there", `document.querySelectorAll('.panel h3').length === `+strconv.Itoa(n))
		for _, width := range []int64{1400, 1280, 1000, 760, 390} {
			b.size(width)
			b.fits(width)
			if hole := value[bool](b, `(box => {
				const boxes = [...box.children].map(e => e.getBoundingClientRect()), whole = box.getBoundingClientRect();
				const last = boxes.at(-1), full = Math.abs(last.left - whole.left) < 1;
				const row = full ? boxes.filter(r => r.top === boxes.at(-2).top) : [last];
				return Math.abs(Math.max(...row.map(r => r.right)) - whole.right) > 1;
			})(document.getElementById('panels'))`); hole {
				t.Errorf("%d panels in a window of %d leave a hole", n, width)
			}
		}
	}
}

// Servers of files send the engine as it is, or say that it is compressed, and then the
// browser unpacks it.
func TestAnyServerOfFilesServesThePlayground(t *testing.T) {
	files := http.FileServer(http.Dir("../../../cmd/weir/playground/page"))
	for name, page := range map[string]http.Handler{
		"files": files,
		"files that are said to be compressed": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".gz") {
				w.Header().Set("Content-Encoding", "gzip")
			}
			files.ServeHTTP(w, r)
		}),
	} {
		b := openFrom(t, page, "?traffic=click")
		b.until(name+": the engine has arrived", ready)
		b.press("#send")
		b.until(name+": it decides", panel("Token bucket")+`.querySelector('.allowed').textContent === '1'`)
	}
}

func TestThePlaygroundIsUsedByKeyboard(t *testing.T) {
	b := openPlayground(t, "?traffic=click")
	b.key(" ")
	b.until("space sends", panel("Token bucket")+`.querySelector('.allowed').textContent === '1'`)
	b.key("4")
	b.until("a digit sends that cost", `document.getElementById('which').textContent.includes('cost 4')`)
	b.key("p")
	b.until("p pauses", `document.getElementById('pause').textContent === 'Play'`)
	unnamed := value[string](b,
		`[...document.querySelectorAll('button, input, textarea, select, canvas')].filter(e => e.checkVisibility() && `+
			`!e.getAttribute('aria-label') && !e.labels?.length && !e.textContent.trim()).map(e => e.outerHTML).join()`)
	if unnamed != "" {
		t.Errorf("without a name: %s", unnamed)
	}
	var reached []string
	for range 90 {
		b.key(kb.Tab)
		at := value[string](b,
			`(e => e === document.body ? '' : (e.getAttribute('aria-label') || e.name || e.textContent || `+
				`e.id).trim())(document.activeElement)`)
		if at == "" || len(reached) > 0 && at == reached[0] {
			break
		}
		reached = append(reached, at)
		if value[bool](b, `(e => !e.closest('.deck') && e.getBoundingClientRect().top >= `+
			`document.querySelector('.deck').getBoundingClientRect().top)(document.activeElement)`) {
			t.Errorf("%s has the focus behind the deck", at)
		}
	}
	all := strings.Join(reached, "\n")
	for _, want := range []string{"Skip to the limits", "Which limit do I need?", "traffic", "a retry storm",
		"Limit: Token bucket", "Remove Ban", "Add a limit", "your own log", "log", "Send a request", "speed", "+1 µs"} {
		if !strings.Contains(all, want) {
			t.Errorf("the keyboard does not reach %q:\n%s", want, all)
		}
	}
}

func TestTheAddressKeepsWhatIsSetUp(t *testing.T) {
	b := openPlayground(t, "?panel=ban+3/1m+for+2m&traffic=steady&rate=2/s")
	b.until("the panel is that of the address", panel("Ban")+`?.querySelector('textarea').value === 'ban 3/1m for 2m'`)
	value[bool](b, `(e => { e.value = 'token-bucket 2/s burst 5 and fixed-window 10/10s'; e.dispatchEvent(new `+
		`Event('change', {bubbles: true})); return true })(document.querySelector('.panel textarea'))`)
	b.until("two rules are one panel",
		`document.querySelector('.panel h3').textContent === 'Token bucket + fixed window'`)
	got := value[string](b, `location.search`)
	if got != "?panel=token-bucket+2%2Fs+burst+5+and+fixed-window+10%2F10s&traffic=steady&rate=2%2Fs" {
		t.Errorf("the address is %s", got)
	}
	value[bool](b, `(e => { e.value = 'token-bucket many'; e.dispatchEvent(new Event('change', {bubbles: true})); `+
		`return true })(document.querySelector('.panel textarea'))`)
	b.until("a mistake is shown where it is",
		`document.querySelector('.panel .wrong').textContent.includes('want token-bucket units/period')`)
	value[bool](b, `history.back(), true`)
	b.until("going back goes back", `document.querySelector('.panel h3').textContent === 'Token bucket + fixed window'`)
}

func TestTheDialogueEndsInALimit(t *testing.T) {
	b := openPlayground(t, "")
	b.press("#open-guide")
	for _, answer := range []string{"How many requests come in a time", "Any way, up to the number",
		"Somewhat, if that saves memory"} {
		value[bool](b, `[...document.querySelectorAll('#step .choice')].find(e => e.textContent === `+
			`'`+answer+`').click(), true`)
	}
	got := value[string](b, `[...document.querySelectorAll('#step pre')].map(e => e.textContent).join('|')`)
	if got != "Limit: limits.SlidingWindow(limits.PerMinute(100)),|limit: sliding-window 100/1m" {
		t.Errorf("the dialogue ends in %s", got)
	}
	b.shotDialog("playground-guide")
	b.press("#step .main")
	b.until("it is tried",
		`document.querySelectorAll('.panel').length === 1 && document.querySelector('.panel h3').textContent === `+
			`'Sliding window'`)
}

func TestThePlaygroundBeginsWithWhatHasPassed(t *testing.T) {
	b := openPlayground(t, "")
	if at := value[float64](b, clockOfPage); at < 30e6 {
		t.Errorf("the clock is at %v µs, want 30 s at least", at)
	}
	b.until("every panel has decided what came in 30 s",
		`[...document.querySelectorAll('.panel')].every(p => [...p.querySelectorAll('.counts span')].reduce((n, e) => n + `+
			`Number(e.textContent), 0) > 20)`)
	if empty := value[int](b,
		`[...document.querySelectorAll('.panel canvas')].filter(c => c.getContext('2d').getImageData(c.width * .3, 0, `+
			`c.width * .2, c.height - 9).data.every(v => v === 0)).length`); empty > 0 {
		t.Errorf("the past of %d panels is empty", empty)
	}
	if value[string](b, `document.getElementById('verdict').textContent.trim()`) == "" {
		t.Error("there is no answer to look at")
	}
	b.press("#pause")
	b.press("#restart")
	b.until("it begins at the beginning", clockOfPage+` === 0`)
	b.press(`#setup label:has([value="steady"])`)
	b.until("another stream has passed, too", clockOfPage+` === 30e6`)
}

// A calendar counts more days than others, and its turns are those of months.
func TestAMonthIsShownInDays(t *testing.T) {
	b := openPlayground(t, "?panel=calendar+20%2Fmonth&panel=fixed-window+20%2F30d&traffic=steady&rate=1%2Fday&span=2160h")
	b.press("#pause")
	got := value[string](b, `[document.getElementById('span'), ...document.querySelectorAll('.counts')].map(e => `+
		`e.textContent).join('|') + '|' + document.getElementById('now').textContent.slice(0, 8)`)
	if got != "the last 90 d, and the next 15 d|6723|6129|90 d 0 h" {
		t.Errorf("it shows %s", got)
	}
}

// clockOfPage is the time of the page, in microseconds.
const clockOfPage = `Number(document.getElementById('now').textContent.replace(/[ .s]/g, ''))`

func TestTheDialogueEndsInACalendar(t *testing.T) {
	b := openPlayground(t, "")
	b.press("#open-guide")
	for _, answer := range []string{"How many requests come in a time", "Any way, up to the number",
		"Yes: the count starts anew at set times, as a quota does", "By the calendar: with the month, in a time zone"} {
		value[bool](b, `[...document.querySelectorAll('#step .choice')].find(e => e.textContent === `+
			`'`+answer+`').click(), true`)
	}
	got := value[string](b, `[...document.querySelectorAll('#step pre')].map(e => e.textContent).join('|')`)
	if got != `Limit: limits.Calendar(10000, "month"),|limit: calendar 10000/month` {
		t.Errorf("the dialogue ends in %s", got)
	}
	b.press("#step .main")
	b.until("it is tried",
		`document.querySelectorAll('.panel').length === 1 && document.querySelector('.panel h3').textContent === `+
			`'Calendar' && /^[\d,]+ of 10,000 left/.test(document.querySelector('.state').textContent)`)
}

// Times are rounded on the page, and exact in answers. Both are written alike: "173 ms", not "173ms".
func TestTimesHaveOneForm(t *testing.T) {
	b := openPlayground(t,
		"?panel=token-bucket+3/7s&panel=fixed-window+1/1h&panel=ban+2/1m+for+1m&traffic=poisson&rate=2/s")
	for i := range 3 {
		b.press(".panel:nth-child(" + strconv.Itoa(i+1) + ") h3 button")
		b.until("its answer is shown", `document.querySelectorAll('#said li').length === 1`)
		said := value[string](b,
			`[...document.querySelectorAll('.state, #said li, #proof')].map(e => e.textContent).join('\n')`)
		if !regexp.MustCompile(`\d (µs|ms|s|min|h)\b`).MatchString(said) ||
			regexp.MustCompile(`\d(ns|µs|ms|s|m|h)\b`).MatchString(said) {
			t.Errorf("times have several forms, or there are none:\n%s", said)
		}
	}
}

// A telephone shows the first panel at once. The form is behind a button.
func TestTheFormIsFoldedOnATelephone(t *testing.T) {
	b := openPlayground(t, "")
	b.size(390)
	if top := value[float64](b, `document.querySelector('.panel').getBoundingClientRect().top`); top > 550 {
		t.Errorf("the first panel begins at %v", top)
	}
	const rate = `document.getElementsByName('rate')[0].checkVisibility()`
	if value[bool](b, rate) {
		t.Error("the form is not folded")
	}
	value[bool](b, `document.getElementById('unfold').focus(), true`)
	b.key(kb.Enter)
	b.until("the form is unfolded",
		rate+` && document.getElementById('unfold').getAttribute('aria-expanded') === 'true'`)
	b.key(kb.Enter)
	b.until("and folded", `!(`+rate+`)`)
	b.size(1280)
	if !value[bool](b, rate+` && !document.getElementById('unfold').checkVisibility()`) {
		t.Error("a wide window has a form that is folded")
	}
	b = openPlayground(t, "?rate=quick")
	b.size(390)
	b.until("what is wrong in it is shown",
		rate+` && document.getElementById('mistake').textContent.includes('such as 2/s')`)
}

// The bar of what can be changed is one row in a window of 1,200, with all its texts. In a narrower one no field
// stands alone in the last row.
func TestTheBarOfThePlaygroundDoesNotWrap(t *testing.T) {
	b := openPlayground(t, "")
	const rows = `Object.values(Object.groupBy([...document.querySelectorAll('.row > *')].filter(e => ` +
		`e.checkVisibility()), e => Math.round(e.getBoundingClientRect().bottom))).map(r => r.length)`
	for _, width := range []int64{1920, 1345, 1344, 1280, 1200, 1176, 1024, 900, 768} {
		b.size(width)
		if got := value[[]int](b, rows); width >= 1200 && len(got) != 1 || len(got) > 2 || got[len(got)-1] < 2 {
			t.Errorf("%d wide: the rows have %d fields", width, got)
		}
		if lines := value[string](b,
			`[...document.querySelectorAll('.row > label, .row legend')].filter(e => { const r = document.createRange(); `+
				`r.selectNodeContents(e.firstChild.nodeType === 3 ? e.firstChild : e); return e.checkVisibility() && `+
				`r.getBoundingClientRect().height > 30; }).map(e => e.textContent.trim().slice(0, 20)).join()`); lines != "" {
			t.Errorf("%d wide: of two lines are %s", width, lines)
		}
		b.fits(width)
	}
	b.size(1200)
	if got := value[string](b,
		`[...document.querySelectorAll('.presets')].map(e => Math.round(e.getBoundingClientRect().height / `+
			`parseFloat(getComputedStyle(e).lineHeight))).join()`); got != "1,1" {
		t.Errorf("the presets have %s lines", got)
	}
	if cut := value[string](b,
		`(s => { const c = document.createElement('canvas').getContext('2d'); c.font = getComputedStyle(s).font; return `+
			`c.measureText(s.selectedOptions[0].text).width > s.clientWidth - 40 ? s.selectedOptions[0].text : ''; `+
			`})(document.querySelector('.row select'))`); cut != "" {
		t.Errorf("%q is cut off", cut)
	}
	b.shotDialog("playground-1200")
}

// A window of 1280 at 200%, and one of 320, as WCAG has it (1.4.4, 1.4.10).
func TestThePlaygroundIsReadable(t *testing.T) {
	b := openPlayground(t,
		"?panel=fixed-window+5/5s&panel=leaky-queue+5/5s+and+2/s&panel=many"+
			"&traffic=script&script=1s+x20,+every+40s&retry=wait")
	for _, width := range []int64{1280, 640, 320} {
		b.size(width)
		b.fits(width)
		b.readable("the playground, " + strconv.FormatInt(width, 10) + " wide")
	}
	b.size(640)
	for _, id := range []string{"send", "pause", "speed", "restart", "now"} {
		if !value[bool](b, `(r => r.left >= 0 && r.right <= innerWidth && r.bottom <= innerHeight && r.width > `+
			`20)(document.getElementById('`+id+`').getBoundingClientRect())`) {
			t.Errorf("at 200%%, %s is outside of the window", id)
		}
	}
	value[bool](b, `document.getElementById('unfold').click(), true`)
	b.press("#open-guide")
	b.readable("the dialogue")
	// The marks in the pictures, which are no text, against the panel: 3:1 (1.4.11).
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		if short := value[string](b, `(() => {
			const lum = hex => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => { const v = parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16) / 255; return sum + w * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); }, 0);
			const long = hex => hex.length === 4 ? '#' + [...hex.slice(1)].map(c => c + c).join('') : hex;
			const of = name => lum(long(getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()));
			return ['ink', 'soft', 'accent', 'denied'].filter(n => { const [x, y] = [of(n), of('card')].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05) < 3; }).join();
		})()`); short != "" {
			t.Errorf("%s: in pictures too little contrast: %s", scheme, short)
		}
	}
}

func TestThePlaygroundWithoutMotion(t *testing.T) {
	b := openPlayground(t, "?traffic=click")
	command(b, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	b.press("#send")
	b.until("it is decided", panel("Token bucket")+`.querySelector('.allowed').textContent === '1'`)
	b.until("the picture has words",
		panel("Token bucket")+`.querySelector('canvas').getAttribute('aria-label').includes('1 allowed')`)
}

func TestThePlaygroundIsSeenByDayAndNight(t *testing.T) {
	for _, scene := range []struct {
		name, query string
		steps       int // of a fifth of a second
	}{
		{"playground", "", 90},
		{"playground-storm", "?panel=fixed-window+5/5s&panel=token-bucket+5/5s&panel=leaky-queue+5/5s&traffic=script&script=1s+x20,+every+40s&retry=wait", 70},
		{"playground-rules", "?panel=token-bucket+2/s+burst+5+and+fixed-window+10/10s&panel=token-bucket+2/s+burst+5&panel=fixed-window+10/10s&traffic=poisson&rate=3/s", 120},
		{"playground-turn", "?panel=fixed-window+5/5s&panel=anchored-window+5/5s&panel=sliding-window+5/5s&panel=sliding-log+5/5s&traffic=script&script=4.6s+x5,+5.4s+x5,+every+20s", 62},
		{"playground-costs", "?limit=20/10s&traffic=steady&rate=1/s&cost=1,+1,+1,+8", 120},
		{"playground-skewed",
			"?panel=sliding-window+10/5s&panel=sliding-log+10/5s&panel=fixed-window+10/5s&traffic=script&script=4.9s+x10,+6s,+6.5s,+7s,+7.5s,+8s,+8.5s,+9s,+9.5s,+every+20s", 52},
	} {
		b := openPlayground(t, scene.query)
		b.press("#pause")
		b.press("#restart")
		for range scene.steps {
			promised[bool](b, `document.querySelector('[data-by="100000"]').click(), `+
				`document.querySelector('[data-by="100000"]').click(), new Promise(r => requestAnimationFrame(() => r(true)))`)
		}
		b.shotWhole(scene.name)
		if scene.name != "playground" {
			continue
		}
		for _, scheme := range []string{"light", "dark"} { // what a telephone shows
			b.scheme(scheme)
			b.size(400)
			value[bool](b, `document.getElementById('panels-title').scrollIntoView(), true`)
			b.drawn()
			b.shotDialog("playground-phone-" + scheme)
		}
	}
}

// A frame has 16.7 ms. What it takes here is logged, and no test: machines differ.
func TestHowLongAFrameTakes(t *testing.T) {
	b := openPlayground(t, "?rate=20/s&speed=10")
	b.until("the pictures are full", `Number(document.querySelector('.panel .denied').textContent) > 600`)
	// of this machine, others use it, too
	command(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	script := func() (seconds float64) {
		for _, m := range command(b, performance.GetMetrics, cdp.Empty{}).Metrics {
			if m.Name == "ScriptDuration" {
				seconds = m.Value
			}
		}
		return seconds
	}
	before := script()
	const frames = 60
	promised[int](b, `new Promise(r => { let n = 0; const each = () => ++n < `+strconv.Itoa(frames)+
		` ? requestAnimationFrame(each) : r(n); each() })`)
	t.Logf("the engine and the drawing of a frame with all panels, full of requests: %.2f ms",
		(script()-before)/frames*1000)
}

// The text of a panel is seen whole, and so is the time of a long picture.
func TestLongTextsFit(t *testing.T) {
	b := openPlayground(t,
		"?panel=account:+token-bucket+10000/1s+burst+5000"+
			"+and+stage-prod:+token-bucket+2000/1s+burst+1000+and+plan-rate:+token-bucket+10/1s+burst+20"+
			"+and+plan-quota:+fixed-window+1000/1d&panel=5/10s"+
			"&traffic=script&script=5m+x9,+every+70m&span=30h&speed=100")
	for _, width := range []int64{1280, 390} {
		b.size(width)
		b.until("the text of the panel is whole",
			`[...document.querySelectorAll('.panel textarea')].every(e => e.scrollHeight <= e.clientHeight + 1)`)
		if rows := value[int](b, `document.querySelectorAll('.panel textarea')[1].rows`); rows != 1 {
			t.Errorf("%d wide: a short text has %d rows", width, rows)
		}
		b.until("its clock tells hours",
			`/^\d+ h \d+ min \d+\.\d{3} \d{3} s$/.test(document.getElementById('now').textContent)`)
		if !value[bool](b, `(r => r.left >= 0 && r.right <= innerWidth && r.bottom <= `+
			`innerHeight)(document.getElementById('now').getBoundingClientRect())`) {
			t.Errorf("%d wide: the time is outside of the window", width)
		}
		b.fits(width)
	}
}
