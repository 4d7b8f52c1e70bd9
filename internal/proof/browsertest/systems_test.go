package browsertest

import (
	"fmt"
	"strings"
	"testing"
)

// The links open the limits of examples/systems. Each is pressed: the engine understands it, the
// address keeps it, and the picture fits.
func TestTheLimitsOfSystemsOpen(t *testing.T) {
	b := openPlayground(t, "")
	for name, rules := range map[string]string{
		"Stripe":     "Rate + in flight + fleet + fleet rest|Charges + in flight + fleet",
		"GitHub":     "Core + points + concurrent|Core + points + concurrent",
		"Discord":    "Messages + global|Reads + global",
		"Cloudflare": "Flood|Customer",
		"API Gateway": "Account + stage prod + plan rate + plan quota|Account + stage prod + method orders + " +
			"plan rate + plan quota",
		"nginx":            "Plain|Burst|Nodelay|Delay",
		"Envoy":            "Local + source + log in|Local + source + orders",
		"a log-in":         "Growing|Plain",
		"a language model": "Tokens|Tokens",
	} {
		link := `[...document.querySelectorAll('.presets a')].find(e => e.textContent === '` + name + `')`
		value[bool](b, link+`.click(), true`)
		b.until(name+" is chosen", link+`.getAttribute('aria-current') === 'true'`)
		got := value[string](b, `[...document.querySelectorAll('.panel h3')].map(e => e.textContent).join('|')`)
		if got != rules {
			t.Errorf("%s: the panels are %s, want %s", name, got, rules)
		}
		if got := value[string](b,
			`[...document.querySelectorAll('.wrong, .mistake')].map(e => e.textContent).join('')`); got != "" {
			t.Errorf("%s: %s", name, got)
		}
		want := value[string](b, `new URLSearchParams(`+link+`.search).get('speed') ?? '1'`)
		if got := value[string](b, `document.getElementById('times').textContent`); got != "×"+want {
			t.Errorf("%s: time passes %s, want ×%s", name, got, want)
		}
		b.until(name+": requests are decided",
			`[...document.querySelectorAll('.panel')].every(p => Number(p.querySelector('.counts .allowed').textContent) > 0)`)
		n := 1 + strings.Count(strings.Split(rules, "|")[0], " + ")
		b.until(name+": the answer has its rules",
			fmt.Sprintf(`document.querySelectorAll('#said li').length === %d`, n))
		b.shotWhole("playground-" + strings.ToLower(strings.ReplaceAll(name, " ", "-")))
	}
}

// Eight of twelve go on at once, and the ninth has its turn.
func TestWhatIsNotDelayedIsNotSaidToWait(t *testing.T) {
	b := openPlayground(t, "?panel=delay:+leaky-queue+10/s+burst+21+undelayed+8&traffic=script&script=1s+x12")
	b.press("#pause")
	b.press("#restart")
	b.press(`[data-by="1000000"]`)
	b.until("twelve are decided", panel("Delay")+`.querySelector('.allowed').textContent === '12'`)
	got := value[string](b, panel("Delay")+`.querySelector('.state').textContent`)
	if got != "9 of 21 left, a wait of 400 ms" {
		t.Errorf("the panel says %q", got)
	}
}
