package playground_test

import (
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/playground/lab"
	"github.com/weir-go/weir/core"
)

const systems = "../../../examples/systems"

// presets are the limits of the page that are those of programs in examples/systems. A panel is
// rules as its program or its policy file has them: name, or name=where, if one name has several.
var presets = []struct {
	name, system string
	panels       []string
}{
	{"Stripe", "stripe", []string{"rate in-flight fleet fleet-rest", "charges in-flight fleet"}},
	{"GitHub", "github", []string{"core=/1 points concurrent", "core=ann/1 points concurrent"}},
	{"Discord", "discord", []string{"messages global", "reads global"}},
	{"Cloudflare", "cloudflare", []string{"flood", "customer"}},
	{"API Gateway", "apigateway", []string{"account stage-prod plan-rate=plan-rate/basic plan-quota=plan-quota/basic", "account stage-prod method-orders plan-rate=plan-rate/gold plan-quota=plan-quota/gold"}},
	{"nginx", "nginx", []string{"plain", "burst", "nodelay", "delay"}},
	{"Envoy", "envoy", []string{"local source log-in", "local source orders"}},
	{"a log-in", "login", []string{"user-minute user-quarter user-day", "user-minute", "user-quarter", "user-day"}},
	{"a language model", "llm", []string{"tokens=trial/2", "tokens=pro/2"}},
}

// link is a link to a setup of the page.
type link struct {
	name  string
	query url.Values
}

func links(t *testing.T) (all []link) {
	t.Helper()
	paragraphs := regexp.MustCompile(`(?s)<p class="presets">.*?</p>`).FindAllString(sources(t)["index.html"], -1)
	for _, m := range regexp.MustCompile(`<a href="\?([^"]*)">([^<]*)</a>`).FindAllStringSubmatch(strings.Join(paragraphs, ""), -1) {
		query, err := url.ParseQuery(html.UnescapeString(m[1]))
		if err != nil {
			t.Fatalf("%s: %v", m[2], err)
		}
		all = append(all, link{m[2], query})
	}
	return all
}

func TestPresetsHaveTheLimitsOfTheSystems(t *testing.T) {
	all := links(t)
	for _, p := range presets {
		rules := rulesOf(t, p.system)
		var want []string
		for _, panel := range p.panels {
			var texts []string
			for _, name := range strings.Fields(panel) {
				name, where, ok := strings.Cut(name, "=")
				if !ok {
					where = name
				}
				text := rules[where]
				if text == "" {
					t.Fatalf("%s has no rule %q, but %q", p.system, where, rules)
				}
				texts = append(texts, name+": "+text)
			}
			want = append(want, strings.Join(texts, " and "))
		}
		i := slices.IndexFunc(all, func(l link) bool { return l.name == p.name })
		if i < 0 || !slices.Equal(all[i].query["panel"], want) {
			query := url.Values{"panel": want}.Encode()
			t.Errorf("index.html: the link %q has not the limits of examples/systems/%s. Its address begins with\n?%s", p.name, p.system, html.EscapeString(query))
		}
	}
	files, err := filepath.Glob(systems + "/*")
	if err != nil || len(files) != len(presets) {
		t.Errorf("there are %d systems and %d presets of them (%v)", len(files), len(presets), err)
	}
}

// Every link shows what its limits do: in what there is to see, each panel allows and denies.
func TestPresetsShowWhatTheirLimitsDo(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/playground.md")
	if err != nil {
		t.Fatal(err)
	}
	all := links(t)
	if len(all) < len(presets)+6 {
		t.Errorf("found %d links", len(all))
	}
	for _, p := range all {
		if !strings.Contains(string(guide), "\n| "+p.name+" | ") {
			t.Errorf("docs/playground.md does not say what %q shows", p.name)
		}
		of := p.query.Get
		l, mistakes := lab.New(lab.Setup{
			Limit: of("limit"), Panels: p.query["panel"], Traffic: of("traffic"), Rate: of("rate"), Size: of("size"), Script: of("script"),
			Cost: of("cost"), Lasts: of("lasts"), Retry: of("retry"), Span: of("span"),
		})
		if len(mistakes) > 0 {
			t.Errorf("%s: %v", p.name, mistakes)
			continue
		}
		type count struct{ allowed, denied int }
		counts := make([]count, len(l.Panels()))
		for l.Now() < l.Span() {
			l.Advance(min(l.Span()/100+1, l.Span()-l.Now()))
			for _, e := range l.Events() {
				switch {
				case e.Kind != lab.Request:
				case e.Verdict == core.Allowed:
					counts[e.Panel].allowed++
				default:
					counts[e.Panel].denied++
				}
			}
		}
		t.Logf("%s: %v", p.name, counts)
		if slices.ContainsFunc(counts, func(c count) bool { return c.allowed == 0 }) || !slices.ContainsFunc(counts, func(c count) bool { return c.denied > 0 }) {
			t.Errorf("%s: allowed and denied are %v", p.name, fmt.Sprint(counts))
		}
	}
}
