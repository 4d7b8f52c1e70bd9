package admin_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/admin"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestAKeyIsForgivenByItsRowOrByItself(t *testing.T) {
	for _, by := range []string{"the last denials", "the keys denied most", "an explanation", "the key"} {
		s := newSite(t, admin.Options{Changes: true})
		s.visit("192.0.2.7")
		if s.visit("192.0.2.7") != http.StatusTooManyRequests {
			t.Fatal("the client is not denied")
		}
		body := `{"Rule":"per-client","Key":"192.0.2.7","Why":"a customer called"}`
		switch by {
		case "the last denials":
			body = `{"ID":"` + s.denials()[0].ID + `","Why":"a customer called"}`
		case "the keys denied most":
			body = `{"ID":"` + s.snapshot().Top[0].ID + `","Why":"a customer called"}`
		case "an explanation":
			body = `{"ID":"` + s.explain(`{"Key":"192.0.2.7"}`).Rules[0].ID + `","Why":"a customer called"}`
		}
		s.ask("POST", "/api/forgive", body, nil)
		if got := s.visit("192.0.2.7"); got != http.StatusOK {
			t.Errorf("forgiven by %s: %d", by, got)
		}
		audits := s.audited()
		if len(audits) != 1 || audits[0].Who != "ann" || audits[0].Action != "forgive" || audits[0].Limiter != "api" ||
			audits[0].Rule != "per-client" || !strings.HasPrefix(audits[0].Key, "address in 192.0.2.0/24#") ||
			audits[0].Why != "a customer called" || audits[0].Err != nil || audits[0].At.IsZero() {
			t.Errorf("by %s: audited as %+v", by, audits)
		}
		if log := s.logged(); strings.Count(log, "\n") != 1 || strings.Contains(log, "until=") ||
			strings.Contains(log, "from=") || strings.Contains(log, "192.0.2") ||
			!strings.Contains(log, "who=ann action=forgive") {
			t.Errorf("by %s: the log says %s", by, log)
		}
	}
}

func TestWhatIsHeldIsNotForgiven(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true},
		nethttp.Rule{Name: "at-once", Limit: limits.Concurrent(1), Key: keyfuncs.Address(keyfuncs.Peer)})
	s.fails(http.StatusUnprocessableEntity, "/api/forgive", `{"Rule":"at-once","Key":"192.0.2.7"}`,
		"released when the requests end")
	if id := s.explain(`{"Key":"192.0.2.7"}`).Rules[0].ID; id != "" {
		t.Error("an explanation offers to forgive it")
	}
	if a := s.audited(); len(a) != 1 || a[0].Err == nil {
		t.Errorf("audited as %+v", a)
	}
}

func TestChangesThatCannotBeMadeSayWhy(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	for _, row := range []struct {
		status           int
		path, body, text string
	}{
		{404, "/api/forgive", `{"ID":"0123"}`, "too old"},
		{404, "/api/forgive", `{"Rule":"none","Key":"a"}`, "no rule"},
		{404, "/api/forgive", `{"Key":"a"}`, "no rule"},
		{404, "/api/forgive", `{"Limiter":"none","Rule":"per-client","Key":"a"}`, "no limiter"},
		{400, "/api/forgive", `{"Rule":"per-client"}`, "which key"},
		{404, "/api/mode", `{"Rule":"none","Mode":"shadow"}`, "no rule"},
		{404, "/api/mode", `{"Mode":"shadow"}`, "no rule"},
		{422, "/api/mode", `{"Rule":"per-client"}`, "want enforce"},
		{422, "/api/mode", `{"Rule":"per-client","Mode":"off"}`, "want enforce"},
		{422, "/api/limit", `{"Rule":"per-client"}`, "limit"},
		{422, "/api/limit", `{"Rule":"per-client","Limit":"0/day"}`, "got 0"},
		{400, "/api/mode", `{"Rule":"per-client","Mode":"shadow","Minutes":-1}`, "1 to 1440"},
		{400, "/api/mode", `{"Rule":"per-client","Mode":"shadow","Minutes":1441}`, "1 to 1440"},
		{400, "/api/limit", `{"Rule":"per-client","Limit":"9/day","Minutes":9223372036854775807}`, "1 to 1440"},
	} {
		s.fails(row.status, row.path, row.body, row.text)
	}
	for _, r := range s.limit.State().Rules {
		if !r.Override.Until.IsZero() {
			t.Errorf("something has changed: %+v", r)
		}
	}
	for _, a := range s.audited() {
		if a.Err == nil {
			t.Errorf("audited as done: %+v", a)
		}
	}
}

func TestAChangeOfARuleEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, admin.Options{Changes: true})
		s.ask("POST", "/api/mode", `{"Rule":"per-client","Mode":"enforce 25%","Why":"too\nmany  calls"}`, nil)
		v := s.snapshot().Rules[0]
		if v.Mode != "enforce 25%" || v.GivenMode != "enforce" || v.Until != time.Now().Add(time.Hour).UnixMilli() ||
			v.Why != "ann: too many calls" {
			t.Errorf("after a change of mode: %+v", v)
		}
		if want := "  - name: per-client\n    mode: enforce 25% # was enforce\n"; v.YAML != want {
			t.Errorf("to write: %q, want %q", v.YAML, want)
		}
		time.Sleep(30 * time.Minute)
		s.ask("POST", "/api/limit", `{"Limiter":"api","Rule":"per-client","Limit":"5/day","Minutes":1440}`, nil)
		v = s.snapshot().Rules[0]
		if v.Mode != "enforce 25%" || v.Limit != "sliding-window 5/1d" ||
			v.Until != time.Now().Add(24*time.Hour).UnixMilli() {
			t.Errorf("after a change of limit, too: %+v", v)
		}
		if want := "  - name: per-client\n    limit: sliding-window 5/1d # was fixed-window 1/1d\n" +
			"    mode: enforce 25% # was enforce\n"; v.YAML != want {
			t.Errorf("to write: %q, want %q", v.YAML, want)
		}
		if err := s.limit.Replace([]nethttp.Rule{perClient(3)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if v = s.snapshot().Rules[0]; v.Limit != "sliding-window 5/1d" || v.GivenLimit != "fixed-window 3/1d" {
			t.Errorf("a reload has ended the change: %+v", v)
		}
		time.Sleep(24 * time.Hour)
		if v = s.snapshot().Rules[0]; v.Limit != "fixed-window 3/1d" || v.Mode != "enforce" || v.Until != 0 ||
			v.YAML != "" {
			t.Errorf("a day later: %+v", v)
		}
		s.ask("POST", "/api/mode", `{"Rule":"per-client","Mode":"shadow"}`, nil)
		s.ask("POST", "/api/clear", `{"Rule":"per-client","Why":"over"}`, nil)
		if v = s.snapshot().Rules[0]; v.Mode != "enforce" || v.Until != 0 {
			t.Errorf("after its end: %+v", v)
		}
		want := []admin.Change{
			{Action: "mode", From: "enforce", To: "enforce 25%", Why: "too many calls"},
			{Action: "limit", From: "fixed-window 1/1d", To: "5/day"},
			{Action: "mode", From: "enforce", To: "shadow"},
			{Action: "clear", From: "shadow", To: "as given", Why: "over"},
		}
		for i, a := range s.audited() {
			if a.Action != want[i].Action || a.From != want[i].From || a.To != want[i].To || a.Why != want[i].Why ||
				a.Who != "ann" || a.Until.IsZero() != (a.Action == "clear") {
				t.Errorf("audit %d: %+v, want %+v", i, a, want[i])
			}
		}
	})
}

func TestANameThatYAMLWouldReadOtherwiseIsQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"per-client": `per-client`, "login": "login", "true": `"true"`, "on": `"on"`, "010": `"010"`, "a: b": `"a: b"`,
		`a"b`: `"a\"b"`, "- a": `"- a"`, "a #b": `"a #b"`,
	} {
		rule := perClient(1)
		rule.Name = name
		s := newSite(t, admin.Options{Changes: true}, rule)
		shadow := core.Shadow
		if err := s.limit.Override(name, core.Override{Mode: &shadow, Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if got := s.snapshot().Rules[0].YAML; !strings.HasPrefix(got, "  - name: "+want+"\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestALongReasonIsCut(t *testing.T) {
	s := newSite(t, admin.Options{Changes: true})
	s.ask("POST", "/api/mode", `{"Rule":"per-client","Mode":"shadow","Why":"`+strings.Repeat("ä", 5000)+`"}`, nil)
	if why := s.audited()[0].Why; len([]rune(why)) != 201 {
		t.Errorf("%d characters", len([]rune(why)))
	}
}
