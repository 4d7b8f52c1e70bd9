package playground_test

import (
	"fmt"
	"html"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/playground/lab"
	"github.com/weir-go/weir/core"
)

// link is a link to a setup of the page.
type link struct {
	name  string
	query url.Values
}

func links(t *testing.T) (all []link) {
	t.Helper()
	paragraphs := regexp.MustCompile(`(?s)<p class="presets">.*?</p>`).FindAllString(sources(t)["index.html"], -1)
	for _, m := range regexp.MustCompile(`<a href="\?([^"]*)"[^>]*>([^<]*)</a>`).FindAllStringSubmatch(
		strings.Join(paragraphs, ""), -1) {
		query, err := url.ParseQuery(html.UnescapeString(m[1]))
		if err != nil {
			t.Fatalf("%s: %v", m[2], err)
		}
		all = append(all, link{m[2], query})
	}
	return all
}

// Every link shows what its limits do: in what there is to see, each panel allows and denies.
func TestPresetsShowWhatTheirLimitsDo(t *testing.T) {
	all := links(t)
	if len(all) < 15 {
		t.Errorf("found %d links", len(all))
	}
	for _, p := range all {
		of := p.query.Get
		l, mistakes := lab.New(lab.Setup{
			Limit: of("limit"), Panels: p.query["panel"], Traffic: of("traffic"), Rate: of("rate"), Size: of("size"),
			Script: of("script"),
			Cost:   of("cost"), Lasts: of("lasts"), Retry: of("retry"), Span: of("span"),
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
		if slices.ContainsFunc(counts, func(c count) bool { return c.allowed == 0 }) ||
			!slices.ContainsFunc(counts, func(c count) bool { return c.denied > 0 }) {
			t.Errorf("%s: allowed and denied are %v", p.name, fmt.Sprint(counts))
		}
	}
}

// Every link says what it shows, and those of systems name their program. Each program has a link.
func TestLinksSayWhatTheyShow(t *testing.T) {
	index := sources(t)["index.html"]
	paragraphs := regexp.MustCompile(`(?s)<p class="presets">.*?</p>`).FindAllString(index, -1)
	abouts := regexp.MustCompile(`<a href="[^"]*"(?: data-program="[^"]+")? data-about="[^"]+\.">`)
	if got, want := len(abouts.FindAllString(strings.Join(paragraphs, ""), -1)), len(links(t)); got != want {
		t.Errorf("%d of %d links say what they show", got, want)
	}
	var named []string
	for _, m := range regexp.MustCompile(`data-program="([^"]*)"`).FindAllStringSubmatch(index, -1) {
		named = append(named, m[1])
	}
	programs, err := os.ReadDir("../../../examples/systems")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if !slices.Contains(named, p.Name()) {
			t.Errorf("no link has the limits of examples/systems/%s", p.Name())
		}
	}
	if len(named) != len(programs) {
		t.Errorf("links name the programs %v, and there are %d", named, len(programs))
	}
}
