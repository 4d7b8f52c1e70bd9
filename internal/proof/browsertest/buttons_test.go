package browsertest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// press clicks on the first visible element of a selector.
func (b *tab) press(selector string) {
	b.Helper()
	b.do("press "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// write puts a text into a field.
func (b *tab) write(selector, text string) {
	b.Helper()
	b.do("write into "+selector, chromedp.Focus(chromedp.CSS(selector)))
	value[bool](b, `document.activeElement.select(); true`)
	b.do("write into "+selector, chromedp.KeyEvent(kb.Backspace+text))
}

// choose chooses an option of a select.
func (b *tab) choose(selector, value string) {
	b.Helper()
	b.do("choose "+value, chromedp.SetValue(chromedp.CSS(selector), value))
}

// key presses a key of the keyboard.
func (b *tab) key(key string) {
	b.Helper()
	b.do("press a key", chromedp.KeyEvent(key))
}

// rule returns the state of a rule.
func (s *site) rule(name string) core.RuleState {
	s.Helper()
	for _, r := range s.limit.State().Rules {
		if r.Name == name {
			return r
		}
	}
	s.Fatalf("there is no rule %s", name)
	return core.RuleState{}
}

const (
	dialogOpen   = `document.getElementById('dialog').open`
	dialogClosed = `!document.getElementById('dialog').open`
)

// row returns an expression for the row of a rule.
func row(name string) string {
	return `[...document.querySelectorAll('#rule-table tbody tr')].find(r => r.cells[0].textContent.startsWith('` +
		name + `'))`
}

// openRow opens the first row of a table whose text begins as wanted, where a space stands for
// the mark of a key.
func (b *tab) openRow(table, begins string) {
	b.Helper()
	picker := `[...document.querySelectorAll('#` + table +
		` .pick')].find(e => e.closest('tr').textContent.replace(/#[0-9a-f]{6}/, ' ').startsWith('` + begins + `'))`
	b.until("the row "+begins+" is there", picker+` !== undefined`)
	value[bool](b, picker+`.click(), true`)
	b.until("the row "+begins+" is open",
		picker+`.getAttribute('aria-expanded') === 'true' && document.querySelector('#`+table+` tr.below') !== null`)
}

func TestTheModeOfARuleIsChanged(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	b := open(t, s)
	const mode = `button[aria-label="Change the mode of rule per-client"]`
	b.openRow("rule-table", "per-client")
	b.press(mode)
	b.until("a dialog opens", dialogOpen)
	if text := value[string](b, `document.getElementById('dialog').textContent`); !strings.Contains(text,
		"On eu-1 only") || !strings.Contains(text, "Mode of per-client") {
		t.Errorf("the dialog says %q", text)
	}
	b.press("#dialog-cancel")
	b.until("the dialog closes", dialogClosed)
	if s.rule("per-client").Mode != core.Enforce {
		t.Error("a change that was canceled is done")
	}
	b.press(mode)
	b.choose("#dialog select[name=mode]", "shadow")
	b.choose("#dialog select[name=minutes]", "240")
	b.write("#dialog input[name=why]", "<b>a partner</b>")
	b.shotDialog("mode")
	b.press("#dialog-do")
	b.until("the rule is a shadow", row("per-client")+`.cells[2].textContent === 'shadow'`)
	b.until("it says so", `document.getElementById('toast').textContent.includes('per-client: shadow, was enforce')`)
	b.until("the page says that it differs", row("per-client")+`.cells[0].textContent.includes('ann: <b>a partner</b>')`)
	if got := s.rule("per-client"); got.Mode != core.Shadow || got.Override.Until.IsZero() {
		t.Errorf("the rule: %+v", got)
	}
	b.press(".differs:not([hidden]) summary")
	b.until("it shows what to write",
		`[...document.querySelectorAll('pre')].some(p => p.textContent === '  - name: per-client\n    mode: shadow # was `+
			`enforce\n' && p.checkVisibility())`)
	b.shot("changed")
	b.press(`button[aria-label="End the change of rule per-client"]`)
	b.until("a dialog opens", dialogOpen)
	b.press("#dialog-do")
	b.until("the rule is enforced", row("per-client")+`.cells[2].textContent === 'enforce'`)
	if got := s.rule("per-client"); got.Mode != core.Enforce || !got.Override.Until.IsZero() {
		t.Errorf("the rule: %+v", got)
	}
}

func TestTheLimitOfARuleIsChanged(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	b := open(t, s)
	b.forgive("422") // the browser reports every answer above 399
	b.openRow("rule-table", "per-client")
	b.press(`button[aria-label="Change the limit of rule per-client"]`)
	b.write("#dialog input[name=limit]", "many")
	b.press("#dialog-do")
	b.until("the dialog says what is wrong",
		`document.getElementById('dialog-error').checkVisibility() && `+
			`document.getElementById('dialog-error').textContent.includes('many')`)
	b.write("#dialog input[name=limit]", "10/minute")
	b.key(kb.Enter)
	b.until("the limit is another", row("per-client")+`.cells[1].firstChild.textContent === 'sliding-window 10/1m'`)
	if got := s.rule("per-client"); got.Limit != limits.SlidingWindow(limits.PerMinute(10)) {
		t.Errorf("the rule: %+v", got)
	}
}

func TestAKeyIsForgiven(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	s.visit(4, "GET", "/api/things", "203.0.113.77")
	b := open(t, s)
	b.until("the denial is shown", `document.querySelectorAll('#denial-table > tbody > tr').length === 1`)
	b.openRow("denial-table", "address in 203.0.113.0/24")
	b.openRow("top-table", "address in 203.0.113.0/24 per-client1")
	b.press(`#denial-table button[aria-label^="Why is address in 203.0.113.0/24"]`)
	b.until("it says why", `document.getElementById('reply').textContent.includes('denies, retry after')`)
	if about := value[string](b, `document.activeElement.textContent`); !strings.HasPrefix(about,
		"address in 203.0.113.0/24") {
		t.Errorf("the focus is on %q", about)
	}
	for i, button := range []string{`#reply button`, `#top-table button[aria-label^="Forgive"]`,
		`#denial-table button[aria-label^="Forgive"]`} {
		if i > 0 {
			s.visit(4, "GET", "/api/things", "203.0.113.77")
		}
		if s.visit(1, "GET", "/api/things", "203.0.113.77") != http.StatusTooManyRequests {
			t.Fatal("the client is not denied")
		}
		b.press(button)
		b.until("a dialog opens", dialogOpen)
		b.press("#dialog-do")
		b.until("the dialog closes", dialogClosed)
		if got := s.visit(1, "GET", "/api/things", "203.0.113.77"); got != http.StatusOK {
			t.Errorf("forgiven by %s: %d", button, got)
		}
	}
}

func TestAKeyAndARequestAreExplained(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	b.forgive("400")
	b.write("#ask input[name=key]", "203.0.113.77")
	b.press("#ask button")
	b.until("every rule says something", `document.querySelectorAll('#reply tbody tr').length === 5`)
	if text := value[string](b, `document.getElementById('reply').innerText`); !strings.Contains(text,
		"Nothing is counted for this key now") {
		t.Errorf("an operator who has mistyped a key reads\n%s", text)
	}
	b.choose("#ask select[name=rule]", "per-client")
	b.key(kb.Enter)
	b.press("#ask button")
	b.until("one rule says something",
		`document.querySelectorAll('#reply tbody tr').length === 1 && `+
			`document.getElementById('reply').textContent.includes('allows')`)
	s.visit(1, "GET", "/api/items", "203.0.113.77")
	b.press("#ask button")
	b.until("one unit is taken",
		`document.querySelector('#reply tbody tr').textContent.includes('allows') && `+
			`!document.getElementById('reply').textContent.includes('Nothing is counted')`)
	mode := core.EnforceFor(25)
	if err := s.limit.Override("per-client", core.Override{Mode: &mode, Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	b.press("#ask button")
	b.until("it says that a share of the keys is limited",
		`document.getElementById('reply').textContent.includes('if this key is among the 25%')`)
	b.press("#ask input[value=request]")
	b.until("a request can be typed",
		`document.getElementById('ask-request').checkVisibility() && !document.getElementById('ask-key').checkVisibility()`)
	b.write("#ask input[name=method]", "POST")
	b.write("#ask input[name=path]", "/login")
	b.write("#ask input[name=address]", "203.0.113.9")
	b.write("#ask textarea", "X-User: alice@example.com\nAccept: */*")
	b.press("#ask button")
	b.until("the request is explained", `document.getElementById('reply').textContent.includes('It would be allowed.')`)
	said := value[string](b, `document.getElementById('reply').innerText`)
	for _, text := range []string{"does not apply: matches none of /api/", "header X-User alic…#", "POST /login"} {
		if !strings.Contains(said, text) {
			t.Errorf("%q is not in\n%s", text, said)
		}
	}
	if strings.Contains(said, "Forgive") {
		t.Error("a read-only page offers to forgive")
	}
	b.shot("why")
	b.write("#ask input[name=path]", "login")
	b.press("#ask button")
	b.until("a mistake is told", `document.getElementById('reply').textContent.includes('must begin with a slash')`)
}

func TestAllRowsAreShown(t *testing.T) {
	s := newSite(t, admin.Options{})
	s.traffic()
	b := open(t, s)
	for _, list := range []string{"denial", "top"} {
		button, rows := "#more", `document.querySelectorAll('#`+list+`-table > tbody > tr').length`
		if list == "top" {
			button = "#more-top"
		}
		b.until("eight rows are shown", rows+` === 8`)
		b.press(button)
		b.until("all rows are shown", rows+` > 8`)
		b.press(button)
		b.until("eight rows are shown", rows+` === 8`)
	}
}

func TestDenialsAreGroupedByKeyAndRule(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	s.visit(3+2, "GET", "/api/things", "198.51.100.7")
	s.visit(3+20, "GET", "/api/things", "203.0.113.77")
	s.visit(2+3, "POST", "/login", "203.0.113.9", "X-User", "alice@example.com")
	b := open(t, s)
	const table = `[...document.querySelectorAll('#denial-table > tbody > tr:not(.below)')].map(r => [...r.cells].map(c ` +
		`=> c.textContent.replace(/#.*/, '')).slice(0, 3).join(' ')).join(' | ')`
	const grouped = "address in 203.0.113.0/24 per-client 20 | header X-User alic… log-in 3 | address in " +
		"198.51.100.0/24 per-client 2"
	b.until("keys denied just now are in the order of their numbers", table+` === '`+grouped+`'`)
	if hint := value[string](b, `document.getElementById('denial-hint').textContent`); !strings.HasPrefix(hint,
		"The last 25, by key and rule. None is older than ") {
		t.Errorf("it says %q", hint)
	}
	if n := value[int](b, `document.querySelectorAll('#denial-table tbody button:not(.pick)').length`); n != 0 {
		t.Errorf("rows that nobody has chosen have %d buttons", n)
	}
	b.reach(`e.matches('#denial-table .pick')`)
	b.key(kb.Enter)
	const singles = `[...document.querySelectorAll('#denial-table tr.below tbody tr')]`
	b.until("its single denials are shown", singles+`.length === 8`)
	if got := value[string](b,
		singles+`.map(r => [...r.cells].slice(1, 3).map(c => c.textContent).join(' ')).filter((t, i, all) => `+
			`all.indexOf(t) === i).join()`); got != "1 0" {
		t.Errorf("their costs, and what was left: %q", got)
	}
	got := value[string](b, `document.querySelector('#denial-table tr.below .hint').textContent`)
	if got != "Limit: fixed-window 3/1d. Decided by: backend." {
		t.Errorf("it says %q", got)
	}
	s.visit(1, "GET", "/api/things", "203.0.113.77")
	b.until("one more is counted", table+` === '`+strings.Replace(grouped, " 20 ", " 21 ", 1)+`'`)
	if at := value[bool](b, `document.activeElement.matches('#denial-table .pick[aria-expanded=true]')`); !at {
		t.Error("the row has lost the focus")
	}
	b.reach(`e.textContent === 'Show all 21'`)
	b.key(kb.Enter)
	b.until("all are shown", singles+`.length === 21`)
	b.size(390)
	if got := value[string](b,
		`[...document.querySelectorAll('#denial-table tr.below table tr')].map(r => r.getBoundingClientRect().height < 40 `+
			`&& [...r.cells].every((c, i) => Math.abs(c.getBoundingClientRect().right - `+
			`document.querySelectorAll('#denial-table tr.below tbody td')[i].getBoundingClientRect().right) < 1)).filter(ok `+
			`=> !ok).join()`); got != "" {
		t.Errorf("on a telephone its columns do not stand below each other: %s", got)
	}
	b.shot("denials")
	b.openRow("denial-table", "address in 198.51.100.0/24")
	b.until("one row is open",
		singles+`.length === 2 && document.querySelectorAll('#denial-table .pick[aria-expanded=true]').length === 1`)
	b.openRow("top-table", "address in 203.0.113.0/24")
	b.until("what can be done is on the row that is chosen",
		`[...document.querySelectorAll('#top-table button:not(.pick)')].map(e => e.textContent).join() === 'Why?,Forgive'`)
}

func TestAReadOnlyPageHasNoButtonsThatChange(t *testing.T) {
	s := newSite(t, admin.Options{})
	s.traffic()
	b := open(t, s)
	b.openRow("denial-table", "address in 203.0.113.0/24")
	b.openRow("top-table", "address in 203.0.113.0/24")
	b.openRow("rule-table", "per-client")
	if text := value[string](b,
		`[...document.querySelectorAll('main button')].filter(e => e.checkVisibility() && !e.matches('.pick')).map(e => `+
			`e.textContent.replace(/ \d+/, '')).filter((t, i, all) => all.indexOf(t) === `+
			`i).sort().join()`); text != "Ask,Show all,Why?" {
		t.Errorf("its buttons: %s", text)
	}
	if who := value[string](b, `document.getElementById('who').textContent`); who != "ann, read-only" {
		t.Errorf("it says %q", who)
	}
}
