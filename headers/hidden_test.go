package headers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

func TestTheFieldsSayNothingOfHiddenRules(t *testing.T) {
	secret := published{Name: "secret", Limit: limits.SlidingWindow(limits.PerSecond(7)), Hidden: true}
	policies := []published{secret, perMinute}
	for _, formats := range [][]headers.Format{
		{headers.IETF, headers.Draft6, headers.GitHub}, {headers.Draft7, headers.Discord},
	} {
		w := writer(t, headers.Options{Formats: formats}, policies...)
		for name, o := range map[string]*core.Outcome{
			"allowed": decided(t, policies, allowed(0, 0, time.Second), allowed(30, time.Second, time.Second)),
			"denied": decided(t, policies, denied(0, 3*time.Second, 3*time.Second),
				allowed(30, time.Second, time.Second)),
		} {
			h := http.Header{}
			w.Write(h, o)
			for field, values := range h {
				if text := strings.Join(values, ","); strings.Contains(text, "secret") ||
					strings.Contains(text, "7;w=1") {
					t.Errorf("%s: %s: %s", name, field, text)
				}
			}
			if limit, left := h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"); limit != "100" ||
				left != "30" {
				t.Errorf("%s: X-RateLimit-Limit %q, Remaining %q: want those of the other rule", name, limit, left)
			}
			want := ""
			if name == "denied" {
				want = "3"
			}
			if got := h.Get("Retry-After"); got != want {
				t.Errorf("%s: Retry-After %q, want %q", name, got, want)
			}
		}
	}
}

func TestAnAnswerOfHiddenRulesAloneHasNoFields(t *testing.T) {
	hidden := perMinute
	hidden.Hidden = true
	o := decided(t, []published{hidden}, denied(0, 3*time.Second, 3*time.Second))
	for _, show := range []headers.Show{headers.Always, headers.OnDenial} {
		h := http.Header{}
		options := headers.Options{Formats: []headers.Format{headers.IETF, headers.GitHub}, Show: show}
		writer(t, options, hidden).Write(h, o)
		if len(h) != 1 || h.Get("Retry-After") != "3" {
			t.Errorf("%v", h)
		}
	}
}

// Rules may be replaced while a request is under way. It is answered by those that decided it.
func TestTheRulesThatDecidedSayWhatIsHidden(t *testing.T) {
	hidden := perMinute
	hidden.Hidden = true
	formats := headers.Options{Formats: []headers.Format{headers.IETF, headers.Draft6, headers.GitHub}}
	for _, decides := range []published{perMinute, hidden} {
		o := decided(t, []published{decides}, allowed(30, time.Second, time.Second))
		for _, newest := range []published{perMinute, hidden} {
			h := http.Header{}
			writer(t, formats, newest).Write(h, o)
			if shown := len(h) > 0; shown == decides.Hidden {
				t.Errorf("decided by a rule with Hidden %t, written by one with %t: %v", decides.Hidden, newest.Hidden, h)
			}
		}
	}
}
