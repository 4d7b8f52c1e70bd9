package browsertest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
)

// newShedder returns a shedder with room for two requests, of which one may be of the class
// whose name would be a script. Paths choose the class: /o has the lesser one.
func newShedder(mode core.Mode) *shed.Shedder[*http.Request] {
	return shed.MustNew(shed.Options[*http.Request]{
		Classes: []shed.Class{{Name: "critical"}, {Name: "<b>other</b>", Share: 50}},
		Classify: func(r *http.Request) int {
			if r.URL.Path == "/o" {
				return 1
			}
			return 0
		},
		Limit: 2, Mode: mode,
	})
}

// classRow returns an expression for the row of a class.
func classRow(name string) string {
	return `[...document.querySelectorAll('#shed-table tbody tr')].find(r => r.cells[0].textContent === '` + name + `')`
}

func TestThePageShowsWhatIsShed(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	shedder := newShedder(core.Enforce)
	s.counts.WatchShedder("api", shedder)
	acquire := func(path string) *shed.Permit {
		p, _ := shedder.Acquire(t.Context(), httptest.NewRequest("GET", path, nil))
		return p
	}
	acquire("/o") // fills the share of its class
	b := open(t, s)
	b.until("the panel is shown", `document.getElementById('shedding').checkVisibility()`)
	b.until("it says that nothing is denied", `document.getElementById('headline').textContent === 'Nothing is denied.'`)
	b.until("what is in flight is shown",
		`document.getElementById('shedders').textContent.startsWith('api: enforce, limit 2 (at most 10\u202f000), 1 in `+
			`flight, the oldest for ')`)
	acquire("/")
	acquire("/o")
	acquire("/o")
	// In one expression, since rates are 0 again after five seconds.
	other, critical := classRow("<b>other</b>"), classRow("critical")
	b.until("headline, tile and row say which class is shed", `document.getElementById('headline').textContent === 'The service is full: class <b>other</b> is shed, with a 503.'
		&& [...document.querySelectorAll('#verdicts .shed')].some(e => e.textContent.startsWith('Shed'))
		&& `+other+`.cells[6].className === 'n shed' && `+critical+`.cells[6].textContent === '0'`)
	b.until("numbers are those of the classes", `[...`+other+`.cells].map(c => c.textContent).filter((t, i) => [0, 1, 2, 3, 9].includes(i)).join() === '<b>other</b>,50%,1,1,2'
		&& [...`+critical+`.cells].map(c => c.textContent).filter((t, i) => [0, 1, 2, 3, 9].includes(i)).join() === 'critical,100%,2,1,0'`)
	b.shot("shed")
	verdicts := value[string](b,
		`[...document.querySelectorAll('#verdicts div')].filter(e => /^(Denied|Unavailable)/.test(e.textContent)).map(e => `+
			`e.textContent).join()`)
	if verdicts != "Denied0/s,Unavailable0/s" {
		t.Errorf("what is shed counts as %s", verdicts)
	}
	if n := value[int](b,
		`document.querySelectorAll('#shedding button, #shedding b b, #shedding td b, #shedding th b').length`); n != 0 {
		t.Errorf("the panel has %d buttons or elements of a name", n)
	}
	s.visit(9, "GET", "/api/things", "203.0.113.77")
	acquire("/o")
	b.until("both are told apart",
		`document.getElementById('headline').textContent.includes('Rule per-client denies.') && `+
			`document.getElementById('headline').textContent.includes('is shed, with a 503.')`)
	next := newShedder(core.Shadow)
	s.counts.WatchShedder("next", next)
	for range 3 {
		next.Acquire(t.Context(), httptest.NewRequest("GET", "/o", nil))
	}
	b.until("a shadow says what it would shed",
		`document.getElementById('shedders').textContent.includes('next: shadow, limit 2') && `+
			`document.getElementById('shedders').textContent.includes('besides 2 let in by shadow alone')`)
	b.until("classes have the names of their shedders", classRow("next / <b>other</b>")+`?.cells[9].textContent === '0'`)
	off := shed.Options[*http.Request]{Mode: core.Disabled}
	if err := next.Replace(off); err != nil {
		t.Fatal(err)
	}
	b.until("a shedder that is disabled says so",
		`document.getElementById('shedders').textContent.includes('next: disabled')`)
	if labels := value[string](b,
		`[...`+classRow("api / critical")+`.cells].slice(1).map(c => `+
			`c.dataset.label).join()`); strings.Count(labels, ",") != 8 || strings.Contains(labels, "undefined") {
		t.Errorf("on narrow screens the numbers are labelled %q", labels)
	}
}

func TestAServiceWithoutAShedderHasNoPanel(t *testing.T) {
	s := newSite(t, admin.Options{})
	b := open(t, s)
	if value[bool](b, `document.getElementById('shedding').checkVisibility() || `+
		`document.getElementById('verdicts').textContent.includes('Shed')`) {
		t.Error("there is a panel of shedders, and no shedder")
	}
}

func TestAServiceThatOnlyShedsHasNoRules(t *testing.T) {
	counts := stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
	shedder := newShedder(core.Enforce)
	counts.WatchShedder("api", shedder)
	page, err := admin.New(func(*http.Request) (admin.Person, error) { return admin.Person{Name: "ann"}, nil },
		admin.Sources{Stats: counts}, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := openFrom(t, page, "")
	b.until("the page is live", `document.getElementById('live').textContent.startsWith('live')`)
	b.until("it speaks of shedding alone", `document.getElementById('headline').textContent === 'Nothing is shed.'
		&& [...document.querySelectorAll('#verdicts dt')].map(e => e.textContent).join() === 'Admitted,Shed'
		&& !document.getElementById('facts').textContent.includes('rules')`)
	if n := value[int](b, `[...document.querySelectorAll('.of-rules')].filter(e => e.checkVisibility()).length`); n != 0 {
		t.Errorf("%d parts of the page are about rules", n)
	}
	for range 3 {
		shedder.Acquire(t.Context(), httptest.NewRequest("GET", "/o", nil))
	}
	b.until("it says which class is shed",
		`document.getElementById('headline').textContent === 'The service is full: class <b>other</b> is shed, with a 503.'`)
	b.shot("shed-only")
}
