package browsertest

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
)

func TestThePageIsSeenByDayAndNight(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	s.traffic()
	b := open(t, s)
	b.until("the rules are shown", `document.querySelectorAll('#rule-table tbody tr').length === 5`)
	s.visit(20, "GET", "/api/things", "203.0.113.77")
	b.until("it says who denies", `document.getElementById('headline').textContent.startsWith('Rule per-client denies')`)
	b.until("it says what leases hold",
		`document.getElementById('facts').textContent.includes('16 units held of 1 key, 48 taken in 3 blocks (2 returned)')`)
	b.shot("page")
	s.open.Store(true)
	b.until("it says that the backend is away",
		`document.getElementById('headline').textContent.startsWith('Backend redis does not answer')`)
	b.shot("broken")
}

func TestThePageWhileRulesAreReplaced(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	b := open(t, s)
	const button = `button[aria-label="Change the mode of rule per-client"]`
	b.openRow("rule-table", "per-client")
	b.do("focus a button", chromedp.Focus(chromedp.CSS(button)))
	for i := range 20 { // the page is asked for now and then meanwhile
		text := rules
		if i%2 == 0 {
			text = strings.ReplaceAll(strings.ReplaceAll(rules, "log-in", "sign-in"), "fixed-window 3/day", "fixed-window 4/day")
		}
		p := parse(t, text)
		if err := s.limit.Replace(p); err != nil {
			t.Fatal(err)
		}
		s.visit(1, "GET", "/api/things", "203.0.113.77")
	}
	s.write(strings.ReplaceAll(strings.ReplaceAll(rules, "log-in", "sign-in"), "fixed-window 3/day", "fixed-window 4/day"))
	b.until("the new limit is shown", row("per-client")+`.cells[1].textContent === 'fixed-window 4/1dby address'`)
	b.until("the new rule is shown", row("sign-in")+`?.cells[1].textContent.startsWith('ban ')`)
	b.until("the old rule is gone", row("log-in")+`.cells[1].firstChild.textContent === 'gone'`)
	b.until("the policy tells what changed",
		`document.getElementById('facts').textContent.includes('rule "per-client": limit: fixed-window 3/1d → `+
			`fixed-window 4/1d')`)
	got := value[string](b, `document.activeElement.getAttribute('aria-label')`)
	if got != "Change the mode of rule per-client" {
		t.Errorf("the focus has gone to %q", got)
	}
	s.write("version: 1\nrules: <script>alert(1)</script>\n")
	b.until("a mistake in the file is shown",
		`document.getElementById('facts').textContent.includes('Policy not applied')`)
	b.until("and is the headline",
		`document.getElementById('headline').textContent.startsWith('The policy file is not in force')`)
}

func TestThePageSaysThatItIsBlind(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	b.forgive("403")
	s.unknown.Store(true)
	b.until("it says that there is no news",
		`document.getElementById('lost').checkVisibility() && document.getElementById('lost').textContent.includes('you `+
			`are not known here')`)
	b.until("it is not live", `document.getElementById('live').textContent === 'not live'`)
	s.unknown.Store(false)
	b.until("it is live again",
		`!document.getElementById('lost').checkVisibility() && `+
			`document.getElementById('live').textContent.startsWith('live')`)
}

// A page that is opened, or opened again, knows what its process has counted before.
func TestThePageHasRatesAtOnce(t *testing.T) {
	s := newSite(t, admin.Options{})
	s.counts.WatchShedder("api", newShedder(core.Enforce))
	s.visit(9, "GET", "/api/things", "203.0.113.77")
	b := open(t, s)
	const watch = `window.said = {};
		new MutationObserver(() => {
			for (const e of document.querySelectorAll('#headline, #verdicts dd span, #rule-table td.n, #shed-table td.n')) {
				if (e.textContent !== '' && e.textContent !== '…') (said[e.id || e.closest('table, dl').id] ??= []).push(e.textContent);
			}
		}).observe(document, {subtree: true, childList: true, characterData: true});`
	command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
	command(b, page.Reload, page.ReloadParams{})
	b.until("the page is live",
		`document.getElementById('live').textContent.startsWith('live') && window.said !== undefined`)
	if first := value[string](b, `said.headline[0]`); first !=
		"Rule per-client denies. Rule per-client-next would deny." {
		t.Errorf("the page first says %q", first)
	}
	if unknown := value[string](b,
		`Object.keys(said).sort().join() + ': ' + Object.values(said).flat().filter(t => t === `+
			`'–').length`); unknown != "headline,rule-table,shed-table,verdicts: 0" {
		t.Errorf("rates that are not known, by place: %s", unknown)
	}
	b.shot("reloaded")
}

// What a shadow would do is never said to be done, and has a colour of its own.
func TestTheHeadlineKnowsShadows(t *testing.T) {
	s := newSite(t, admin.Options{})
	const file = "version: 1\nclient: {peer: true}\nrules:\n  - {name: next, key: address, " +
		"limit: fixed-window 2/day, mode: shadow}\n"
	s.write(file)
	b := open(t, s)
	b.until("the rule is in force", `latest().Rules.some(r => r.InForce && r.Name === 'next')`)
	says := func(kind, text string) string {
		return `(e => e.className === 'headline ` + kind + `' && e.textContent === '` + text +
			`')(document.getElementById('headline'))`
	}
	// Rates are those of five seconds, so that requests have to go on coming.
	meanwhile := func(expression string, visit func()) {
		t.Helper()
		for !value[bool](b, expression) {
			visit()
			b.drawn()
		}
	}
	visit := func() { s.visit(4, "GET", "/", "203.0.113.77") }
	meanwhile(says("would", "Nothing is denied. Rule next would deny."), visit)
	b.until("the list says so in its colour",
		`document.querySelector('#top-table td.warm').textContent === 'next (would be denied)'`)
	value[bool](b, `form.elements.key.value = '203.0.113.77', form.requestSubmit(), true`)
	b.until("so does the reply",
		`document.querySelector('#reply td.says.warm')?.textContent.startsWith('would deny, retry after ')`)
	shadow := newShedder(core.Shadow)
	s.counts.WatchShedder("api", shadow)
	b.until("the shedder is known", `latest().Shedders.length === 1`)
	meanwhile(says("would",
		"Nothing is denied. Rule next would deny. Class <b>other</b> would be shed."), func() {
		visit()
		shadow.Acquire(t.Context(), httptest.NewRequest("GET", "/o", nil))
	})
	s.write(strings.ReplaceAll(file, "shadow", "enforce 50%"))
	b.until("half of the keys are denied", `latest().Rules.some(r => r.InForce && r.Mode === 'enforce 50%')`)
	meanwhile(`$('headline').className === 'headline denies' && $('headline').textContent.startsWith(`+
		`'Rule next denies. Rule next would deny more, if enforced for all keys.')`, func() {
		for i := range 20 {
			s.visit(4, "GET", "/", fmt.Sprint("203.0.113.", i))
		}
	})
	if n := value[int](b, `new Set(['.headline', '.headline.denies', '.headline.would', '.headline.sheds', `+
		`'.headline.broken'].map(`+
		`name => { const e = $('headline'); e.className = name.replaceAll('.', ' '); const s = getComputedStyle(e); `+
		`return s.borderLeftColor + s.borderLeftStyle + s.backgroundColor; })).size`); n != 5 {
		t.Errorf("five kinds of headlines have %d looks", n)
	}
}

func TestThePageSaysHowKeysAreUnmasked(t *testing.T) {
	for display, want := range map[admin.KeyDisplay]bool{admin.Masked: true, admin.Shown: false} {
		b := open(t, newSite(t, admin.Options{Keys: display}))
		b.until("the page knows", `session !== null`)
		got := value[bool](b, `(e => e.checkVisibility() && e.textContent.includes('Keys: admin.Shown'))($('masked'))`)
		if got != want {
			t.Errorf("with keys of kind %d it says how they are unmasked: %t", display, got)
		}
	}
}

func TestTablesHaveOneWidth(t *testing.T) {
	s := newSite(t, admin.Options{})
	s.counts.WatchShedder("api", newShedder(core.Enforce))
	s.traffic()
	b := open(t, s)
	b.until("all are shown",
		`[...document.querySelectorAll('main table')].filter(e => e.checkVisibility()).length === 4`)
	for _, width := range []int64{1400, 1280, 390} {
		b.size(width)
		widths := value[[]int](b, `[...document.querySelectorAll('main table, .past, #ask')].filter(e => `+
			`e.checkVisibility()).map(e => Math.round(e.getBoundingClientRect().width))`)
		if slices.Min(widths) != slices.Max(widths) {
			t.Errorf("in a window of %d the widths are %v", width, widths)
		}
	}
}

func TestThePagePausesWhileNobodyLooks(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	hide := func(hidden string) {
		value[bool](b, `Object.defineProperty(document, 'hidden', {value: `+hidden+`, configurable: true}); `+
			`document.dispatchEvent(new Event('visibilitychange'))`)
	}
	hide("true")
	b.until("it says that it pauses", `document.getElementById('live').textContent === 'paused'`)
	b.until("nothing is under way that would ask again", `timer === 0 && !running`)
	value[bool](b, `kept.forEach(s => s.At -= 600e3), true`) // ten minutes pass
	hide("false")
	b.until("it is live again", `document.getElementById('live').textContent.startsWith('live') && timer !== 0`)
	if begin := value[float64](b, `kept.length > 1 ? latest().At - kept[0].At : -1`); begin < 0 || begin > 60e3 {
		t.Errorf("rates are of %v ms", begin)
	}
}

// Names and keys are shown as they are here. The browser would complain of a script.
func TestScriptsInNamesAndKeysAreText(t *testing.T) {
	const script = `</script><img src=/x onerror=alert(1)>`
	s := newSite(t, admin.Options{Changes: true, Keys: admin.Shown})
	rule := parse(t, rules)[1]
	rule.Name, rule.Key, rule.KeyName = script, constant("key"+script), "<b>kind</b>"
	if err := s.limit.Replace([]nethttp.Rule{rule}); err != nil {
		t.Fatal(err)
	}
	s.visit(9, "GET", "/api/things", "203.0.113.77")
	b := open(t, s)
	b.until("the name is text",
		`[...document.querySelectorAll('#rule-table th')].some(e => e.textContent.includes('`+script+`'))`)
	b.until("the key is text",
		`[...document.querySelectorAll('#denial-table td')].some(e => e.textContent === '<b>kind</b> key`+script+`')`)
	b.openRow("denial-table", "<b>kind</b> key<")
	b.press(`#denial-table button[aria-label^="Why"]`)
	b.until("the reply is text", `document.querySelector('#reply h3')?.textContent === '<b>kind</b> key`+script+`'`)
	b.press(`#denial-table button[aria-label^="Forgive"]`)
	b.until("the dialog is text",
		`document.getElementById('dialog-title').textContent === 'Forgive <b>kind</b> key`+script+`'`)
	b.press("#dialog-do")
	b.until("the toast is text", `document.getElementById('toast').textContent.includes('onerror')`)
	if n := value[int](b, `document.querySelectorAll('img, main script').length`); n != 0 {
		t.Errorf("there are %d elements of a client", n)
	}
}

// reach goes on by the tabulator key until the element e that has the focus is as wanted.
func (b *tab) reach(wanted string) {
	b.Helper()
	for range 200 {
		b.key(kb.Tab)
		if value[bool](b, `(e => `+wanted+`)(document.activeElement)`) {
			return
		}
	}
	b.Fatalf("the keyboard does not reach what has %s", wanted)
}

func TestThePageIsUsedByKeyboard(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	s.visit(4, "GET", "/api/things", "203.0.113.77")
	b := open(t, s)
	b.until("the denial is shown", `document.querySelectorAll('#denial-table > tbody > tr').length === 1`)
	b.openRow("denial-table", "address in 203.0.113.0/24")
	b.reach(`e.textContent === 'uploads'`)
	b.key(kb.Enter)
	b.until("the rule is open", `document.querySelector('#rule-table tr.below') !== null`)
	b.do("begin at the top", chromedp.Focus(chromedp.CSS(".skip")))
	var reached []string
	for range 100 {
		at := value[string](b,
			`(e => e === document.body ? '' : (e.getAttribute('aria-label') || e.name || e.textContent).trim() + `+
				`(getComputedStyle(e).outlineStyle === 'none' ? ' (no focus to be seen)' : ''))(document.activeElement)`)
		if at == "" || len(reached) > 0 && at == reached[0] {
			break
		}
		reached = append(reached, at)
		b.key(kb.Tab)
	}
	all := strings.Join(reached, "\n")
	if strings.Contains(all, "no focus to be seen") {
		t.Errorf("the focus cannot be seen:\n%s", all)
	}
	for _, want := range []string{"Skip to the rules", "Requests over time", "everybody", "uploads",
		"Rule uploads over time", "Change the mode of rule uploads", "Change the limit of rule " +
			"uploads", "about", "key", "rule", "limit", "Ask", "Why is address in 203.0.113.0/24", "Forgive address " +
			"in 203.0.113.0/24"} {
		if !strings.Contains(all, want) {
			t.Errorf("the keyboard does not reach %q:\n%s", want, all)
		}
	}
	if unnamed := value[string](b,
		`[...document.querySelectorAll('button, input, select, textarea, [role=img]')].filter(e => e.checkVisibility() && `+
			`!e.getAttribute('aria-label') && !e.labels?.length && !e.textContent.trim()).map(e => `+
			`e.outerHTML).join()`); unnamed != "" {
		t.Errorf("without a name: %s", unnamed)
	}
	b.do("focus a button", chromedp.Focus(chromedp.CSS(`button[aria-label="Change the mode of rule uploads"]`)))
	b.key(kb.Enter)
	b.until("a dialog opens", dialogOpen)
	if inside := value[bool](b, `document.getElementById('dialog').contains(document.activeElement)`); !inside {
		t.Error("the focus is not in the dialog")
	}
	b.key(kb.Escape)
	b.until("the dialog closes", dialogClosed)
	got := value[string](b, `document.activeElement.getAttribute('aria-label')`)
	if got != "Change the mode of rule uploads" {
		t.Errorf("after the dialog, the focus is on %q", got)
	}
}
